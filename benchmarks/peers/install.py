"""Where the peers live: an environment each below `.installed/`, made by `make peers` from pinned requirements.

Nothing of this is needed by Horarium or its tests. Python peers get a virtual environment with hashes checked; those on Node
share one `node_modules`, which brings a Node of its own, since theirs need a newer one than many systems have.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
INSTALLED = FOLDER / ".installed"
REQUIREMENTS = FOLDER / "requirements"
HINT = "not installed: make peers"


@dataclass(frozen=True, slots=True)
class Environment:
    """Where some packages are installed."""

    name: str

    @property
    def folder(self) -> Path:
        """Its folder."""
        return INSTALLED / self.name

    @property
    def programs(self) -> Path:
        """Where the programs are that are run in it."""
        return FOLDER / "programs"

    def missing(self, packages: Sequence[str]) -> str | None:
        """None, or why programs cannot be run in it."""
        raise NotImplementedError

    def interpreter(self) -> list[str]:
        """What runs a program in it."""
        raise NotImplementedError

    def versions(self, packages: Sequence[str]) -> dict[str, str]:
        """The versions of some packages in it."""
        raise NotImplementedError

    def make(self) -> str | None:
        """Make it; returns why it cannot be made, or None. CalledProcessError when the installation fails."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Python(Environment):
    """A virtual environment. `at_least` is the oldest Python that the peer runs on."""

    at_least: tuple[int, int] = (3, 11)

    def missing(self, packages: Sequence[str]) -> str | None:
        return None if self._done.exists() else HINT

    def interpreter(self) -> list[str]:
        return [str(self.folder / "bin" / "python")]

    def versions(self, packages: Sequence[str]) -> dict[str, str]:
        code = (
            "import importlib.metadata as m, json, platform, sys;"
            "print(json.dumps({n: m.version(n) for n in sys.argv[1:]} | {'Python': platform.python_version()}))"
        )
        found: dict[str, str] = json.loads(_output([*self.interpreter(), "-c", code, *packages]))
        return found

    def make(self) -> str | None:
        python = _python(self.at_least)
        if python is None:
            return f"no Python {self.at_least[0]}.{self.at_least[1]} or later was found"
        requirements = REQUIREMENTS / f"{self.name}.txt"
        if self._done.exists() and self._done.read_text() == requirements.read_text():
            return None
        shutil.rmtree(self.folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(self.folder)], check=True)
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        subprocess.run([*self.interpreter(), *install, "--requirement", str(requirements)], check=True)
        self._done.write_text(requirements.read_text())
        return None

    @property
    def _done(self) -> Path:
        return self.folder / "installed.txt"


@dataclass(frozen=True, slots=True)
class Node(Environment):
    """A folder with `node_modules`, and beside it a link to the programs: an import is looked for above the importing file."""

    @property
    def programs(self) -> Path:
        """By way of the link."""
        return self.folder / "programs"

    def missing(self, packages: Sequence[str]) -> str | None:
        if all((self._modules / package / "package.json").exists() for package in (*packages, "node")):
            return None
        return HINT if shutil.which("npm") else "npm was not found"

    def interpreter(self) -> list[str]:
        return [str(self._modules / "node" / "bin" / "node"), "--preserve-symlinks", "--preserve-symlinks-main"]

    def versions(self, packages: Sequence[str]) -> dict[str, str]:
        found = {}
        for package in packages:
            found[package] = json.loads((self._modules / package / "package.json").read_text("utf-8"))["version"]
        return {**found, "Node": _output([*self.interpreter(), "--version"]).strip().lstrip("v")}

    def make(self) -> str | None:
        npm = shutil.which("npm")
        if npm is None:
            return "npm was not found"
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(REQUIREMENTS / "package.json", self.folder / "package.json")
        if not self.programs.is_symlink():
            self.programs.symlink_to(FOLDER / "programs")
        command = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
        subprocess.run(command, cwd=self.folder, check=True)
        return None

    @property
    def _modules(self) -> Path:
        return self.folder / "node_modules"


NODE = Node("node")


def _python(at_least: tuple[int, int]) -> str | None:
    if sys.version_info >= at_least:
        return sys.executable
    names = [f"python3.{minor}" for minor in range(at_least[1], at_least[1] + 4)]
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    installed = [str(path) for path in sorted(pyenv.glob("3.*/bin/python"))]
    for candidate in [*filter(None, map(shutil.which, names)), *installed]:
        if _runs(candidate, at_least):
            return candidate
    return None


def _runs(python: str, at_least: tuple[int, int]) -> bool:
    code = f"import sys; sys.exit(sys.version_info < {at_least})"
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
