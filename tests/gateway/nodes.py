"""Several nodes of one cluster in one process: real HTTP between them, real planes on one database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from starlette.types import Receive, Scope, Send

from horarium.events import Events
from horarium.gateway.app import Gateway
from horarium.gateway.peer_calls import PeerCalls, PeerGateway
from horarium.gateway.worker_calls import WorkerCalls
from horarium.protocol import peer_messages as wire
from horarium.services.cluster import Cluster
from horarium.services.control_plane import ControlPlane, Timing
from horarium.services.keys import Keys
from horarium.services.registry import Node
from horarium.store.database import Database
from tests import builders
from tests.api.serving import serving
from tests.gateway.wire import Wire
from tests.recording import Recorder

SECRET = "the nodes of this test know it"


class Door:
    """What answers at a node's address: nothing before the node is there, and nothing after it is `shut`."""

    def __init__(self) -> None:
        self.gateway: Any = None
        self.peers: Any = None
        self.calls: list[str] = []
        self.is_shut = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls.append(scope["path"])
        if self.is_shut:
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        behind = self.peers if scope["path"].startswith(wire.PREFIX) else self.gateway
        await behind(scope, receive, send)


@dataclass(kw_only=True)
class ClusterNode(Wire):
    """A node as its workers meet it, and what it is made of."""

    cluster: Cluster
    door: Door

    @property
    def id(self) -> str:
        return self.cluster.peers._caller.own_id

    @property
    def led(self) -> list[int]:
        """The shards that it leads, in order."""
        return sorted(set(self.plane.leader.terms) - self.plane.leader.unloaded)


@asynccontextmanager
async def open_node(url: str, name: str, session: aiohttp.ClientSession, timing: Timing) -> AsyncIterator[ClusterNode]:
    """A node that has joined the cluster on a database; it stops in order."""
    door, database, events = Door(), Database(url, pool_size=6), Events()
    await database.open()
    async with serving(door) as address:
        plane = ControlPlane(database, Node(name, address, "0", "host", 1), events, timing)
        cluster = Cluster(name, SECRET, [plane])
        calls = WorkerCalls(plane.leader, plane.dispatcher, plane.completer, plane.reaper, plane.registry)
        calls.forwarding = cluster.attend([calls])
        keys = Keys(database)
        door.gateway = Gateway(keys, calls)
        door.peers = PeerGateway(name, SECRET, PeerCalls(cluster, [calls]))
        told = Recorder(events)
        await cluster.start()
        try:
            yield ClusterNode(plane, told, keys, address, session, cluster=cluster, door=door)
        finally:
            await cluster.stop()
            await database.close()


@asynccontextmanager
async def open_nodes(url: str, count: int, timing: Timing | None = None) -> AsyncIterator[list[ClusterNode]]:
    """So many nodes that share the shards, each following the others' offers."""
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        nodes = [
            await stack.enter_async_context(open_node(url, f"node-{number}", session, timing or Timing()))
            for number in range(count)
        ]
        await at_rest(nodes)
        async with asyncio.timeout(2 * builders.WAIT_S):
            yield nodes


async def at_rest(nodes: Sequence[ClusterNode]) -> None:
    """Wait until the shards are shared evenly, and each node knows it; the seconds between two looks are left out."""

    def is_so() -> bool:
        counts = [len(node.led) for node in nodes]
        known = [dict(node.plane.owner.division.leaders) for node in nodes]
        right = {shard: node.id for node in nodes for shard in node.led}
        return sum(counts) == 16 and max(counts) - min(counts) <= 1 and all(each == right for each in known)

    async with asyncio.timeout(builders.WAIT_S):
        while not is_so():
            for node in nodes:
                node.plane.look_now()
            await asyncio.sleep(0)
