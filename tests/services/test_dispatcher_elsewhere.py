"""Handing out among several: workers of other nodes, requests that are lent to other nodes, dispatchers that share workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest

from horarium.domain.run import Phase
from horarium.services.waiters import Waiter
from tests import builders
from tests.builders import WAIT_S, Core, read, wanted


async def waiting(core: Core, worker_id: str = "w1", slots: int = 1) -> asyncio.Task[list[str]]:
    """A worker's request that waits."""
    asking = asyncio.create_task(core.dispatcher.lease(worker_id, wanted(), slots, WAIT_S))
    await builders.until(lambda: any(waiter.worker_id == worker_id for waiter in core.dispatcher.idle()))
    return asking


async def make(core: Core, count: int = 1) -> list[UUID]:
    job = await core.job()
    rows = [job.by_hand(core.clock.now()) for _ in range(count)]
    await core.make(*rows)
    return [row.id for row in rows]


async def test_workers_of_another_node_get_what_is_queued_now(core: Core) -> None:
    await make(core, 3)
    asks = [("far-1", wanted(), 2), ("far-2", wanted("other"), 2), ("far-3", wanted(), 2)]
    answers = await core.dispatcher.lease_now(asks)
    assert [len(leases) for leases in answers] == [2, 0, 1]
    (third,) = read(answers[2])
    held = core.leader.ready.leases.get(UUID(third["run_id"]))
    assert held is not None
    assert held.worker_id == "far-3"


async def test_another_node_is_answered_at_once_when_there_is_nothing(core: Core) -> None:
    assert await core.dispatcher.lease_now([("far", wanted(), 1)]) == [[]]


async def test_workers_of_another_node_are_served_after_the_own_ones(core: Core) -> None:
    near = await waiting(core)
    far = asyncio.create_task(core.dispatcher.lease_now([("far", wanted(), 1)]))
    await asyncio.sleep(0)
    job = await core.job()
    assert await far == [[]]
    far = asyncio.create_task(core.dispatcher.lease_now([("far", wanted(), 1)]))
    await core.make(job.by_hand(core.clock.now()))
    assert await far == [[]]
    assert len(await near) == 1


async def test_what_was_claimed_for_a_node_that_went_away_comes_back(core: Core) -> None:
    (run_id,) = await make(core)
    asking = asyncio.create_task(core.dispatcher.lease_now([("far", wanted(), 1), ("far-2", wanted(), 1)]))
    await builders.until(lambda: core.leader.ready.runs[run_id].phase is not Phase.LANE)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    (lease,) = await core.lease("near")
    assert (lease["run_id"], lease["attempt"]) == (str(run_id), 1)


async def test_a_draining_node_gives_nothing_to_others(core: Core) -> None:
    await make(core)
    await core.dispatcher.stop()
    assert await core.dispatcher.lease_now([("far", wanted(), 1)]) == [[]]


async def test_a_request_that_was_lent_is_answered_from_elsewhere(core: Core) -> None:
    asking = await waiting(core)
    (waiter,) = core.dispatcher.idle()
    core.dispatcher.lend(waiter)
    await make(core)
    assert core.dispatcher.idle() == []
    assert core.dispatcher.hand(waiter, ["{}"], [])
    assert await asking == ["{}"]
    assert not core.dispatcher.hand(waiter, ["{}"], []), "answered before"


async def test_a_request_that_was_lent_in_vain_waits_on(core: Core) -> None:
    asking = await waiting(core)
    (waiter,) = core.dispatcher.idle()
    core.dispatcher.lend(waiter)
    await make(core)
    core.dispatcher.wait_on(waiter)
    assert len(await asking) == 1


async def test_a_request_whose_time_is_over_comes_back_to_an_empty_answer(core: Core) -> None:
    asking = asyncio.create_task(core.dispatcher.lease("w1", wanted(), 1, 0))
    await asyncio.sleep(0)
    (waiter,) = core.dispatcher.idle()
    core.dispatcher.lend(waiter)
    core.dispatcher.wait_on(waiter)
    assert await asking == []


async def test_what_came_from_elsewhere_for_who_has_gone_is_given_back(core: Core) -> None:
    given_back: list[tuple[UUID, int]] = []
    told = asyncio.Event()

    async def give_back(held: object) -> None:
        given_back.extend(held)  # type: ignore[call-overload]
        told.set()

    core.dispatcher.give_back = give_back
    asking = await waiting(core)
    (waiter,) = core.dispatcher.idle()
    core.dispatcher.lend(waiter)
    run = (UUID(int=7), 3)
    assert core.dispatcher.hand(waiter, ["{}"], [run])
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await told.wait()
    assert given_back == [run]


async def test_a_request_is_shown_before_it_is_served(core: Core) -> None:
    seen: list[Waiter] = []

    def lend(waiter: Waiter) -> None:
        seen.append(waiter)
        core.dispatcher.lend(waiter)

    await make(core)
    core.dispatcher.on_waiter = lend
    asking = asyncio.create_task(core.dispatcher.lease("w1", wanted(), 1, WAIT_S))
    await builders.until(lambda: bool(seen) and core.leader.ready.has_queued())
    assert core.leader.ready.queued == 1
    core.dispatcher.wait_on(seen[0])
    assert len(await asking) == 1


async def test_runs_are_released_early_for_workers_of_others(emptied_url: str) -> None:
    async with builders.running_core(emptied_url, early=timedelta(seconds=1)) as core:
        job = await core.job()
        await core.make(job.by_hand(core.clock.now() + timedelta(seconds=0.5)))
        core.dispatcher.early_for_others = True
        core.dispatcher.wake()
        await builders.until(lambda: core.leader.ready.has_queued())
        ((lease,),) = await core.dispatcher.lease_now([("far", wanted(), 1)])
        assert '"start_in_s":0.5' in lease


async def test_a_request_of_several_dispatchers_is_served_by_the_one_whose_turn_it_is(core: Core) -> None:
    passed_on: list[bool] = []
    core.dispatcher.on_passed_on = lambda: passed_on.append(True)
    core.dispatcher.on_waiter = turn_of(object())
    asking = await waiting(core)
    await make(core)
    await builders.until(core.leader.ready.has_queued)
    (waiter,) = core.dispatcher.idle()
    waiter.only = None
    core.dispatcher.wake()
    assert len(await asking) == 1
    core.dispatcher.on_waiter = turn_of(core.dispatcher)
    job = await core.job(queue="other")
    await core.make(job.by_hand(core.clock.now()))
    asking = await waiting(core)
    await builders.until(lambda: bool(passed_on))
    assert [waiter.only for waiter in core.dispatcher.idle()] == [None]
    await make(core)
    assert len(await asking) == 1


def turn_of(dispatcher: object) -> Callable[[Waiter], None]:
    """Let each request that comes be this one's."""

    def mark(waiter: Waiter) -> None:
        waiter.only = dispatcher  # type: ignore[assignment]

    return mark
