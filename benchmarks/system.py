"""A whole Horarium in processes of its own: `horarium serve` and `horarium worker`, over a database that is there already."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import psutil

from benchmarks import harness

ROOT = Path(__file__).parent.parent
STOPS_WITHIN_S = 40


@dataclass(slots=True)
class System:
    """The processes of one run of a benchmark. `urls` are the addresses of the servers, in the order of their start."""

    folder: Path
    database_url: str
    key_file: Path
    settings: dict[str, str] = field(default_factory=dict)
    urls: list[str] = field(default_factory=list)
    servers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The address of the first server."""
        return self.urls[0]

    @property
    def key(self) -> str:
        """The API key."""
        return self.key_file.read_text().strip()

    def start_server(self) -> None:
        """Start a server, the first or a further one, and wait until it answers."""
        port = _free_port()
        environment = {"HORARIUM_DATABASE_URL": self.database_url, **self.settings}
        log = (self.folder / "server.log").open("ab")
        child = subprocess.Popen(
            harness.python("-m", "horarium", "serve", "--port", str(port), "--first-key-file", str(self.key_file)),
            env={**os.environ, **environment},
            cwd=ROOT,
            stdout=log,
            stderr=subprocess.PIPE,
        )
        self.servers.append(child)
        assert child.stderr is not None
        for line in child.stderr:
            if b"HORARIUM READY" in line:
                # From here on the pipe goes to a reader that keeps it empty.
                subprocess.Popen(["cat"], stdin=child.stderr, stdout=log)
                self.urls.append(f"http://127.0.0.1:{port}")
                return
            log.write(line)
            log.flush()
        raise RuntimeError(f"the server did not start:\n{(self.folder / 'server.log').read_text()}")

    def start_worker(self, *arguments: str, key_file: Path | None = None, first: int = 0, **environment: str) -> None:
        """Start a worker process of the benchmarks' handlers, or of what else is named.

        It knows all servers and asks the one with the number `first`. `environment` is added to its own.
        """
        urls = ",".join([*self.urls[first:], *self.urls[:first]])
        own = {"HORARIUM_URL": urls, "HORARIUM_API_KEY_FILE": str(key_file or self.key_file)}
        log = (self.folder / "worker.log").open("ab")
        self.workers.append(
            subprocess.Popen(
                harness.python("-m", "horarium", "worker", "benchmarks.handlers:h", *arguments),
                env={**os.environ, "BENCH_FOLDER": str(self.folder), **own, **environment},
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )
        )

    @property
    def pids(self) -> list[int]:
        """All processes, servers and workers."""
        return [child.pid for child in (*self.servers, *self.workers)]

    def stop_workers(self) -> None:
        """Let the workers finish and end; what they noted is in their files then."""
        _stop(self.workers)

    def stop(self) -> None:
        """Stop everything, workers first."""
        _stop(self.workers)
        _stop(self.servers)


def _stop(children: list[subprocess.Popen[bytes]]) -> None:
    for child in children:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
    for child in children:
        try:
            child.wait(STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


async def postgres(connection: asyncpg.Connection) -> list[int]:
    """The processes of PostgreSQL, but not the one that serves this connection: looking on is no part of the work."""
    own: int = await connection.fetchval("SELECT pg_backend_pid()")
    postmaster = psutil.Process(own).parent()
    assert postmaster is not None
    return [postmaster.pid, *(child.pid for child in postmaster.children() if child.pid != own)]


def cpu_of(pids: Iterable[int]) -> float:
    """CPU time that some processes have used; one that has ended has used none."""
    used = 0.0
    for pid in pids:
        with suppress(FileNotFoundError):
            used += cpu_seconds(pid)
    return used


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


@contextmanager
def system(database_url: str, **settings: str) -> Iterator[System]:
    """A system in a folder of its own, whose parts are started by the benchmark and all stopped at the end.

    `settings` are those of the servers (`lookahead="1s"`).
    """
    named = {f"HORARIUM_{name.upper()}": value for name, value in settings.items()}
    with tempfile.TemporaryDirectory(prefix="horarium-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        made = System(folder, database_url, folder / "api_key", {"HORARIUM_LOG_LEVEL": "warning", **named})
        try:
            yield made
        finally:
            made.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
