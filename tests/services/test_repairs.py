"""Repairs: what an audit found is mended as the engine would have written it, told, and written to the audit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from horarium.domain.faults import Kind
from horarium.services import repairs
from tests.services.catalog_world import NOON, WHO, World, instant, world


@pytest.fixture
async def at_work(emptied_url: str) -> AsyncIterator[World]:
    async with world(emptied_url) as made:
        yield made


async def repair(at_work: World) -> list[str | None]:
    """Mend all that is found."""
    return [await repairs.repair(at_work.database, fault) for fault in await at_work.faults()]


async def test_a_missing_timer_is_armed_at_the_first_tick_that_is_not_accounted_for(at_work: World) -> None:
    """So its misfire policy speaks of what is overdue, and no tick is lost. World checks the books in the end."""
    made = await at_work.create(schedule="0 * * * *", misfire="run_all")
    at_work.later(hours=3)
    await at_work.fire()
    await at_work.execute("DELETE FROM timers")
    at_work.later(hours=2, minutes=30)
    assert await repair(at_work) == ["armed it for 2026-12-01T16:00:00+00:00"]
    assert await at_work.next_time(made) == instant("2026-12-01T16:00:00Z")
    assert (await at_work.audited())[-1] == (
        "repair", "job", None, {"fault": "missing_timer", "done": "armed it for 2026-12-01T16:00:00+00:00"}
    )  # fmt: skip
    assert await at_work.faults() == []
    await at_work.fire()
    assert len(await at_work.run_times(made)) == 5


async def test_a_one_off_is_armed_again(at_work: World) -> None:
    made = await at_work.create(run_at=(NOON + timedelta(hours=2)).isoformat())
    await at_work.execute("DELETE FROM timers")
    at_work.later(hours=5)
    assert len(await repair(at_work)) == 1
    await at_work.fire()
    assert await at_work.run_times(made) == [NOON + timedelta(hours=2)]


async def test_what_was_mended_meanwhile_is_left_alone(at_work: World) -> None:
    made = await at_work.create(schedule="0 * * * *")
    await at_work.execute("DELETE FROM timers")
    (fault,) = await at_work.faults()
    await at_work.catalog.pause(WHO, made.id)
    assert await repairs.repair(at_work.database, fault) is None
    assert await at_work.timer(made) is None


async def test_stray_timers_are_taken_away(at_work: World) -> None:
    made = await at_work.create(schedule="0 * * * *")
    await at_work.execute("DELETE FROM jobs WHERE id = $1", made.id)
    assert await repair(at_work) == ["took its timer away"]
    assert await at_work.rows("timers") == []


async def test_the_timer_of_an_active_job_is_never_taken_away(at_work: World) -> None:
    made = await at_work.create(schedule="0 * * * *")
    await at_work.execute("UPDATE jobs SET status = 'paused'")
    (fault,) = await at_work.faults()
    await at_work.execute("UPDATE jobs SET status = 'active'")
    assert await repairs.repair(at_work.database, fault) is None
    assert await at_work.timer(made) is not None


async def test_leftover_runs_are_ended(at_work: World) -> None:
    orphan = await at_work.create(name=None, run_at="now")
    ended = await at_work.create(name=None, run_at="now")
    (run,) = await at_work.rows("runs", ended)
    await at_work.end(run["id"])
    await at_work.execute(
        "INSERT INTO runs (id, job_id, scheduled_for, ready_at, job_version, shard, priority, tenant_id, queue, target_key)"
        " SELECT id, job_id, scheduled_for, ready_at, job_version, shard, priority, tenant_id, queue, target_key FROM history"
    )
    await at_work.execute("DELETE FROM jobs WHERE id = $1", orphan.id)
    assert await repair(at_work) == ["ended it as cancelled", "took the live row away", None]
    assert await at_work.rows("runs") == []
    assert sorted(row["state"] for row in await at_work.rows("history")) == ["cancelled", "succeeded"]


async def test_what_needs_judgement_is_left_to_people(at_work: World) -> None:
    made = await at_work.create(schedule="0 * * * *")
    at_work.later(hours=1)
    await at_work.fire()
    at_work.cook_the_books()
    await at_work.execute("DELETE FROM runs WHERE job_id = $1", made.id)
    assert [fault.kind for fault in await at_work.faults()] == [Kind.MISSING_TICKS]
    assert await repair(at_work) == [None]
