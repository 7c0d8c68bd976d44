"""A node over two databases: one worker serves both, and what it says finds the plane that leads the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import aiohttp
import pytest

from horarium.domain import ids
from horarium.events import Events
from horarium.gateway.app import Gateway
from horarium.gateway.peer_calls import PeerCalls, PeerGateway
from horarium.gateway.worker_calls import WorkerCalls
from horarium.protocol import messages
from horarium.services.cluster import Cluster
from horarium.services.control_plane import ControlPlane, Timing
from horarium.services.keys import Keys
from horarium.services.registry import Node
from horarium.store import runs
from horarium.store.databases import Databases
from tests import builders, several
from tests.api.serving import serving
from tests.gateway.nodes import SECRET, Door
from tests.gateway.wire import Held, Wire, is_problem
from tests.recording import Recorder

SHARDS = 4


class Spread(Wire):
    """A node's wire, with the planes of both databases behind it. Even shards live in the first, odd ones in the second."""

    planes: list[ControlPlane]
    cluster: Cluster

    async def make_in(self, shard: int, queue: str = "default") -> runs.RunRow:
        plane = self.planes[shard % 2]
        now = await plane.database.now()
        async with plane.database.connection() as connection:
            job = await builders.insert_job(connection, builders.once(now), shard=shard, queue=queue)
            row = job.by_hand(now)
            await runs.insert(connection, [row])
        plane.leader.add([builders.live(row)])
        return row


@asynccontextmanager
async def spread(databases: Databases, session: aiohttp.ClientSession) -> AsyncIterator[Spread]:
    door, events = Door(), Events()
    async with serving(door) as address:
        planes = [ControlPlane(each, Node("n", address, "0", "host", 1), events, Timing()) for each in databases.all]
        cluster = Cluster("n", SECRET, planes)
        calls = [
            WorkerCalls(each.leader, each.dispatcher, each.completer, each.reaper, each.registry) for each in planes
        ]
        calls[0].forwarding = cluster.attend(calls)
        keys = Keys(databases.home)
        door.gateway = Gateway(keys, calls[0])
        door.peers = PeerGateway("n", SECRET, PeerCalls(cluster, calls))
        made = Spread(planes[0], Recorder(events), keys, address, session)
        made.planes, made.cluster = planes, cluster
        await cluster.start()
        try:
            async with asyncio.timeout(2 * builders.WAIT_S):
                yield made
        finally:
            await cluster.stop()


@pytest.fixture
async def node(database_urls: list[str]) -> AsyncIterator[Spread]:
    async with (
        aiohttp.ClientSession() as session,
        several.joined(database_urls[:2], SHARDS) as databases,
        spread(databases, session) as running,
    ):
        yield running


async def held(node: Spread, shard: int) -> Held:
    row = await node.make_in(shard)
    (lease,) = (await node.lease())["leases"]
    assert lease["run_id"] == str(row.id)
    return Held(lease["run_id"], lease["fencing_token"], None)  # type: ignore[arg-type]  # nobody looks at its job


async def test_a_waiting_worker_is_served_by_whichever_database_has_a_run(node: Spread) -> None:
    for shard in (1, 2, 3, 0):
        asking = asyncio.create_task(node.lease())
        await node.waiting()
        row = await node.make_in(shard)
        (lease,) = (await asking)["leases"]
        assert lease["run_id"] == str(row.id)


async def test_databases_are_served_in_proportion_to_what_is_queued(node: Spread) -> None:
    for shard in (0, 1) * 10:
        await node.make_in(shard)
    await builders.until(lambda: all(plane.leader.ready.queued == 10 for plane in node.planes))
    got = [lease for _ in range(10) for lease in (await node.lease())["leases"]]
    from_second = [lease for lease in got if ids.shard_of(UUID(lease["run_id"])) == 1]
    assert (len(got), 3 <= len(from_second) <= 7) == (10, True)


async def test_a_turn_that_finds_nothing_for_the_worker_is_passed_on(node: Spread) -> None:
    """The second database has runs in the queue that is asked for, but for another handler."""
    now = await node.planes[1].database.now()
    async with node.planes[1].database.connection() as connection:
        job = await builders.insert_job(connection, builders.once(now), shard=1, handler="rare")
        rows = [job.by_hand(now) for _ in range(9)]
        await runs.insert(connection, rows)
    node.planes[1].leader.add([builders.live(row) for row in rows])
    await builders.until(lambda: node.planes[1].leader.ready.queued == 9)
    for _ in range(5):
        await node.make_in(0)
    for _ in range(5):
        (lease,) = (await node.lease(handlers=["work"]))["leases"]
        assert ids.shard_of(UUID(lease["run_id"])) == 0


async def test_heartbeats_and_reports_find_the_plane_of_the_run(node: Spread) -> None:
    first, second = await held(node, 0), await held(node, 1)
    stale = second._replace(run_id=str(ids.fresh_id(3, await node.plane.database.now(), 7)))
    answer = await node.heartbeat(first, second, stale)
    assert answer == {"lease_s": 15, "lost": [stale.run_id]}
    assert await node.report(first) == {"accepted": [first.run_id]}
    columns = {"run_ids": [first.run_id], "fencing_tokens": [first.token]}
    repeated = {"worker": {"id": "w1"}, "succeeded": columns}
    assert await node.call(messages.REPORT_PATH, repeated) == {"accepted": [first.run_id]}
    uneven = messages.encode({"worker": {"id": "w1"}, "succeeded": columns | {"fencing_tokens": []}})
    assert is_problem(await node.send(messages.REPORT_PATH, uneven, token=await node.token()), 422)
    assert await node.report(second) == {"accepted": [second.run_id]}
    assert await node.report(second) == {"accepted": [second.run_id]}
    async with node.planes[1].database.connection() as connection:
        assert await connection.fetchval("SELECT state FROM history WHERE id = $1", second.id) == "succeeded"


async def test_a_worker_that_goes_away_gives_back_to_the_right_plane(node: Spread) -> None:
    one = await held(node, 1)
    await node.cluster.give_back([(one.id, one.token)])
    (lease,) = (await node.lease("w2"))["leases"]
    assert (lease["run_id"], lease["attempt"]) == (one.run_id, 1)
