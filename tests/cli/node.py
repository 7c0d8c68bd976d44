"""`horarium serve` and `horarium worker` as processes of their own: what the command line talks to in earnest."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
HANDLERS = "tests.cli.handlers:h"
READY = re.compile(r"HORARIUM READY url=(\S+)")


@dataclass(frozen=True, slots=True)
class Node:
    """Where it answers, an admin's key in a file, and the database behind it."""

    url: str
    key_file: Path
    database_url: str

    @property
    def environment(self) -> dict[str, str]:
        """What a client or worker is told."""
        return {"HORARIUM_URL": self.url, "HORARIUM_API_KEY_FILE": str(self.key_file)}


@contextmanager
def running(database_url: str, directory: Path) -> Iterator[Node]:
    """A node and a worker for `tests.cli.handlers` and for commands, until the block ends."""
    key_file = directory / "first.key"
    flags = ["--port", "0", "--log-level", "error", "--first-key-file", str(key_file)]
    with process("serve", *flags, HORARIUM_DATABASE_URL=database_url) as serving:
        node = Node(awaited(serving), key_file, database_url)
        with process("worker", HANDLERS, "--commands", "--grace", "1s", **node.environment):
            yield node


@contextmanager
def process(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A command of `horarium`; told to stop at the end, it must do so in order."""
    command = [sys.executable, "-m", "horarium", *arguments]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as started:
        try:
            yield started
            if started.poll() is None:
                started.send_signal(signal.SIGTERM)
                printed, _ = started.communicate(timeout=30)
                assert started.returncode in {0, -signal.SIGTERM}, printed
        finally:
            started.kill()


def awaited(serving: subprocess.Popen[str]) -> str:
    """The address that a server prints once it answers."""
    assert serving.stdout is not None
    printed = []
    for line in serving.stdout:
        printed.append(line)
        if found := READY.search(line):
            return found[1]
    raise AssertionError("".join(printed))
