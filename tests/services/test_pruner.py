"""What is forgotten: days dropped whole, days made ahead, and definitions that nothing refers to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from horarium.domain import schedule
from horarium.events import Name
from horarium.services.pruner import DAYS_AHEAD, LOOK_EVERY_S, Pruner
from tests import builders
from tests.builders import Core, Job

DAY = timedelta(days=1)
MONTH = timedelta(days=30)


@pytest.fixture
async def fresh_core(database_url: str) -> AsyncIterator[Core]:
    """A core on a database of its own, whose partitions may be changed."""
    async with builders.running_core(database_url) as running:
        yield running


def pruner(core: Core) -> Pruner:
    return Pruner(core.database, core.leader, core.events, MONTH)


async def days(core: Core, parent: str = "history") -> list[date]:
    """The days that have a partition."""
    rows = await core.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = $1::text::regclass ORDER BY 1",
        parent,
    )
    names = [row["name"].rpartition("_")[2] for row in rows]
    return [date.fromisoformat(name) for name in names if name.isdigit()]


async def ended_run(core: Core, made: Job, finished_at: datetime) -> UUID:
    """A row of history."""
    row = made.tick(finished_at)
    await core.fetch(
        "INSERT INTO history (id, job_id, scheduled_for, ready_at, finished_at, fencing_token, job_version, shard, priority,"
        " attempt, state, trigger, tenant_id, queue, target_key)"
        " VALUES ($1, $2, $3, $3, $3, 1, 1, $4, 5, 1, 'succeeded', 'schedule', 'default', 'default', 'work')",
        row.id,
        made.id,
        finished_at,
        made.shard,
    )
    return row.id


async def test_partitions_of_the_coming_week_are_made(fresh_core: Core) -> None:
    core = fresh_core
    core.pass_time(3 * DAY.total_seconds())
    await pruner(core).make_partitions_once()
    today = core.clock.now().date()
    expected = [today + n * DAY for n in range(-1, DAYS_AHEAD + 1)]
    assert [day for day in await days(core) if day >= expected[0]] == expected
    assert [day for day in await days(core, "run_logs") if day >= expected[0]] == expected
    core.pass_time(25 * DAY.total_seconds())
    await pruner(core).make_partitions_once()
    month = core.clock.now().strftime("%Y%m")
    assert await core.fetchval("SELECT to_regclass('audit_' || $1::text) IS NOT NULL", month)


async def test_days_older_than_the_retention_are_dropped(fresh_core: Core) -> None:
    core = fresh_core
    made = await core.job()
    today = core.clock.now()
    old, kept = await ended_run(core, made, today - timedelta(hours=1)), await ended_run(core, made, today + 2 * DAY)
    core.pass_time((MONTH + DAY).total_seconds())
    assert await pruner(core).run_once() == LOOK_EVERY_S
    assert await core.ended(old) is None
    assert await core.ended(kept) is not None
    assert min(await days(core)) == (core.clock.now() - MONTH).date()
    (event,) = core.told.named(Name.PARTITIONS_DROPPED)
    assert f"history_{today:%Y%m%d}" in event.fields["partitions"]
    assert f"run_logs_{today:%Y%m%d}" in event.fields["partitions"]


async def test_what_fell_beside_the_days_does_not_stop_them(fresh_core: Core) -> None:
    """The node was away for weeks, or a clock jumped: the row is in the default partition when its day is made."""
    core = fresh_core
    made = await core.job()
    core.pass_time(20 * DAY.total_seconds())
    run_id = await ended_run(core, made, core.clock.now())
    assert await core.fetchval("SELECT count(*) FROM history_default") == 1
    await pruner(core).make_partitions_once()
    assert core.clock.now().date() in await days(core)
    assert await core.fetchval("SELECT count(*) FROM history_default") == 0
    assert await core.ended(run_id) is not None
    core.pass_time((MONTH + DAY).total_seconds())
    await pruner(core).run_once()
    assert await core.ended(run_id) is None


async def test_what_lies_far_off_is_forgotten_in_time(core: Core) -> None:
    made = await core.job()
    run_id = await ended_run(core, made, core.clock.now() - 100 * DAY)
    await pruner(core).run_once()
    assert await core.ended(run_id) is None


async def test_only_the_leader_of_the_first_shard_prunes(core: Core) -> None:
    core.leader.drop_shards([0])
    made = await core.job()
    run_id = await ended_run(core, made, core.clock.now() - 100 * DAY)
    assert await pruner(core).run_once() == await pruner(core).make_partitions_once() == 5.0
    assert await core.ended(run_id) is not None


async def aged_job(core: Core, **columns: Any) -> Job:
    """A one-off of long ago."""
    at = core.clock.now() - 40 * DAY
    made = await core.job(schedule.Once(at))
    old_id = UUID(int=(made.id.int & (1 << 80) - 1) | (int(at.timestamp() * 1000) << 80))
    await core.fetch("UPDATE jobs SET id = $2 WHERE id = $1", made.id, old_id)
    for name, value in columns.items():
        await core.fetch(f"UPDATE jobs SET {name} = $2 WHERE id = $1", old_id, value)
    return Job(old_id, *(getattr(made, name) for name in list(Job.__dataclass_fields__)[1:]))


async def test_definitions_that_nothing_refers_to_are_forgotten(core: Core) -> None:
    gone = await aged_job(core)
    waits, runs, dead, paused = [await aged_job(core) for _ in range(4)]
    await core.arm(waits.timer(core.clock.now()))
    await core.make(runs.by_hand(core.clock.now()))
    await core.fetch(
        "INSERT INTO dead_letters (run_id, job_id, tenant_id, queue, shard, fingerprint, attempts)"
        " VALUES (gen_random_uuid(), $1, 'default', 'default', 3, 'f', 1)",
        dead.id,
    )
    await core.fetch("UPDATE jobs SET status = 'paused' WHERE id = $1", paused.id)
    recurring = await core.job(schedule.Every(DAY, core.clock.now()))
    recent = await core.job()
    await pruner(core).run_once()
    left = {row["id"] for row in await core.fetch("SELECT id FROM jobs")}
    assert left == {job.id for job in (waits, runs, dead, paused, recurring, recent)}
    assert gone.id not in left


async def test_more_than_one_bite_is_taken_soon(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horarium.services.pruner.ROWS_AT_ONCE", 2)
    for _ in range(3):
        await aged_job(core)
    assert await pruner(core).run_once() == 1.0
    assert await pruner(core).run_once() == LOOK_EVERY_S
    assert await core.fetchval("SELECT count(*) FROM jobs") == 0
