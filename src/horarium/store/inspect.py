"""What people look at: lists and single things, read only, in the shapes that screens need.

Nothing here counts rows without a bound. Lists are keyset pages and run inside `bounded`, so that one with a filter
that matches next to nothing is given up instead of reading a whole history."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import asyncpg

from horarium.domain import ids
from horarium.store import statements
from horarium.store.database import Database

SQL = statements.load("inspect")

# A run may end, cancelled, before its nominal time; look-ahead makes runs seconds to minutes ahead of it.
_ENDED_EARLY = timedelta(days=1)
_END_OF_TIME = datetime(9999, 12, 31, tzinfo=UTC)


class TooSlowError(Exception):
    """A bounded statement ran into its time limit."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs a list shows; None leaves a member open. `state` is one of the eight that people see."""

    job_id: UUID | None = None
    queue: str | None = None
    state: str | None = None
    error: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class DeadFilter:
    """Which dead letters a list shows; None leaves a member open. `error` is looked for anywhere in the text."""

    job_id: UUID | None = None
    queue: str | None = None
    fingerprint: str | None = None
    error: str | None = None
    since: datetime | None = None


class LogPosition(NamedTuple):
    """Where in the log of a run one has read to."""

    attempt: int
    seq: int


@asynccontextmanager
async def bounded(database: Database, limit: timedelta) -> AsyncIterator[asyncpg.Connection]:
    """A transaction whose statements may take so long each; TooSlowError when one took longer."""
    async with database.transaction() as connection:
        await connection.execute(SQL.bound_statement, limit // timedelta(milliseconds=1))
        try:
            yield connection
        except asyncpg.QueryCanceledError as error:
            raise TooSlowError from error


async def runs(
    connection: asyncpg.Connection,
    tenant_id: str,
    wanted: RunFilter,
    *,
    live: bool,
    final: bool,
    before: UUID | None,
    limit: int,
) -> list[asyncpg.Record]:
    """Runs by id, newest first, below `before`; `live` and `final` say where the wanted state can be found at all."""
    since = wanted.since
    rows: list[asyncpg.Record] = await connection.fetch(
        SQL.page_of_runs,
        tenant_id,
        live,
        before,
        None if since is None else _first_id_at(since),
        None if since is None else since - _ENDED_EARLY,
        wanted.job_id,
        wanted.queue,
        wanted.state,
        wanted.error,
        limit,
        final,
    )
    return rows


async def run(connection: asyncpg.Connection, tenant_id: str, run_id: UUID) -> asyncpg.Record | None:
    """One run, live or finished."""
    return await connection.fetchrow(SQL.find_run, run_id, tenant_id, _ended_after(run_id))


async def latest_logs(connection: asyncpg.Connection, run_id: UUID, limit: int) -> list[asyncpg.Record]:
    """The last lines that a run said, in their order."""
    rows = await connection.fetch(SQL.latest_logs, run_id, _ended_after(run_id), limit)
    return list(reversed(rows))


async def logs(connection: asyncpg.Connection, run_id: UUID, after: LogPosition, limit: int) -> list[asyncpg.Record]:
    """The lines of a run in their order, after a position."""
    rows: list[asyncpg.Record] = await connection.fetch(SQL.page_of_logs, run_id, _ended_after(run_id), *after, limit)
    return rows


async def job_of_id(connection: asyncpg.Connection, tenant_id: str, job_id: UUID) -> UUID | None:
    """The id itself when the tenant has or had this job."""
    found: UUID | None = await connection.fetchval(SQL.job_of_id, tenant_id, job_id)
    return found


async def count_queues(connection: asyncpg.Connection, tenant_id: str, most: int) -> list[asyncpg.Record]:
    """What stands in each queue, looking at no more than `most` rows."""
    rows: list[asyncpg.Record] = await connection.fetch(SQL.count_queues, tenant_id, most)
    return rows


async def recent_queues(connection: asyncpg.Connection, tenant_id: str) -> list[str]:
    """The queues that had runs in the last day."""
    return [row["queue"] for row in await connection.fetch(SQL.recent_queues, tenant_id)]


async def workers(
    connection: asyncpg.Connection, tenant_id: str, within: timedelta, after: str | None, limit: int
) -> list[asyncpg.Record]:
    """The workers that were heard of lately, by id."""
    rows: list[asyncpg.Record] = await connection.fetch(SQL.page_of_workers, tenant_id, within, after, limit)
    return rows


async def dead_letters(
    connection: asyncpg.Connection, tenant_id: str, wanted: DeadFilter, before: UUID | None, limit: int
) -> list[asyncpg.Record]:
    """Dead letters by run id, newest first, below `before`."""
    rows: list[asyncpg.Record] = await connection.fetch(
        SQL.page_of_dead_letters,
        tenant_id,
        before,
        wanted.job_id,
        wanted.queue,
        wanted.fingerprint,
        wanted.error,
        wanted.since,
        limit,
    )
    return rows


async def dead_letter_groups(
    connection: asyncpg.Connection, tenant_id: str, wanted: DeadFilter, limit: int
) -> list[asyncpg.Record]:
    """Dead letters by error and job, the largest group first."""
    rows: list[asyncpg.Record] = await connection.fetch(
        SQL.groups_of_dead_letters,
        tenant_id,
        wanted.job_id,
        wanted.queue,
        wanted.fingerprint,
        wanted.error,
        wanted.since,
        limit,
    )
    return rows


def _first_id_at(instant: datetime) -> UUID:
    """The lowest id that carries this time or a later one."""
    return UUID(int=max(0, ids.microseconds(instant) // 1000) << 80)


def _ended_after(run_id: UUID) -> datetime:
    """No trace of a run is older than this: its id carries its nominal time. An id of our own is within the calendar."""
    try:
        return ids.instant_of(run_id) - _ENDED_EARLY
    except OverflowError:
        return _END_OF_TIME
