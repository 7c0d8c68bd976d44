"""What goes wrong, one kind a function. Each returns when what it broke is whole again, or about to heal by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import asyncpg

from tests.chaos import world as worlds
from tests.cluster import nodes, processes

FROZEN_LONGER_S = 3.0  # than a worker's lease; a shard's is three seconds
REFUSED_S = 3.0
CUT_S = 10.0
BAD_LINE_S, BAD_PART = 15.0, 0.1


@dataclass
class Happened:
    """A fault: what, and when (monotonic seconds). `pid`: the worker that died; `leading`: the shards that a dead node led."""

    kind: str
    at: float
    pid: int | None = None
    leading: list[int] = field(default_factory=list)
    healed_at: float = 0.0


Fault = Callable[[worlds.World, Happened], Awaitable[None]]


async def kill_worker(world: worlds.World, told: Happened) -> None:
    """kill -9 of a worker with runs at work; another one is started in its place."""
    worker = world.chance.choice(world.workers)
    told.pid = worker.pid
    await worker.kill()
    told.at = time.monotonic()
    await world.start_worker(worker)


async def freeze_worker(world: worlds.World, told: Happened) -> None:
    """A worker stands still past its lease, then goes on and reports."""
    await _freeze(world.chance.choice(world.workers), told, world.size.lease_s)


async def kill_node(world: worlds.World, told: Happened) -> None:
    """kill -9 of a node that leads shards; it comes back ten seconds later."""
    node = world.chance.choice(world.nodes)
    told.leading = await led_by(world, node.process.pid)
    await node.process.kill()
    told.at = time.monotonic()
    await asyncio.sleep(10)
    await world.start_node(node)


async def freeze_node(world: worlds.World, told: Happened) -> None:
    """A node stands still while others take its shards, then goes on with what it believed."""
    node = world.chance.choice(world.nodes)
    await _freeze(node.process, told, world.size.lease_s)


async def restart_node(world: worlds.World, told: Happened) -> None:
    """SIGTERM at full load, as in a rolling restart: nothing fails."""
    node = world.chance.choice(world.nodes)
    await node.process.stop()
    await world.start_node(node)


async def kill_postgresql(world: worlds.World, told: Happened) -> None:
    """kill -9 of a PostgreSQL server, and its start: crash recovery under load."""
    cluster = world.chance.choice(world.clusters)
    assert cluster.pid is not None
    os.kill(cluster.pid, signal.SIGKILL)
    await asyncio.to_thread(cluster.stop)
    await asyncio.to_thread(cluster.start)


async def refuse_connections(world: worlds.World, told: Happened) -> None:
    """A PostgreSQL server is down for three seconds."""
    cluster = world.chance.choice(world.clusters)
    await asyncio.to_thread(cluster.stop)
    await asyncio.sleep(REFUSED_S)
    await asyncio.to_thread(cluster.start)


async def cut_connections(world: worlds.World, told: Happened) -> None:
    """Every connection to a database is cut, three times in a row."""
    url = world.chance.choice(world.database_urls)
    for _ in range(3):
        async with worlds.rows_of(url) as rows:
            await rows.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        await asyncio.sleep(0.3)


async def two_leaders(world: worlds.World, told: Happened) -> None:
    """A node's shards are given to others behind its back, three times: until it looks, two lead each of them."""
    pid = world.chance.choice(world.nodes).process.pid
    for _ in range(3):
        for url in world.database_urls:
            async with worlds.rows_of(url) as rows:
                await nodes.depose(rows, pid)
        await asyncio.sleep(1)


async def cut_nodes(world: worlds.World, told: Happened) -> None:
    """No other node reaches a node, and its workers and the databases do."""
    gate = world.chance.choice(world.nodes).gate
    await gate.shut()
    await asyncio.sleep(CUT_S)
    await gate.open()


async def lose_answers(world: worlds.World, told: Happened) -> None:
    """Between a worker and its node one answer in ten is lost, and one request in ten arrives twice."""
    assert world.line is not None
    world.line.part = BAD_PART
    await asyncio.sleep(BAD_LINE_S)
    world.line.part = 0.0


KINDS: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        kill_worker,
        freeze_worker,
        kill_node,
        freeze_node,
        restart_node,
        kill_postgresql,
        refuse_connections,
        cut_connections,
        two_leaders,
        cut_nodes,
        lose_answers,
    )
}


async def happen(world: worlds.World, kind: str) -> Happened:
    """Have it happen; returns when it is over."""
    told = Happened(kind, time.monotonic())
    await KINDS[kind](world, told)
    told.healed_at = time.monotonic()
    return told


async def led_by(world: worlds.World, pid: int) -> list[int]:
    """The shards that a process leads, in all databases."""
    found: list[int] = []
    for url in world.database_urls:
        with suppress(OSError, asyncpg.PostgresError):
            async with worlds.rows_of(url) as rows:
                asked = await rows.fetch(
                    "SELECT s.shard FROM shards s JOIN nodes n ON n.id = s.leader WHERE n.pid = $1", pid
                )
                found += [row["shard"] for row in asked]
    return found


async def _freeze(process: processes.Process, told: Happened, lease_s: float) -> None:
    told.at = time.monotonic()
    process.send(signal.SIGSTOP)
    try:
        await asyncio.sleep(lease_s + FROZEN_LONGER_S)
    finally:
        process.send(signal.SIGCONT)
