"""Rows of `past_schedules`: by which schedule a job went before it was changed, so that its ticks can be checked later.

The schedule that a job has now stands in `jobs`; it governs from the end of the last past one, or since the job was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import asyncpg

from horarium.domain import job, schedule
from horarium.domain.states import JobStatus
from horarium.store import statements

SQL = statements.load("past_schedules")

_EVER = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Unknown(NamedTuple):
    """A time (after < t <= until) for which nobody can tell any more which ticks a job had to have."""

    job_id: UUID
    shard: int
    after: datetime
    until: datetime


async def end(
    connection: asyncpg.Connection, changed: job.Job, now: datetime, handled_ahead: datetime | None = None
) -> None:
    """Write down what a job went by until now, before it gets another schedule.

    Between now and `handled_ahead`, a tick that was begun early, some ticks go by the old schedule and none by the new
    one. A one-off that is paused owes no tick until it is resumed, and it may have had its run before the pause, at a moment
    before it became a one-off. A job in error was not planned at all.
    """
    key: str | None = schedule.encode(job.schedule_of(changed.spec, changed.anchor_at))
    run_at, unknown = changed.spec.run_at, []
    if changed.status is JobStatus.ERROR:
        key = None
    elif changed.status is JobStatus.PAUSED and run_at is not None:
        key = None
        unknown += [Unknown(changed.id, changed.shard, run_at - _MICROSECOND, run_at)] if run_at <= now else []
    await connection.execute(SQL.end, changed.id, changed.shard, changed.created_at, key, now)
    if handled_ahead is not None and handled_ahead > now:
        unknown.append(Unknown(changed.id, changed.shard, now, handled_ahead))
    await leave_open(connection, unknown)


async def forget(connection: asyncpg.Connection, changed: job.Job, now: datetime) -> None:
    """A job goes on after it could not be planned: what was due meanwhile is not known."""
    await leave_open(connection, [Unknown(changed.id, changed.shard, _EVER, now)])


async def leave_open(connection: asyncpg.Connection, times: Sequence[Unknown]) -> None:
    """Write down times that cannot be judged."""
    if times:
        await connection.execute(SQL.leave_open, *map(list, zip(*times, strict=True)))


async def prune(connection: asyncpg.Connection, before: datetime, limit: int) -> int:
    """Delete at most `limit` schedules that ended before an instant; returns how many went."""
    tag: str = await connection.execute(SQL.prune, before, limit)
    return int(tag.rsplit(" ", 1)[1])
