"""What people do to runs by hand: look one up to repeat it, ask it to stop, take or give up dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import asyncpg

from horarium.domain import ids
from horarium.store import statements
from horarium.store.inspect import DeadFilter

SQL = statements.load("manual")

# A run ends after the time in its id, give or take a clock that was set back.
_SLACK = timedelta(days=1)


class Finished(NamedTuple):
    """A run that has ended. The last four before `state` are None where the run was as its job says."""

    id: UUID
    job_id: UUID
    shard: int
    tenant_id: str
    scheduled_for: datetime
    payload: str | None
    target: str | None
    retry: str | None
    timeout_s: int | None
    state: str


class Live(NamedTuple):
    """A live run, locked."""

    id: UUID
    job_id: UUID
    state: str


class Letter(NamedTuple):
    """A dead letter that was taken, its job as it is now, and what its run had of its own.

    `scheduled_for` is None when history no longer holds the run.
    """

    run_id: UUID
    job_id: UUID
    shard: int
    queue: str
    priority: int
    job_target: str
    version: int
    scheduled_for: datetime | None
    payload: str | None
    target: str | None
    retry: str | None
    timeout_s: int | None


async def find_finished(connection: asyncpg.Connection, tenant_id: str, run_id: UUID) -> Finished | None:
    """A run that has ended."""
    row = await connection.fetchrow(SQL.find_finished, run_id, tenant_id, _earliest_end(run_id))
    return None if row is None else Finished(*row)


async def is_live(connection: asyncpg.Connection, tenant_id: str, run_id: UUID) -> bool:
    """Whether a run is waiting or running."""
    return await connection.fetchval(SQL.find_live, run_id, tenant_id) is not None


async def lock_live(connection: asyncpg.Connection, tenant_id: str, run_id: UUID) -> Live | None:
    """A live run, locked to the end of the transaction."""
    row = await connection.fetchrow(SQL.lock_live, run_id, tenant_id)
    return None if row is None else Live(*row)


async def final_state(connection: asyncpg.Connection, tenant_id: str, run_id: UUID) -> str | None:
    """How a run has ended; None when there is no such run in history."""
    state: str | None = await connection.fetchval(SQL.state_of_finished, run_id, tenant_id, _earliest_end(run_id))
    return state


async def take_dead_letters(
    connection: asyncpg.Connection, tenant_id: str, run_ids: Sequence[UUID] | None, wanted: DeadFilter, limit: int
) -> list[Letter]:
    """Take open dead letters, by run or by filter, to run them again."""
    rows = await connection.fetch(SQL.take_dead_letters, *_which(tenant_id, run_ids, wanted), limit)
    return [Letter(*row) for row in rows]


async def discard_dead_letters(
    connection: asyncpg.Connection, tenant_id: str, run_ids: Sequence[UUID] | None, wanted: DeadFilter, limit: int
) -> list[UUID]:
    """Give up open dead letters, by run or by filter; returns their runs."""
    rows = await connection.fetch(SQL.discard_dead_letters, *_which(tenant_id, run_ids, wanted), limit)
    return [row[0] for row in rows]


async def close_dead_letter(connection: asyncpg.Connection, run_id: UUID) -> None:
    """Close the dead letter of a run, if there is one."""
    await connection.execute(SQL.close_dead_letter, run_id)


def _which(tenant_id: str, run_ids: Sequence[UUID] | None, wanted: DeadFilter) -> tuple[object, ...]:
    """The first seven parameters of a statement about dead letters."""
    chosen = None if run_ids is None else list(run_ids)
    return tenant_id, chosen, wanted.job_id, wanted.fingerprint, wanted.queue, wanted.error, wanted.since


def _earliest_end(run_id: UUID) -> datetime:
    """Before this instant the run cannot have ended: older partitions of history need no look."""
    try:
        return ids.instant_of(run_id) - _SLACK
    except OverflowError:
        return ids.EPOCH  # an id that we never made
