"""The tour of the README, carried out to the letter against `horarium dev`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rules import pages, tree

README = tree.ROOT / "README.md"
BIN = Path(sys.executable).parent
PATIENCE_S = 60

pytestmark = pytest.mark.cluster


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A clone, as far as the tour needs one: its virtual environment stands in it."""
    (tmp_path / ".venv").symlink_to(BIN.parent)
    return tmp_path


@pytest.fixture
def environment(directory: Path) -> dict[str, str]:
    """Nothing of the machine's own Horarium: no settings, a profile of the tour's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HORARIUM_")}
    return {**kept, "XDG_CONFIG_HOME": str(directory / "config"), "HORARIUM_EARLY_CLAIM": "100ms"}


@pytest.fixture
def port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def running(directory: Path, environment: dict[str, str], port: int) -> Iterator[None]:
    """`make dev`, by the command that it calls."""
    with subprocess.Popen(
        [BIN / "horarium", "dev", "--port", str(port)],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as dev:
        assert dev.stdout is not None
        assert any(line.startswith("HORARIUM READY") for line in dev.stdout)
        yield
        dev.send_signal(signal.SIGINT)
        dev.stdout.read()
    assert dev.returncode == 0


def script(port: int) -> str:
    """The blocks of the tour as one program: shell is run, the Python file is saved."""
    tour = README.read_text("utf-8").split("## A tour", 1)[1].split("\n## ", 1)[0]
    parts = ["set -eu", "trap 'kill %1 && wait' EXIT"]
    for block in pages.blocks(README, "sh", "python"):
        if block.text not in tour:
            continue
        parts.append(f"cat > tour.py <<'END'\n{block.text}END" if block.language == "python" else block.text)
    return "\n".join(parts).replace("127.0.0.1:8080", f"127.0.0.1:{port}")


@pytest.mark.usefixtures("running")
def test_the_tour_works(directory: Path, environment: dict[str, str], port: int) -> None:
    completed = subprocess.run(
        ["bash", "-c", script(port)],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    for expected in ("index.rebuild", "sent", "is succeeded", "Paused cache.warm"):
        assert expected in completed.stdout + completed.stderr, expected
