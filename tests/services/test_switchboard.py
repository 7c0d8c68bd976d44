"""Who serves a worker's request, when several nodes have runs: real nodes, real HTTP between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from horarium.domain import ids
from horarium.services import switchboard as switchboards
from tests import builders
from tests.gateway import nodes as clusters
from tests.gateway.nodes import ClusterNode


@pytest.fixture
async def nodes(emptied_url: str) -> AsyncIterator[list[ClusterNode]]:
    async with clusters.open_nodes(emptied_url, 2) as running:
        yield running


async def backlog(node: ClusterNode, count: int, **members: object) -> None:
    """So many runs that are queued on a node, in one of its shards."""
    for _ in range(count):
        await node.make(shard=node.led[0], **members)
    await builders.until(node.plane.leader.ready.has_queued)


def switchboard_of(node: ClusterNode) -> switchboards.Switchboard:
    return node.cluster.switchboard


async def offers(near: ClusterNode, far: ClusterNode, depth: int) -> None:
    """Wait until a node knows about how much another one offers: a depth is told anew when it has doubled."""
    peer = near.cluster.peers.get(far.id)
    assert peer is not None
    await builders.until(lambda: depth / 2 < peer.offers.get("default", 0) <= depth)


async def test_a_loaded_node_lets_its_workers_serve_others_in_proportion(nodes: list[ClusterNode]) -> None:
    near, far = nodes
    await backlog(near, 30)
    await backlog(far, 10)
    await offers(near, far, 10)
    got = [lease for _ in range(20) for lease in (await near.lease())["leases"]]
    from_far = [lease for lease in got if ids.shard_of(UUID(lease["run_id"])) in far.led]
    assert len(got) == 20
    assert 3 <= len(from_far) <= 8


async def test_a_node_is_not_asked_again_and_again_for_what_it_cannot_give(nodes: list[ClusterNode]) -> None:
    """Its runs are for another handler: the queue is offered all the same."""
    near, far = nodes
    await backlog(far, 1, handler="rare")
    await offers(near, far, 1)
    far.door.calls.clear()
    asking = asyncio.create_task(near.lease(handlers=["work"]))
    await builders.until(lambda: len(switchboard_of(near)._in_vain) == 1)
    (vain,) = switchboard_of(near)._in_vain.values()
    await builders.until(lambda: vain.times >= 4)
    assert far.door.calls.count("/v1/peer/lease") <= vain.times + 1
    await far.make(shard=far.led[0])
    assert len((await asking)["leases"]) == 1


async def test_what_a_worker_waited_idle_for_is_told_to_peers(nodes: list[ClusterNode]) -> None:
    near, far = nodes
    asking = asyncio.create_task(near.lease(queues=[{"name": "mail"}, {"name": "slow"}]))
    await near.waiting()
    assert switchboard_of(near).wanted() == ["mail", "slow"]
    await builders.until(lambda: far.plane.dispatcher.early_for_others)
    await backlog(far, 1, queue="slow")
    assert len((await asking)["leases"]) == 1


async def test_no_more_requests_are_lent_than_runs_are_offered(nodes: list[ClusterNode]) -> None:
    near, far = nodes
    await near.token()
    asking = [asyncio.create_task(near.lease(f"w{number}")) for number in range(10)]
    await near.waiting(10)
    far.door.calls.clear()
    await backlog(far, 1)
    done, waiting = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    await builders.until(lambda: near.plane.dispatcher.waiting() == 9)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


async def test_a_peer_that_does_not_answer_keeps_no_worker_waiting(nodes: list[ClusterNode]) -> None:
    near, far = nodes
    await backlog(far, 5)
    await offers(near, far, 5)
    far.door.is_shut = True
    asking = asyncio.create_task(near.lease())
    peer = near.cluster.peers.get(far.id)
    assert peer is not None
    await builders.until(lambda: peer.fault is not None)
    await near.make(shard=near.led[0])
    (lease,) = (await asking)["leases"]
    assert ids.shard_of(UUID(lease["run_id"])) == near.led[0]
    far.door.is_shut = False
    (lease,) = (await near.lease())["leases"]
    assert ids.shard_of(UUID(lease["run_id"])) == far.led[0]


async def test_a_peer_that_was_out_of_sight_for_a_moment_is_followed_again(nodes: list[ClusterNode]) -> None:
    """Found by the simulation: what it offered from then on was told to what had stood for it before, and its runs starved."""
    near, far = nodes
    near.cluster.peers.update([])
    near.cluster.routes.refresh()
    near.plane.look_now()
    await backlog(far, 3)
    await offers(near, far, 3)
