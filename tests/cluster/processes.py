"""Real processes for cluster tests: servers and workers that can be killed, frozen and started again at the same address."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp
import asyncpg

ROOT = Path(__file__).parent.parent.parent
SAFETY_S = 120


def free_port() -> int:
    """A port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Process:
    """One `horarium` command as a child process; its output is kept in a file."""

    def __init__(self, log: Path, *arguments: str, environment: Mapping[str, str]) -> None:
        self._log = log
        self._arguments = arguments
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **environment}
        self._child: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended since it was started."""
        return self._child is not None and self._child.returncode is None

    async def start(self, ready: bytes | None = None) -> Self:
        """Start it, and wait for a line of its error output that holds `ready`."""
        with self._log.open("ab") as log:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "horarium",
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log if ready is None else asyncio.subprocess.PIPE,
                env=self._environment,
                cwd=ROOT,
            )
        if ready is not None:
            await self._wait_for(ready)
        return self

    async def _wait_for(self, ready: bytes) -> None:
        assert self._child is not None and self._child.stderr is not None
        seen = b""
        async with asyncio.timeout(SAFETY_S):
            while ready not in seen:
                line = await self._child.stderr.readline()
                seen += line
                assert line, f"ended before it was ready:\n{seen.decode()}\n{self._log.read_text()}"
        self._drain = asyncio.create_task(self._keep(self._child.stderr))

    async def _keep(self, stream: asyncio.StreamReader) -> None:
        """Read on, so that the child never blocks; what it says goes to its log."""
        with self._log.open("ab", buffering=0) as log:
            while line := await stream.readline():
                log.write(line)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to exactly this process."""
        os.kill(self.pid, number)

    async def kill(self) -> None:
        """kill -9, and wait for its end."""
        assert self._child is not None
        if self._child.returncode is None:
            self.send(signal.SIGKILL)
        await self._child.wait()

    async def wait(self) -> int:
        """Wait for its end; returns the exit status."""
        assert self._child is not None
        return await self._child.wait()

    async def stop(self) -> int:
        """SIGTERM, and wait for its end; returns the exit status."""
        assert self._child is not None
        if self._child.returncode is None:
            self.send(signal.SIGTERM)
        async with asyncio.timeout(SAFETY_S):
            return await self._child.wait()

    async def end(self) -> None:
        """Whatever state it is in: be gone."""
        if self._child is not None and self._child.returncode is None:
            self.send(signal.SIGCONT)
            await self.kill()


class Installation:
    """One server over one database, and any number of workers, in a folder of its own."""

    def __init__(self, folder: Path, database_url: str, **settings: str) -> None:
        self.folder = folder
        self.database_url = database_url
        self.rows_url = database_url  # where the rows are looked at; another address when the server uses a pooler
        self.environment: dict[str, str] = {}  # of the server, besides its settings
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.worker_urls = self.url  # where workers ask; several addresses where there are several nodes
        self.key_file = folder / "api_key"
        self._settings = {f"HORARIUM_{name.upper()}": value for name, value in settings.items()}
        self._processes: list[Process] = []
        self._session: aiohttp.ClientSession | None = None

    async def start_server(self, *more: str) -> Process:
        """Start the server, always at the same address; `more` are further arguments."""
        environment = {"HORARIUM_DATABASE_URL": self.database_url, **self._settings, **self.environment}
        arguments = ["serve", "--port", str(self.port), "--first-key-file", str(self.key_file), *more]
        server = Process(self.folder / "server.log", *arguments, environment=environment)
        self._processes.append(server)
        return await server.start(b"HORARIUM READY")

    async def start_worker(self, *arguments: str, name: str = "worker", **environment: str) -> Process:
        """Start a worker of the test's own handlers, or with other arguments."""
        environment = {
            "HORARIUM_URL": self.worker_urls,
            "HORARIUM_API_KEY_FILE": str(self.key_file),
            "CLUSTER_TEST_FOLDER": str(self.folder),
            **environment,
        }
        arguments = arguments or ("tests.cluster.handlers:h", "--slots", "200")
        worker = Process(self.folder / f"{name}.log", "worker", *arguments, environment=environment)
        self._processes.append(worker)
        return await worker.start()

    async def call(self, method: str, path: str, body: Any = None, expect: int | None = None) -> Any:
        """Ask the API; asserts the status when one is expected."""
        if self._session is None:
            self._session = aiohttp.ClientSession()
        headers = {"Authorization": f"Bearer {self.key_file.read_text().strip()}"}
        async with self._session.request(method, self.url + path, json=body, headers=headers) as answer:
            content = await answer.json() if answer.content_type.endswith("json") else await answer.text()
            if expect is not None:
                assert answer.status == expect, (answer.status, content)
            return content

    @asynccontextmanager
    async def database(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection to the database, to look at the rows."""
        connection = await asyncpg.connect(self.rows_url, server_settings={"search_path": "horarium, public"})
        try:
            yield connection
        finally:
            await connection.close()

    async def close(self) -> None:
        """End everything that was started here."""
        for process in reversed(self._processes):
            await process.end()
        if self._session is not None:
            await self._session.close()


@asynccontextmanager
async def installation(folder: Path, database_url: str, **settings: str) -> AsyncIterator[Installation]:
    """A running server in a folder; workers are the test's to start."""
    made = Installation(folder, database_url, **settings)
    try:
        await made.start_server()
        yield made
    finally:
        await made.close()
