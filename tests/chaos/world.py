"""The processes of an installation that faults happen to: PostgreSQL servers, nodes, workers, in one folder."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

from horarium.embedded import EmbeddedCluster
from tests.cluster import processes

SLOTS = 20
CALL_S = 10.0


@dataclass
class Node:
    """A server at an address of its own."""

    name: str
    port: int
    process: processes.Process

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass
class Size:
    """How large the installation is."""

    databases: int = 2
    nodes: int = 3
    workers: int = 20


@dataclass
class World:
    """Everything that runs; `calm` is set while no fault is under way."""

    folder: Path
    size: Size
    chance: random.Random
    clusters: list[EmbeddedCluster] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    workers: list[processes.Process] = field(default_factory=list)
    calm: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def database_urls(self) -> list[str]:
        return [cluster.dsn for cluster in self.clusters]

    @property
    def key(self) -> str:
        return (self.folder / "api_key").read_text().strip()

    async def start(self) -> None:
        """Databases, schema, nodes, workers."""
        self.clusters += [EmbeddedCluster(self.folder / f"data-{number}") for number in range(self.size.databases)]
        for cluster in self.clusters:
            await asyncio.to_thread(cluster.start)
        await self._command("db", "init")
        for number in range(self.size.nodes):
            port = processes.free_port()
            arguments = ["serve", "--port", str(port), "--first-key-file", str(self.folder / "api_key")]
            node = Node(f"node-{number}", port, self._process(f"node-{number}", *arguments))
            self.nodes.append(node)
            await self.start_node(node)
        for number in range(self.size.workers):
            urls = [node.url for node in self.nodes]
            first = number % len(urls)
            worker = self._process(
                f"worker-{number}",
                *("worker", "tests.chaos.handlers:h", "--slots", str(SLOTS)),
                HORARIUM_URL=",".join(urls[first:] + urls[:first]),
                HORARIUM_API_KEY_FILE=str(self.folder / "api_key"),
                CHAOS_FOLDER=str(self.folder),
            )
            self.workers.append(worker)
            await worker.start()
        self.calm.set()

    async def start_node(self, node: Node) -> None:
        """Start a node, or start it again; returns when it answers."""
        await node.process.start(b"HORARIUM READY")

    async def close(self) -> None:
        """End everything."""
        for process in [*self.workers, *(node.process for node in self.nodes)]:
            await process.end()
        for cluster in self.clusters:
            await asyncio.to_thread(cluster.stop)

    async def _command(self, *arguments: str) -> None:
        process = self._process("command", *arguments)
        await process.start()
        status = await process.wait()
        assert status == 0, (self.folder / "command.log").read_text()

    def _process(self, name: str, *arguments: str, **environment: str) -> processes.Process:
        environment = {"HORARIUM_DATABASE_URL": ",".join(self.database_urls), **environment}
        return processes.Process(self.folder / f"{name}.log", *arguments, environment=environment)


@asynccontextmanager
async def rows_of(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to one database, to look at the rows."""
    connection = await asyncpg.connect(url, server_settings={"search_path": "horarium, public"}, timeout=CALL_S)
    try:
        yield connection
    finally:
        await connection.close()


class Caller:
    """Asks the API of any node; what is not answered in time was not acknowledged."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=CALL_S))

    async def call(self, method: str, path: str, body: Any = None, node: Node | None = None) -> tuple[int, Any]:
        """Status and content; status 0 when there was no answer."""
        asked = node or self._world.chance.choice(self._world.nodes)
        headers = {"Authorization": f"Bearer {self._world.key}"}
        try:
            async with self._session.request(method, asked.url + path, json=body, headers=headers) as answer:
                return answer.status, await answer.json() if answer.content_type.endswith("json") else None
        except (aiohttp.ClientError, TimeoutError, ConnectionError):
            return 0, None

    async def close(self) -> None:
        await self._session.close()
