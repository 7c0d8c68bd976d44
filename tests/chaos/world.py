"""The processes of an installation that faults happen to: PostgreSQL servers, nodes, workers, in one folder."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

from horarium.embedded import EmbeddedCluster
from tests.cluster import processes
from tests.cluster.bad_line import BadLine
from tests.gate import Gate

SLOTS = 20
CALL_S = 10.0


@dataclass
class Node:
    """A server at an address of its own. Other nodes reach it through a gate."""

    name: str
    port: int
    process: processes.Process
    gate: Gate

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass
class Size:
    """How large the installation is."""

    databases: int = 2
    nodes: int = 3
    workers: int = 20
    lease_s: float = 15.0


@dataclass
class World:
    """Everything that runs. `chance` chooses faults. The last worker speaks to its node over a line that can be made bad."""

    folder: Path
    size: Size
    chance: random.Random
    clusters: list[EmbeddedCluster] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    workers: list[processes.Process] = field(default_factory=list)
    line: BadLine | None = None
    held: AsyncExitStack = field(default_factory=AsyncExitStack)

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
            await self._start_node(f"node-{number}")
        urls = [node.url for node in self.nodes]
        self.line = await self.held.enter_async_context(BadLine.before(urls[-1], part=0.0))
        for number in range(self.size.workers):
            first = number % len(urls)
            is_last = number == self.size.workers - 1
            self._make_worker(f"worker-{number}", [self.line.url] if is_last else urls[first:] + urls[:first])
        await asyncio.gather(*(self.start_worker(worker) for worker in self.workers))

    async def _start_node(self, name: str) -> None:
        port = processes.free_port()
        gate = await self.held.enter_async_context(Gate.before(f"http://127.0.0.1:{port}"))
        arguments = ["serve", "--port", str(port), "--first-key-file", str(self.folder / "api_key")]
        node = Node(
            name,
            port,
            self._process(name, *arguments, HORARIUM_NODE_URL=gate.url, HORARIUM_LEASE=f"{self.size.lease_s:g}s"),
            gate,
        )
        self.nodes.append(node)
        await self.start_node(node)

    def _make_worker(self, name: str, urls: list[str]) -> None:
        arguments = ("worker", "tests.chaos.handlers:h", "--slots", str(SLOTS))
        environment = {
            "HORARIUM_URL": ",".join(urls),
            "HORARIUM_API_KEY_FILE": str(self.folder / "api_key"),
            "CHAOS_FOLDER": str(self.folder),
        }
        self.workers.append(self._process(name, *arguments, **environment))

    async def start_worker(self, worker: processes.Process) -> None:
        """Start a worker; returns when it asks for runs."""
        await worker.start(b"slots, queues")

    async def start_node(self, node: Node) -> None:
        """Start a node, or start it again; returns when it answers."""
        await node.process.start(b"HORARIUM READY")

    async def close(self) -> None:
        """End everything."""
        for process in [*self.workers, *(node.process for node in self.nodes)]:
            await process.end()
        await self.held.aclose()
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

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=CALL_S))

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and content; status 0 when there was no answer. A node that takes no connections is passed over."""
        nodes = self._chance.sample(self._world.nodes, len(self._world.nodes))
        headers = {"Authorization": f"Bearer {self._world.key}"}
        for node in nodes:
            try:
                async with self._session.request(method, node.url + path, json=body, headers=headers) as answer:
                    return answer.status, await answer.json() if answer.content_type.endswith("json") else None
            except aiohttp.ClientConnectorError:
                continue
            except (aiohttp.ClientError, TimeoutError, ConnectionError):
                return 0, None
        return 0, None

    async def close(self) -> None:
        await self._session.close()
