"""What the auditor reads: all of it inside one transaction, as of one moment; and what it mends."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import asyncpg

from horarium.domain import audit, ids, job, schedule
from horarium.domain.states import JobStatus
from horarium.store import statements

SQL = statements.load("auditing")

AT_MOST = 1_000

# A tick may end before its time: one that is ahead is cancelled. By days, so that it costs one partition.
_ENDED_EARLY = timedelta(days=1)
_EVER = datetime(1970, 1, 1, tzinfo=UTC)


class Moment(NamedTuple):
    """As of when everything is read, and since when history is kept; None where no day of it has been made yet."""

    now: datetime
    kept_since: datetime | None


@dataclass(frozen=True, slots=True)
class Account:
    """A job as the auditor looks at it first. `number` and `total_s` (the sum of seconds since the epoch) are of its ticks.

    `settled_until`: where the accounts of a paused job end. `is_special`: there are skips or earlier schedules, too.
    """

    job_id: UUID
    shard: int
    tenant_id: str
    status: JobStatus
    created_at: datetime
    deleted_at: datetime | None
    settled_until: datetime | None
    schedule: schedule.Schedule
    timer: Timer | None
    number: int
    total_us: int
    is_special: bool


class Timer(NamedTuple):
    """Where a job's timer stands."""

    scheduled_for: datetime
    due_at: datetime


class Progress(NamedTuple):
    """The latest nominal time of a job that is a run or a skip, and where its last earlier schedule ended."""

    accounted: datetime | None
    changed: datetime | None


class Trouble(NamedTuple):
    """A row that should not be as it is. `run_id` and `at` where there is one; `state` says how it is."""

    shard: int
    tenant_id: str | None = None
    job_id: UUID | None = None
    run_id: UUID | None = None
    at: datetime | None = None
    state: str | None = None


async def moment(connection: asyncpg.Connection) -> Moment:
    """As of when the transaction sees everything."""
    return Moment(*await connection.fetchrow(SQL.moment))


async def accounts(connection: asyncpg.Connection, after: UUID, limit: int, since: datetime) -> list[Account]:
    """Jobs by key, at most `limit`, with what they did since an instant."""
    rows = await connection.fetch(SQL.jobs, after, limit, since, _first_id(since), _ended_since(since))
    return [_account(row) for row in rows]


async def books(
    connection: asyncpg.Connection, account: Account, window: audit.Span, governed_until: datetime
) -> audit.Books:
    """Everything about the ticks of one job. The schedule that it has now governed up to `governed_until`."""
    since = window.after
    ticks = await connection.fetch(SQL.ticks_of, account.job_id, since, _first_id(since), _ended_since(since))
    skips = await connection.fetch(SQL.skips_of, account.job_id, since)
    past = await connection.fetch(SQL.past_schedules_of, account.job_id)
    began = max((row["valid_until"] for row in past), default=account.created_at)
    versions = [
        audit.Version(schedule.decode(row["schedule_key"]), audit.Span(row["valid_from"], row["valid_until"]))
        for row in past
        if row["schedule_key"] is not None
    ]
    return audit.Books(
        window,
        [*versions, audit.Version(account.schedule, audit.Span(began, governed_until))],
        [row["scheduled_for"] for row in ticks],
        [audit.Stretch(*row) for row in skips],
        [audit.Span(row["valid_from"], row["valid_until"]) for row in past if row["schedule_key"] is None],
    )


async def progress(connection: asyncpg.Connection, job_id: UUID) -> Progress:
    """How far a job is."""
    return Progress(*await connection.fetchrow(SQL.progress, job_id))


async def leaderless(connection: asyncpg.Connection, now: datetime) -> list[Trouble]:
    """Shards that nobody leads; `state` is who did."""
    return [Trouble(row["shard"], state=row["leader"]) for row in await connection.fetch(SQL.leaderless, now)]


async def overdue(connection: asyncpg.Connection, before: datetime) -> list[Trouble]:
    """Timers that were due before an instant."""
    rows = await connection.fetch(SQL.overdue, before, AT_MOST)
    return [Trouble(row["shard"], row["tenant_id"], row["job_id"], at=row["scheduled_for"]) for row in rows]


async def stray_timers(connection: asyncpg.Connection) -> list[Trouble]:
    """Timers of jobs that are gone (`state` None), paused or ended."""
    rows = await connection.fetch(SQL.timers_without_job, AT_MOST)
    return [
        Trouble(row["shard"], row["tenant_id"], row["job_id"], at=row["scheduled_for"], state=row["status"])
        for row in rows
    ]


async def runs_without_job(connection: asyncpg.Connection) -> list[Trouble]:
    """Live runs of jobs that are gone."""
    rows = await connection.fetch(SQL.runs_without_job, AT_MOST)
    return [Trouble(row["shard"], row["tenant_id"], row["job_id"], row["id"], state=row["state"]) for row in rows]


async def stuck_leases(connection: asyncpg.Connection, now: datetime, before: datetime) -> list[Trouble]:
    """Running runs whose lease ended before an instant although their shard is led; `state` is the worker."""
    rows = await connection.fetch(SQL.stuck_leases, now, before, AT_MOST)
    return [
        Trouble(row["shard"], row["tenant_id"], row["job_id"], row["id"], row["lease_expires_at"], row["worker_id"])
        for row in rows
    ]


async def live_and_ended(connection: asyncpg.Connection) -> list[Trouble]:
    """Runs that stand in history and among the live ones."""
    rows = await connection.fetch(SQL.live_and_ended, AT_MOST)
    return [Trouble(row["shard"], row["tenant_id"], row["job_id"], row["id"], state=row["state"]) for row in rows]


async def letters_without_run(connection: asyncpg.Connection, kept_since: datetime | None) -> list[Trouble]:
    """Open dead letters, not older than history, whose run is not in it."""
    rows = await connection.fetch(SQL.letters_without_run, kept_since or _EVER, AT_MOST)
    return [Trouble(row["shard"], row["tenant_id"], row["job_id"], row["run_id"]) for row in rows]


async def drop_timer(connection: asyncpg.Connection, job_id: UUID) -> bool:
    """Take away the timer of a job that is gone or not active; False when it has none any more."""
    return bool(await connection.fetch(SQL.drop_timer, job_id))


async def drop_live(connection: asyncpg.Connection, run_id: UUID) -> bool:
    """Take away the live row of a run that has ended; False when there is none any more."""
    return bool(await connection.fetch(SQL.drop_live, run_id))


def _account(row: asyncpg.Record) -> Account:
    pause = {} if row["pause"] is None else json.loads(row["pause"])
    settled = pause.get("settled_until") or pause.get("at")
    spec = job.JobSpec(target={}, **{name: row[name] for name in job.TIMING_FIELDS})
    return Account(
        row["id"],
        row["shard"],
        row["tenant_id"],
        JobStatus(row["status"]),
        row["created_at"],
        row["deleted_at"],
        None if settled is None else datetime.fromisoformat(settled),
        job.schedule_of(spec, row["anchor_at"]),
        None if row["timer_at"] is None else Timer(row["timer_at"], row["timer_due_at"]),
        row["number"],
        int((row["total"] or 0) * 1_000_000),
        row["is_special"],
    )


def _first_id(since: datetime) -> UUID:
    """No tick after an instant has an id before this one."""
    return UUID(int=(ids.microseconds(since) // 1000) << 80)


def _ended_since(since: datetime) -> datetime:
    return since - _ENDED_EARLY
