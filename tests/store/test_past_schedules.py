"""Rows of `past_schedules`: each begins where the one before ended, and goes when history does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg

from horarium.domain import job, schedule
from horarium.domain.states import JobStatus
from horarium.store import past_schedules
from horarium.store.past_schedules import Unknown
from tests.builders import SHARD

MADE = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
JOB_ID = UUID(int=7)


def hourly(status: JobStatus = JobStatus.ACTIVE, **timing: object) -> job.Job:
    spec = job.JobSpec(target={"handler": "work"}, **(timing or {"schedule": "0 * * * *"}))  # type: ignore[arg-type]
    return job.Job(JOB_ID, SHARD, "default", spec, MADE, MADE, "ada", MADE, "ada", status)


async def rows(connection: asyncpg.Connection) -> list[tuple[datetime, datetime, str | None]]:
    found = await connection.fetch(
        "SELECT valid_from, valid_until, schedule_key FROM past_schedules ORDER BY valid_until"
    )
    return [tuple(row) for row in found]


async def test_schedules_follow_each_other(connection: asyncpg.Connection) -> None:
    await past_schedules.end(connection, hourly(), MADE + HOUR)
    await past_schedules.end(connection, hourly(schedule="5 * * * *"), MADE + 3 * HOUR)
    (first, second) = await rows(connection)
    assert first[:2] == (MADE, MADE + HOUR)
    assert second[:2] == (MADE + HOUR, MADE + 3 * HOUR)
    assert second[2] is not None
    assert schedule.decode(second[2]).timing == schedule.Cron("5 * * * *", "UTC")


async def test_what_began_early_leaves_a_gap_that_nobody_can_judge(connection: asyncpg.Connection) -> None:
    await past_schedules.end(connection, hourly(), MADE + HOUR, MADE + 2 * HOUR)
    assert [row[:2] for row in await rows(connection) if row[2] is None] == [(MADE + HOUR, MADE + 2 * HOUR)]


async def test_a_paused_one_off_and_a_job_in_error_owe_nothing(connection: asyncpg.Connection) -> None:
    await past_schedules.end(connection, hourly(JobStatus.PAUSED, run_at=MADE + HOUR), MADE + 2 * HOUR)
    await past_schedules.end(connection, hourly(JobStatus.ERROR), MADE + 3 * HOUR)
    await past_schedules.forget(connection, hourly(JobStatus.ERROR), MADE + 4 * HOUR)
    found = await rows(connection)
    assert [row[2] for row in found] == [None, None, None, None]
    assert any(row[1] == MADE + HOUR for row in found), (
        "the moment of the one-off itself: its run may have been before the pause"
    )


async def test_old_ones_are_pruned_in_bites(connection: asyncpg.Connection) -> None:
    times = [Unknown(JOB_ID, SHARD, MADE, MADE + number * HOUR) for number in range(1, 6)]
    await past_schedules.leave_open(connection, times)
    assert await past_schedules.prune(connection, MADE + 4 * HOUR, 2) == 2
    assert await past_schedules.prune(connection, MADE + 4 * HOUR, 2) == 1
    assert [row[1] for row in await rows(connection)] == [MADE + 4 * HOUR, MADE + 5 * HOUR]
