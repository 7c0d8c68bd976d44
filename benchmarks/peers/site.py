"""Where a peer works once: a fresh database, its processes, and the notes that its handlers leave."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import tempfile
import time
from array import array
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NamedTuple

import asyncpg
import psutil

from benchmarks import harness

ROOT = Path(__file__).parent.parent.parent
STOPS_WITHIN_S = 10
LOOK_EVERY_S = 0.002
A_NOTE = 2 * 8  # bytes
LAST_LINES = 2_000  # characters of a process's log that an error shows

_numbers = count(1)


class Note(NamedTuple):
    """A handler of the job with this number began."""

    number: int
    at: float


class BrokenPeerError(Exception):
    """A peer did not do what it was asked for: what it said stands in the text."""


@dataclass(slots=True)
class Site:
    """One use of a peer. `work` is what for: drain, start_lag or minute_mark; `processes` how many workers.

    `settings` are added to the environment of every program.
    """

    folder: Path
    database_url: str
    connection: asyncpg.Connection
    work: str
    processes: int
    schedules: int = 0
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    others: list[subprocess.Popen[bytes]] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    is_paused: bool = False

    def start(self, command: Sequence[str], *, is_worker: bool = True, log: str = "workers.log", **more: str) -> None:
        """Start a process, the leader of a group of its own. Servers and brokers are no workers: they are not paused.

        `more` is added to its environment.
        """
        with (self.folder / log).open("ab") as written:
            child = subprocess.Popen(
                command, env=self.environment(more), cwd=ROOT, stdout=written, stderr=written, start_new_session=True
            )
        (self.workers if is_worker else self.others).append(child)

    async def call(self, command: Sequence[str], **environment: str) -> None:
        """Run a program to its end. BrokenPeerError when it fails."""
        with (self.folder / "calls.log").open("ab") as log:
            child = await asyncio.create_subprocess_exec(
                *command, env=self.environment(environment), cwd=ROOT, stdout=log, stderr=log
            )
            if await child.wait():
                raise BrokenPeerError(f"{' '.join(command[1:4])} failed:\n{self.last_words()}")

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """What every program of a peer is told."""
        return {
            **os.environ,
            "PEER_DATABASE_URL": self.database_url,
            "PEER_FOLDER": str(self.folder),
            "PEER_WORK": self.work,
            "PEER_SCHEDULES": str(self.schedules),
            **self.settings,
            **more,
        }

    def pause(self) -> None:
        """Stop the workers where they are."""
        self.is_paused = True
        self._signal(self.workers, signal.SIGSTOP)

    def resume(self) -> None:
        """Have them go on."""
        self.is_paused = False
        self._signal(self.workers, signal.SIGCONT)

    def stop(self) -> None:
        """End all processes, workers first."""
        for children in (self.workers, self.others):
            self._signal(children, signal.SIGCONT)
            self._signal(children, signal.SIGTERM)
            deadline = time.monotonic() + STOPS_WITHIN_S
            for child in children:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(max(0.0, deadline - time.monotonic()))
            self._signal(children, signal.SIGKILL)
            for child in children:
                child.wait()

    def _signal(self, children: Sequence[subprocess.Popen[bytes]], number: signal.Signals) -> None:
        for child in children:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, number)

    # ── notes ──

    def noted(self) -> int:
        """How many notes there are."""
        return sum(path.stat().st_size for path in self._files()) // A_NOTE

    def noting(self) -> int:
        """How many processes have left notes."""
        return sum(1 for path in self._files() if path.stat().st_size)

    def notes(self) -> list[Note]:
        """All notes, in the order of time."""
        found: list[Note] = []
        for path in self._files():
            numbers = array("d")
            numbers.frombytes(path.read_bytes())
            found += [Note(int(number), at) for number, at in zip(numbers[::2], numbers[1::2], strict=True)]
        return sorted(found, key=lambda note: note.at)

    async def until_noted(self, number: int, patience_s: float) -> None:
        """Wait for so many notes. BrokenPeerError when they do not come, or a process has ended."""
        deadline = time.monotonic() + patience_s
        while self.noted() < number:
            self.check_alive()
            if time.monotonic() > deadline:
                raise BrokenPeerError(
                    f"{self.noted()} of {number} jobs began in {patience_s:g} s:\n{self.last_words()}"
                )
            await asyncio.sleep(LOOK_EVERY_S)

    def pids(self) -> list[int]:
        """All processes, with those that they have started."""
        roots = [psutil.Process(child.pid) for child in (*self.workers, *self.others)]
        return [process.pid for root in roots for process in (root, *root.children(recursive=True))]

    def check_alive(self) -> None:
        """BrokenPeerError when a process has ended by itself."""
        for child in (*self.workers, *self.others):
            if child.poll() is not None:
                raise BrokenPeerError(f"a process ended with {child.returncode}:\n{self.last_words()}")

    def last_words(self) -> str:
        """The end of what the processes wrote."""
        return "".join(path.read_text(errors="replace")[-LAST_LINES:] for path in self.folder.glob("*.log"))

    def _files(self) -> list[Path]:
        return list(self.folder.glob("notes-*"))


@asynccontextmanager
async def fresh(cluster_url: str, name: str, work: str, processes: int, schedules: int = 0) -> AsyncIterator[Site]:
    """A database and a folder of their own, gone afterwards, with all processes."""
    database = f"{name.replace('-', '_')}_{next(_numbers)}"
    url = await harness.create_database(cluster_url, database)
    connection = await asyncpg.connect(url)
    with tempfile.TemporaryDirectory(prefix="horarium-peers-", ignore_cleanup_errors=True) as folder:
        site = Site(Path(folder), url, connection, work, processes, schedules)
        try:
            yield site
        finally:
            site.stop()
            await connection.close()
            await _drop(cluster_url, database)


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _drop(cluster_url: str, database: str) -> None:
    connection = await asyncpg.connect(cluster_url)
    await connection.execute(f"DROP DATABASE {database} WITH (FORCE)")
    await connection.close()
