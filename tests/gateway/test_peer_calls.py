"""Nodes among themselves: a worker of one node gets the runs of all, and whatever it says reaches the leader of the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import aiohttp
import pytest

from horarium.domain import ids
from horarium.events import Name
from horarium.protocol import messages
from horarium.protocol import peer_messages as wire
from horarium.store import runs
from tests import builders
from tests.gateway import nodes as clusters
from tests.gateway.nodes import SECRET, ClusterNode
from tests.gateway.wire import Held


@pytest.fixture
async def nodes(emptied_url: str) -> AsyncIterator[list[ClusterNode]]:
    async with clusters.open_nodes(emptied_url, 2) as running:
        yield running


@pytest.fixture
async def three_nodes(emptied_url: str) -> AsyncIterator[list[ClusterNode]]:
    async with clusters.open_nodes(emptied_url, 3) as running:
        yield running


async def far_run(near: ClusterNode, far: ClusterNode, worker: str = "w1") -> Held:
    """A run that another node leads, held by a worker of this one."""
    asking = asyncio.create_task(near.lease(worker))
    await near.waiting()
    job = await far._job(shard=far.led[0])
    await far._make(job, builders.timedelta(0))
    (lease,) = (await asking)["leases"]
    assert ids.shard_of(UUID(lease["run_id"])) == far.led[0]
    return Held(lease["run_id"], lease["fencing_token"], job)


async def test_a_worker_gets_the_runs_of_all_nodes(nodes: list[ClusterNode]) -> None:
    for node in nodes:
        for shard in node.led:
            await node.make(shard=shard)
    got: list[str] = []
    while len(got) < 16:
        got += [lease["run_id"] for lease in (await nodes[0].lease(slots=3))["leases"]]
    assert sorted(ids.shard_of(UUID(run_id)) for run_id in got) == list(range(16))
    held_far = nodes[1].plane.leader.ready.leases.held_by("w1")
    assert held_far == 8


async def test_a_waiting_worker_gets_what_another_node_makes_ready(nodes: list[ClusterNode]) -> None:
    held = await far_run(nodes[0], nodes[1])
    row = await nodes[0].row(held.id)
    assert (row["state"], row["worker_id"], row["fencing_token"]) == ("running", "w1", held.token)
    assert nodes[0].plane.dispatcher.waiting() == 0


async def test_runs_are_claimed_early_for_workers_of_another_node(nodes: list[ClusterNode]) -> None:
    near, far = nodes
    asking = asyncio.create_task(near.lease())
    await near.waiting()
    await builders.until(lambda: far.plane.dispatcher.early_for_others)
    far.plane.dispatcher._early_s = 60.0
    await far.make(shard=far.led[0], ready_in=builders.timedelta(seconds=50))
    (lease,) = (await asking)["leases"]
    assert 0 < lease["start_in_s"] <= 50


async def test_a_report_reaches_the_leader(nodes: list[ClusterNode]) -> None:
    held = await far_run(*nodes)
    answer = await nodes[0].report(held, result={"a": 1})
    assert answer == {"accepted": [held.run_id]}
    assert (await nodes[0].ended(held.id))["state"] == "succeeded"
    assert held.id not in nodes[1].plane.leader.ready
    assert await nodes[0].report(held, result={"a": 1}) == {"accepted": [held.run_id]}, "a repeat is harmless"


async def test_heartbeats_reach_the_leader_and_answers_come_back(nodes: list[ClusterNode]) -> None:
    near, far = nodes
    held = await far_run(near, far)
    before = far.plane.leader.ready.leases.get(held.id)
    assert before is not None
    until = before.lease_until
    line = {"seq": 1, "ago_s": 0, "message": "half"}
    answer = await near.heartbeat(held, progress={"fraction": 0.5}, logs=[line])
    assert answer == {"lease_s": 15}
    assert before.lease_until > until
    assert far.plane.leader.progress[held.id] == '{"fraction":0.5}'
    assert [row["message"] for row in await near.logs(held.id)] == ["half"]
    near.cluster.pokes.cancel_requested([held.id])
    await near.cluster.pokes.settle()
    assert (await near.heartbeat(held))["cancel"] == [held.run_id]
    stale = held._replace(token=held.token - 1)
    assert (await near.heartbeat(stale))["lost"] == [held.run_id]


async def test_a_lease_whose_answer_was_lost_comes_back(nodes: list[ClusterNode]) -> None:
    """Two heartbeats that do not list it, through the node that the worker knows."""
    near, far = nodes
    lost = await far_run(near, far)
    other = await near.started(shard=near.led[0])
    for _ in range(2):
        await near.heartbeat(other)
    assert far.told.total(Name.RUNS_INTERRUPTED) == 1
    row = await near.row(lost.id)
    assert (row["state"], row["attempt"]) == ("waiting", 0)


async def test_a_worker_that_went_away_gives_back_what_another_node_granted(nodes: list[ClusterNode]) -> None:
    near, far = nodes
    body = messages.encode({"worker": {"id": "w1"}, "queues": [{"name": "default"}], "slots": 1, "wait_s": 30})
    asking = asyncio.create_task(near.send(messages.LEASE_PATH, body, token=await near.token()))
    await near.waiting()
    async with far.plane.database.transaction() as connection:  # holds the claim back
        await connection.execute("LOCK TABLE runs IN EXCLUSIVE MODE")
        job = await far._job(shard=far.led[0])
        row = job.by_hand(await far.plane.database.now())
        far.plane.leader.add([builders.live(row)])
        await builders.until(lambda: near.plane.dispatcher.waiting() == 0)
        asking.cancel()
        await asyncio.wait({asking})
        await runs.insert(connection, [row])
    await far.told.wait_for(Name.RUNS_INTERRUPTED)
    found = await far.row(row.id)
    assert (found["state"], found["attempt"]) == ("waiting", 0)


async def test_results_are_written_when_their_leader_cannot_be_asked(nodes: list[ClusterNode]) -> None:
    near, far = nodes
    held = await far_run(near, far)
    far.door.is_shut = True
    assert await near.report(held) == {"accepted": [held.run_id]}
    assert (await near.ended(held.id))["state"] == "succeeded"


async def test_nobody_ends_another_tenants_run_through_a_node_that_does_not_lead_it(nodes: list[ClusterNode]) -> None:
    near, far = nodes
    held = await far_run(near, far)
    assert await near.report(held, tenant="stranger") == {"accepted": [], "lost": [held.run_id]}
    far.door.is_shut = True
    assert await near.report(held, tenant="stranger") == {"accepted": [], "lost": [held.run_id]}
    assert (await near.row(held.id))["state"] == "running"


async def test_runs_whose_leader_cannot_be_asked_are_in_doubt(nodes: list[ClusterNode]) -> None:
    near, far = nodes
    held = await far_run(near, far)
    mine = await near.started(shard=near.led[0])
    far.door.is_shut = True
    answer = await near.heartbeat(held, mine)
    assert answer == {"lease_s": 15, "unsure": [held.run_id]}


async def test_a_result_of_a_shard_that_moved_finds_its_leader(nodes: list[ClusterNode]) -> None:
    near, far = nodes
    held = await far_run(near, far)
    shard = ids.shard_of(held.id)
    for node in nodes:
        await node.plane._loops["shard_owner"].stop()
    async with far.plane.database.connection() as connection:
        await connection.execute("UPDATE shards SET leader = 'node-0', term = term + 1 WHERE shard = $1", shard)
        term = await connection.fetchval("SELECT term FROM shards WHERE shard = $1", shard)
    far.plane.leader.drop_shards([shard])
    near.plane.leader.take_shards({shard: term})
    await near.plane.owner.load_once()
    assert await far.report(held) == {"accepted": [held.run_id]}


async def test_pokes_reach_the_leader(nodes: list[ClusterNode]) -> None:
    near, far = nodes
    await far.plane._loops["scheduler"].stop()
    job = await far._job(shard=far.led[0])
    row = job.by_hand(await near.plane.database.now())
    async with near.plane.database.connection() as connection:
        await runs.insert(connection, [row])
    near.cluster.pokes.runs_added([row])
    await near.cluster.pokes.settle()
    assert row.id in far.plane.leader.ready
    cursor = far.plane.leader.cursors[far.led[0]]
    near.cluster.pokes.timers_changed([(far.led[0], cursor - builders.timedelta(days=1))])
    near.cluster.pokes.runs_removed([row.id])
    await near.cluster.pokes.settle()
    assert row.id not in far.plane.leader.ready
    assert far.plane.leader.cursors[far.led[0]] == cursor - builders.timedelta(days=1)
    near.cluster.pokes.job_edited(job.id)
    await builders.until(lambda: row.id in far.plane.leader.ready)


async def test_a_poke_to_a_node_that_does_not_lead_is_sent_to_the_one_that_does(
    three_nodes: list[ClusterNode],
) -> None:
    near, far, third = three_nodes
    shard = near.led[0]
    job = await near._job(shard=shard)
    row = job.by_hand(await near.plane.database.now())
    async with near.plane.database.connection() as connection:
        await runs.insert(connection, [row])
    third.cluster.routes._leaders[shard] = far.id
    third.cluster.pokes.runs_added([row])
    await third.cluster.pokes.settle()
    assert row.id in near.plane.leader.ready


@pytest.mark.parametrize("why", ["nobody leads", "leader unreachable"])
async def test_a_poke_that_gets_nowhere_is_sent_again(nodes: list[ClusterNode], why: str) -> None:
    """As while a shard is handed over: this node knows of no leader, and the new one loaded the shard before the change."""
    near, far = nodes
    shard = far.led[0]
    job = await near._job(shard=shard)
    row = job.by_hand(await near.plane.database.now())
    async with near.plane.database.connection() as connection:
        await runs.insert(connection, [row])
    if why == "nobody leads":
        near.cluster.routes._leaders[shard] = None
        near.cluster.pokes.runs_added([row])
    else:
        far.door.is_shut = True
        far.door.calls.clear()
        near.cluster.pokes.runs_added([row])
        await builders.until(lambda: wire.POKE_PATH in far.door.calls)
        far.door.is_shut = False
    await near.cluster.pokes.settle()
    assert row.id in far.plane.leader.ready


async def test_depths_and_progress_of_all_nodes_are_seen(nodes: list[ClusterNode]) -> None:
    near, far = nodes
    held = await far_run(near, far)
    await near.heartbeat(held, progress={"fraction": 0.5})
    await near.make(shard=near.led[0], queue="slow")
    await far.make(shard=far.led[0], queue="slow")
    view = near.cluster.view(0)
    found = await view.queues()
    depths = {state.name: (state.scheduled + state.queued, state.running) for state in found.states}
    assert found.exact
    assert depths == {"default": (0, 1), "slow": (2, 0)}
    assert await view.progress(held.id) == '{"fraction":0.5}'
    far.door.is_shut = True
    found = await view.queues()
    assert not found.exact
    assert [(state.name, state.running) for state in found.states] == [("slow", 0)]
    assert await view.progress(held.id) is None


async def test_a_node_that_cannot_be_reached_is_told(nodes: list[ClusterNode]) -> None:
    near, far = nodes
    assert near.cluster.warnings() == []
    far.door.is_shut = True
    while not near.cluster.warnings():  # an answer from before may be on its way still
        await near.cluster.view(0).queues()
        await asyncio.sleep(0)  # where no peer leads for a moment nobody is asked, and the nodes are to go on
    (warning,) = near.cluster.warnings()
    assert "node node-1 cannot be reached" in warning
    assert near.cluster.unready() == []


async def test_a_node_that_stops_gives_its_shards_to_the_others_at_once(nodes: list[ClusterNode]) -> None:
    near, far = nodes
    await far.cluster.drain()
    await builders.until(lambda: len(near.led) == 16)
    await builders.until(lambda: near.cluster.routes.alone)
    assert near.plane.dispatcher.on_waiter is None, "nothing is in the way of a node that is alone"


async def post(node: ClusterNode, headers: dict[str, str], path: str = wire.OFFERS_PATH) -> tuple[int, str]:
    async with node.session.post(node.url + path, data=b"{}", headers=headers) as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize("secret", ["", "Bearer", "Bearer wrong", SECRET])
async def test_who_does_not_know_the_secret_is_refused(nodes: list[ClusterNode], secret: str) -> None:
    headers = {wire.VERSION_HEADER: "1", wire.NODE_HEADER: "node-0"} | ({"Authorization": secret} if secret else {})
    status, text = await post(nodes[0], headers)
    assert status == 401
    assert "cluster secret" in text


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({wire.VERSION_HEADER: "2"}, "speaks version 1 of the peers' wire, not 2"),
        ({}, "not one without a number"),
        ({wire.VERSION_HEADER: "1", wire.NODE_HEADER: "node-7"}, "this is node node-0, not node-7"),
    ],
)
async def test_who_means_something_else_is_told(nodes: list[ClusterNode], more: dict[str, str], words: str) -> None:
    status, text = await post(nodes[0], {"Authorization": f"Bearer {SECRET}", **more})
    assert status == 409
    assert words in text


async def test_what_is_no_message_is_refused(nodes: list[ClusterNode]) -> None:
    headers = {"Authorization": f"Bearer {SECRET}", wire.VERSION_HEADER: "1", wire.NODE_HEADER: "node-0"}
    for path in (wire.LEASE_PATH, wire.GIVE_BACK_PATH, wire.HEARTBEAT_PATH, wire.REPORT_PATH):
        status, _ = await post(nodes[0], headers, path)
        assert status == 422
    assert (await post(nodes[0], headers, "/v1/peer/nothing"))[0] == 404
    async with nodes[0].session.get(nodes[0].url + wire.VIEW_PATH, headers=headers) as answer:
        assert answer.status == 405


async def test_a_lone_node_takes_no_detour(emptied_url: str) -> None:
    async with (
        aiohttp.ClientSession() as session,
        clusters.open_node(emptied_url, "alone", session, clusters.Timing()) as node,
    ):
        held = await node.started()
        assert node.plane.dispatcher.on_waiter is None
        assert await node.heartbeat(held) == {"lease_s": 15}
        assert await node.report(held) == {"accepted": [held.run_id]}
        assert all(not path.startswith(wire.PREFIX) for path in node.door.calls)
