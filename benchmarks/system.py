"""A whole Horarium in processes of its own: `horarium serve` and `horarium worker`, over a database that is there already."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import harness

ROOT = Path(__file__).parent.parent


@dataclass(slots=True)
class System:
    """The processes of one run of a benchmark."""

    folder: Path
    database_url: str
    url: str
    key_file: Path
    settings: dict[str, str] = field(default_factory=dict)
    servers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The API key."""
        return self.key_file.read_text().strip()

    def start_server(self) -> None:
        """Start the server and wait until it answers."""
        port = self.url.rsplit(":", 1)[1]
        environment = {"HORARIUM_DATABASE_URL": self.database_url, **self.settings}
        log = (self.folder / "server.log").open("ab")
        child = subprocess.Popen(
            harness.python("-m", "horarium", "serve", "--port", port, "--first-key-file", str(self.key_file)),
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
                return
            log.write(line)
        raise RuntimeError(f"the server did not start, see {self.folder}/server.log")

    def start_worker(self, *arguments: str) -> None:
        """Start a worker process."""
        environment = {"HORARIUM_URL": self.url, "HORARIUM_API_KEY_FILE": str(self.key_file)}
        log = (self.folder / "worker.log").open("ab")
        self.workers.append(
            subprocess.Popen(
                harness.python("-m", "horarium", "worker", *arguments),
                env={**os.environ, **environment},
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )
        )

    def stop(self) -> None:
        """Stop everything, workers first."""
        for child in [*self.workers, *self.servers]:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
            try:
                child.wait(40)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def cpu_seconds(child: subprocess.Popen[bytes]) -> float:
    """CPU time that a process has used, user and system."""
    fields = Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(child: subprocess.Popen[bytes]) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{child.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


@contextmanager
def system(folder: Path, database_url: str, **settings: str) -> Iterator[System]:
    """A system whose parts are started by the benchmark and all stopped at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    named = {f"HORARIUM_{name.upper()}": value for name, value in settings.items()}
    made = System(folder, database_url, f"http://127.0.0.1:{port}", folder / "api_key", named)
    try:
        yield made
    finally:
        made.stop()
