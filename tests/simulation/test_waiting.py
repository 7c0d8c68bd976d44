"""Who waits for whom, and what is seen then: one suite, on PostgreSQL and on the model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from horarium.domain import ids, job, schedule
from horarium.store import jobs, runs, shards, timers
from horarium.store.shards import NodeRow
from horarium.store.timers import Terms
from tests.simulation.both import BASE, LEASE, SHARDS, ModelSide


@asynccontextmanager
async def two(kind: str, url: str) -> AsyncIterator[tuple[Any, Any]]:
    """Two connections to one of the two."""
    if kind == "model":
        side = ModelSide(0)
        yield side.connect(), side.connect()
        return
    first, second = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        yield first, second
    finally:
        await first.close()
        await second.close()


async def a_run(connection: Any) -> tuple[runs.RunRow, Terms]:
    """A waiting run in a shard that is led."""
    terms = await shards.take(connection, "a", LEASE, SHARDS)
    spec = job.JobSpec({"handler": "work"}, name="one", interval_s=5)
    made = job.Job(ids.fresh_id(1, BASE, 1), 1, "default", spec, BASE, BASE, "", BASE, "")
    await jobs.insert(connection, made)
    run_id = ids.tick_run_id(made.id, 1, BASE)
    row = runs.RunRow(run_id, made.id, 1, "default", "default", "work", 5, BASE, BASE, 1)
    await runs.insert(connection, [row])
    return row, Terms([*terms], [*terms.values()])


async def waits(work: asyncio.Task[Any]) -> None:
    """That it does not come to an end by itself; PostgreSQL is given the time of some round trips to do so."""
    done, _ = await asyncio.wait({work}, timeout=0.1)
    assert not done


BOTH = pytest.mark.parametrize("kind", ["model", "postgres"])


@BOTH
@pytest.mark.parametrize("commits", [True, False])
async def test_a_claim_waits_for_another_one_and_looks_again(kind: str, commits: bool, emptied_url: str) -> None:
    async with two(kind, emptied_url) as (first, second):
        row, terms = await a_run(first)
        began = first.transaction()
        await began.start()
        assert len(await runs.claim(first, [row.id], ["w1"], LEASE, terms)) == 1
        late = asyncio.create_task(runs.claim(second, [row.id], ["w2"], LEASE, terms))
        await waits(late)
        await (began.commit() if commits else began.rollback())
        assert len(await late) == (0 if commits else 1)


@BOTH
async def test_what_was_not_committed_is_not_seen(kind: str, emptied_url: str) -> None:
    async with two(kind, emptied_url) as (first, second):
        row, _ = await a_run(first)
        began = first.transaction()
        await began.start()
        await runs.end_waiting(first, [row.id], "cancelled", "by ana")
        assert len(await runs.load_by_id(second, [row.id])) == 1
        assert len(await runs.load_by_id(first, [row.id])) == 0
        await began.commit()
        assert len(await runs.load_by_id(second, [row.id])) == 0


@BOTH
@pytest.mark.parametrize("commits", [True, False])
async def test_the_same_tick_made_twice_at_once_is_made_once(kind: str, commits: bool, emptied_url: str) -> None:
    async with two(kind, emptied_url) as (first, second):
        row, _ = await a_run(first)
        again = row._replace(id=ids.tick_run_id(row.job_id, 1, BASE + LEASE))
        began = first.transaction()
        await began.start()
        await runs.insert(first, [again])
        late = asyncio.create_task(runs.insert(second, [again._replace(priority=9)]))
        await waits(late)
        await (began.commit() if commits else began.rollback())
        await late
        (found,) = await runs.load_by_id(second, [again.id])
        assert found["priority"] == (5 if commits else 9)


@BOTH
async def test_a_timer_that_is_held_is_passed_over(kind: str, emptied_url: str) -> None:
    async with two(kind, emptied_url) as (first, second):
        row, terms = await a_run(first)
        key = schedule.encode(schedule.Schedule(schedule.Every(timedelta(seconds=5), BASE)))
        timer = timers.TimerRow(row.job_id, 1, BASE, BASE, None, 5, 1, "default", "default", "work", key)
        await timers.upsert(first, [timer])
        began = first.transaction()
        await began.start()
        assert len(await timers.lock(first, [row.job_id])) == 1
        cursors = {1: BASE - LEASE}
        assert await timers.select_due(second, cursors, 10, BASE, terms) == []
        await began.rollback()
        assert len(await timers.select_due(second, cursors, 10, BASE, terms)) == 1


@BOTH
async def test_two_that_hold_each_other_up_are_parted(kind: str, emptied_url: str) -> None:
    async with two(kind, emptied_url) as (first, second):
        await shards.beat(first, NodeRow("a", None, "1"))
        await shards.beat(first, NodeRow("b", None, "1"))
        mine, theirs = first.transaction(), second.transaction()
        await mine.start()
        await theirs.start()
        await shards.beat(first, NodeRow("a", None, "2"))
        await shards.beat(second, NodeRow("b", None, "2"))
        crossing = [
            asyncio.create_task(shards.beat(first, NodeRow("b", None, "3"))),
            asyncio.create_task(shards.beat(second, NodeRow("a", None, "3"))),
        ]
        done, _ = await asyncio.wait(crossing, return_when=asyncio.FIRST_EXCEPTION)
        assert any(isinstance(task.exception(), asyncpg.DeadlockDetectedError) for task in done)
        await (mine if crossing[0].done() and crossing[0].exception() else theirs).rollback()
        await asyncio.gather(*crossing, return_exceptions=True)
        await (theirs if crossing[0].exception() else mine).rollback()
