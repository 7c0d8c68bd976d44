"""Rows of `timers`: the next occurrence of each active job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg

from horarium.store import statements

SQL = statements.load("timers")


class TimerRow(NamedTuple):
    """A job's next occurrence. `schedule_key` and `policy_key` are the encoded schedule and policies."""

    job_id: UUID
    shard: int
    scheduled_for: datetime
    due_at: datetime
    last_scheduled_for: datetime | None
    priority: int
    job_version: int
    tenant_id: str
    queue: str
    target_key: str
    schedule_key: str
    policy_key: str = ""
    zone_version: str = ""


class Move(NamedTuple):
    """From the occurrence that was fired to the next one; `last` is the last nominal time that was handled."""

    job_id: UUID
    scheduled_for: datetime
    next_scheduled_for: datetime
    next_due_at: datetime
    last: datetime


class Recomputed(NamedTuple):
    """The next occurrence under newer zone data: from the nominal time that it was to the one that it is."""

    job_id: UUID
    scheduled_for: datetime
    next_scheduled_for: datetime
    next_due_at: datetime
    schedule_key: str


class Terms(NamedTuple):
    """The shards that this node leads and the term of each: two arrays of equal length, named by every leader's write."""

    shards: list[int]
    terms: list[int]


async def select_due(
    connection: asyncpg.Connection, cursors: dict[int, datetime], limit: int, horizon: datetime, terms: Terms
) -> list[TimerRow]:
    """The timers due by `horizon`, locked, from each shard's cursor on, at most `limit` a shard."""
    rows = await connection.fetch(
        SQL.select_due, list(cursors), list(cursors.values()), limit, horizon, terms.shards, terms.terms
    )
    return [TimerRow(*row) for row in rows]


async def fire(
    connection: asyncpg.Connection,
    run_ids: Sequence[UUID],
    job_ids: Sequence[UUID],
    nominal: Sequence[datetime],
    following: Sequence[datetime],
) -> None:
    """Make the run of each timer's occurrence and move the timer on to the following one."""
    if not run_ids:
        return
    order = sorted(range(len(job_ids)), key=job_ids.__getitem__)
    columns = (run_ids, job_ids, nominal, following)
    await connection.execute(SQL.fire, *([column[place] for place in order] for column in columns))


async def move(connection: asyncpg.Connection, moves: Sequence[Move]) -> None:
    """Move timers on; one that somebody else moved meanwhile stays as it is (rule I4)."""
    if moves:
        await connection.execute(SQL.move, *map(list, zip(*sorted(moves), strict=True)))


async def delete(connection: asyncpg.Connection, job_ids: Sequence[UUID]) -> None:
    """Remove timers; missing ones are no error."""
    if job_ids:
        await connection.execute(SQL.delete, list(job_ids))


async def lock(connection: asyncpg.Connection, job_ids: Sequence[UUID]) -> dict[UUID, TimerRow]:
    """Lock the timers of some jobs to the end of the transaction: the scheduler passes them over meanwhile."""
    rows = await connection.fetch(SQL.lock, list(job_ids))
    return {row["job_id"]: TimerRow(**row) for row in rows}


async def upsert(connection: asyncpg.Connection, rows: Sequence[TimerRow]) -> None:
    """Write the next occurrence of jobs, new or changed."""
    if rows:
        await connection.execute(SQL.upsert, *map(list, zip(*rows, strict=True)))


async def finish_jobs(connection: asyncpg.Connection, job_ids: Sequence[UUID]) -> None:
    """Mark recurring jobs whose last tick was fired as finished."""
    if job_ids:
        await connection.execute(SQL.finish_jobs, list(job_ids))


async def fail_jobs(connection: asyncpg.Connection, reasons: dict[UUID, str]) -> None:
    """Mark jobs that cannot be planned, each with its reason, and take their timers away."""
    if reasons:
        await connection.execute(SQL.fail_jobs, list(reasons), list(reasons.values()))
        await delete(connection, list(reasons))


async def select_handled_ahead(
    connection: asyncpg.Connection, shards: Sequence[int], later_than: datetime, after: UUID, limit: int
) -> list[TimerRow]:
    """Timers whose last handled tick lies later than `later_than`, by key after `after`, locked."""
    rows = await connection.fetch(SQL.select_handled_ahead, list(shards), later_than, after, limit)
    return [TimerRow(*row) for row in rows]


async def rearm(connection: asyncpg.Connection, times: Mapping[UUID, tuple[datetime, datetime]]) -> None:
    """Set timers anew to (nominal, due)."""
    if times:
        nominal, due = zip(*times.values(), strict=True)
        await connection.execute(SQL.rearm, list(times), list(nominal), list(due))


async def select_other_zone_version(
    connection: asyncpg.Connection, shards: Sequence[int], version: str, after: UUID, limit: int
) -> list[TimerRow]:
    """Timers computed with older zone data than `version`, by key after `after`, locked."""
    rows = await connection.fetch(SQL.select_other_zone_version, list(shards), version, after, limit)
    return [TimerRow(*row) for row in rows]


async def recompute(connection: asyncpg.Connection, rows: Sequence[Recomputed], version: str) -> None:
    """Write times computed with zone data `version`; a timer that moved on meanwhile stays as it is."""
    if rows:
        await connection.execute(SQL.recompute, *map(list, zip(*rows, strict=True)), version)


async def relocate_one_offs(connection: asyncpg.Connection, times: dict[UUID, datetime]) -> None:
    """Write the instants that one-offs given as wall time stand for now."""
    if times:
        await connection.execute(SQL.relocate_one_offs, list(times), list(times.values()))


async def count_overdue(connection: asyncpg.Connection, shards: Sequence[int], before: datetime, bound: int) -> int:
    """How many timers are due before `before` and still there, counted to `bound`."""
    count: int = await connection.fetchval(SQL.count_overdue, list(shards), before, bound)
    return count
