"""The child processes of `horarium dev`: started, watched, and stopped before the server is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 5
# What comes after the grace period: results are reported, connections closed.
KILL_AFTER_S = GRACE_S + 7


@dataclass(frozen=True, slots=True)
class Command:
    """A command of `horarium`. Its output goes to `log`, or where `horarium dev`'s own goes."""

    title: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    log: Path | None = None


class Children:
    """Runs commands until they are told to stop, and says so when one ends by itself.

    `start` must be called in the main thread: when the thread that started a child ends, Linux tells the child to stop.
    """

    def __init__(self) -> None:
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, command: Command) -> None:
        """Start one; Ctrl-C in the terminal does not reach it."""
        with contextlib.ExitStack() as stack:
            output = None if command.log is None else stack.enter_context(command.log.open("ab"))
            self._running[command.title] = subprocess.Popen(  # noqa: S603 - this very program
                [sys.executable, "-m", "horarium.cli.dev_child", str(os.getpid()), *command.arguments],
                env={**os.environ, **command.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def ended(self) -> dict[str, int]:
        """Those that have ended since the last call, with their exit status."""
        gone = {title: process.returncode for title, process in self._running.items() if process.poll() is not None}
        for title in gone:
            del self._running[title]
        return gone

    async def stop(self) -> None:
        """Tell all to stop, and wait for them; who takes too long is killed."""
        processes = list(self._running.values())
        for process in processes:
            process.terminate()
        await asyncio.gather(*(asyncio.to_thread(_wait, process) for process in processes))
        self._running.clear()


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(KILL_AFTER_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
