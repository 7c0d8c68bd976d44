"""Rows of `runs`: live runs, waiting or running. Each transition is one conditional write by (id, token)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

import asyncpg
from asyncpg.pgproto import pgproto

from horarium.domain.ids import microseconds, tick_run_bytes
from horarium.store import statements
from horarium.store.timers import Terms

SQL = statements.load("runs")

# An id from its 16 bytes or its text, in the driver's own class: a `uuid.UUID` that is made, hashed, sent and shown faster.
uuid_of: Callable[[bytes | str], UUID] = pgproto.UUID


def tick_id(job_id: UUID, shard: int, nominal: datetime) -> UUID:
    """`ids.tick_run_id` in the driver's class."""
    return uuid_of(tick_run_bytes(job_id.bytes, shard, microseconds(nominal)))


class RunRow(NamedTuple):
    """A run to be made. The last five are None where the run is as its job says: most runs."""

    id: UUID
    job_id: UUID
    shard: int
    tenant_id: str
    queue: str
    target_key: str
    priority: int
    scheduled_for: datetime
    ready_at: datetime
    job_version: int
    trigger: str = "schedule"
    payload: str | None = None
    target: str | None = None
    retry: str | None = None
    timeout_s: int | None = None
    rerun_of: UUID | None = None


class Retracted(NamedTuple):
    """A scheduled tick that was taken back before it started."""

    id: UUID
    job_id: UUID
    shard: int
    tenant_id: str
    scheduled_for: datetime
    ready_at: datetime


class EndedWaiting(NamedTuple):
    """A run that was ended before it started."""

    id: UUID
    job_id: UUID
    tenant_id: str
    shard: int
    scheduled_for: datetime
    queue: str


class Claimed(NamedTuple):
    """One claimed run: what the leader's memory needs, then what only the worker needs.

    `target` and `payload` are JSON texts as they were stored; `job_name` is None for nameless one-offs.
    """

    id: UUID
    token: int
    attempt: int
    timeout_s: int
    scheduled_for: datetime
    trigger: str
    job_name: str | None
    target: str
    payload: str


class WaitAgain(NamedTuple):
    """A run that goes back to waiting after an attempt."""

    id: UUID
    token: int
    ready_at: datetime
    attempt: int
    snoozes: int
    failures: str | None
    by_leader: bool


class Finish(NamedTuple):
    """A run that ends otherwise than by success. `final` is the state in history."""

    id: UUID
    token: int
    final: str
    error: str | None
    failures: str | None
    progress: str | None
    attempt: int
    by_leader: bool


class Held(NamedTuple):
    """An attempt: a run under the token of one claim."""

    id: UUID
    token: int


async def insert(connection: asyncpg.Connection, rows: Sequence[RunRow]) -> None:
    """Make runs; one that is there already stays as it is."""
    plain = [row[:11] for row in rows if row[11:] == (None,) * 5]
    special = [row for row in rows if row[11:] != (None,) * 5]
    if plain:
        await connection.execute(SQL.insert, *map(list, zip(*plain, strict=True)))
    if special:
        await connection.execute(SQL.insert_with_snapshot, *map(list, zip(*special, strict=True)))


async def claim(
    connection: asyncpg.Connection, ids: Sequence[UUID], workers: Sequence[str], lease: timedelta, terms: Terms
) -> Sequence[Claimed]:
    """Claim waiting runs, run i for worker i: attempt + 1, a new fencing token, a lease. Runs that no longer wait are left out.

    The rows have the shape of `Claimed` and are the driver's own: a tuple more for each run would cost what the claim does not.
    """
    usual = workers[0]
    others = {str(run_id): worker for run_id, worker in zip(ids, workers, strict=True) if worker != usual}
    named = json.dumps(others) if others else None
    rows: Sequence[Claimed] = await connection.fetch(SQL.claim, ids, named, usual, lease, terms.shards, terms.terms)
    return rows


async def succeed(
    connection: asyncpg.Connection,
    ids: Sequence[UUID],
    tokens: Sequence[int],
    results: Sequence[str | None],
    progress: Sequence[str | None],
) -> list[Held]:
    """End runs as succeeded, each with its result; returns the ones that were still held under their token."""
    return [Held(*row) for row in await connection.fetch(SQL.succeed, ids, tokens, results, progress)]


async def succeed_plain(connection: asyncpg.Connection, ids: Sequence[UUID], tokens: Sequence[int]) -> int:
    """End runs as succeeded that gave nothing back; returns how many were still held under their token.

    Mostly all of them: which ones, `ended_under` tells.
    """
    tag: str = await connection.execute(SQL.succeed_plain, ids, tokens)
    return int(tag.rpartition(" ")[2])


async def ended_under(connection: asyncpg.Connection, ids: Sequence[UUID], tokens: Sequence[int]) -> set[Held]:
    """Of these attempts the ones under whose token a run has ended."""
    return {Held(*row) for row in await connection.fetch(SQL.ended_under, ids, tokens)}


async def lock_held(
    connection: asyncpg.Connection, ids: Sequence[UUID], tokens: Sequence[int], by_leader: Sequence[bool], terms: Terms
) -> list[asyncpg.Record]:
    """The rows that are running under these tokens, locked, with their retry policy (`retry`, JSON text).

    Where `by_leader`, only in shards that are still led under `terms`.
    """
    rows: list[asyncpg.Record] = await connection.fetch(
        SQL.lock_held, list(ids), list(tokens), list(by_leader), terms.shards, terms.terms
    )
    return rows


async def wait_again(connection: asyncpg.Connection, rows: Sequence[WaitAgain]) -> None:
    """Put runs back to waiting."""
    if rows:
        in_order = sorted(rows, key=attrgetter("id"))
        await connection.execute(SQL.wait_again, *map(list, zip(*in_order, strict=True)))


async def finish(connection: asyncpg.Connection, rows: Sequence[Finish]) -> None:
    """End runs as dead, cancelled or skipped."""
    if rows:
        await connection.execute(SQL.finish, *map(list, zip(*rows, strict=True)))


async def already_reported(connection: asyncpg.Connection, held: Sequence[Held]) -> set[Held]:
    """Of these attempts the ones whose report was taken in before."""
    ids, tokens = [each.id for each in held], [each.token for each in held]
    return {Held(*row) for row in await connection.fetch(SQL.already_reported, ids, tokens)}


async def end_waiting(
    connection: asyncpg.Connection, ids: Sequence[UUID], final: str, error: str | None
) -> list[EndedWaiting]:
    """End runs that have not started: state `final` in history with the reason; runs that are running are left out."""
    count = len(ids)
    rows = await connection.fetch(SQL.end_waiting, list(ids), [final] * count, [error] * count)
    return [EndedWaiting(*row) for row in rows]


async def retract(connection: asyncpg.Connection, job_ids: Sequence[UUID], after: datetime | None) -> list[Retracted]:
    """Take back scheduled ticks that have not started and are later than `after` (None: all of them)."""
    return [Retracted(*row) for row in await connection.fetch(SQL.retract, list(job_ids), after)]


async def of_job(connection: asyncpg.Connection, job_id: UUID) -> list[asyncpg.Record]:
    """The live runs of a job."""
    rows: list[asyncpg.Record] = await connection.fetch(SQL.of_job, job_id)
    return rows


async def snapshot(connection: asyncpg.Connection, job_id: UUID, until: datetime) -> None:
    """Write the job's present definition into its runs whose nominal time is not later than `until` (rule E1)."""
    await connection.execute(SQL.snapshot, job_id, until)


async def request_cancel(connection: asyncpg.Connection, ids: Sequence[UUID], by: str) -> list[UUID]:
    """Ask running runs to stop; returns the ones that are running. Asking twice changes nothing."""
    return [row[0] for row in await connection.fetch(SQL.request_cancel, list(ids), by)]


async def load(
    connection: asyncpg.Connection,
    shards: Sequence[int],
    after: UUID,
    limit: int,
    but: Sequence[tuple[str, str]] = (),
) -> list[asyncpg.Record]:
    """Live rows of some shards by key order, after `after`; without what waits in the lanes (queue, tenant) of `but`."""
    queues, tenants = [queue for queue, _ in but], [tenant for _, tenant in but]
    rows: list[asyncpg.Record] = await connection.fetch(SQL.load, list(shards), after, limit, queues, tenants)
    return rows


async def load_begun(connection: asyncpg.Connection, shards: Sequence[int]) -> list[asyncpg.Record]:
    """The live rows of some shards that run, or have run before."""
    rows: list[asyncpg.Record] = await connection.fetch(SQL.load_begun, list(shards))
    return rows


async def load_of_job(connection: asyncpg.Connection, job_id: UUID) -> list[asyncpg.Record]:
    """The live rows of one job, in the shape of `load`."""
    rows: list[asyncpg.Record] = await connection.fetch(SQL.load_of_job, job_id)
    return rows


async def load_by_id(connection: asyncpg.Connection, ids: Sequence[UUID]) -> list[asyncpg.Record]:
    """The live rows of some runs, in the shape of `load`."""
    rows: list[asyncpg.Record] = await connection.fetch(SQL.load_by_id, list(ids))
    return rows


async def refresh_leases(
    connection: asyncpg.Connection, ids: Sequence[UUID], tokens: Sequence[int], lease: timedelta
) -> None:
    """Write leases that the leader's memory has extended."""
    if ids:
        await connection.execute(SQL.refresh_leases, list(ids), list(tokens), lease)


async def of_others(connection: asyncpg.Connection, ids: Sequence[UUID], tenant_id: str) -> set[UUID]:
    """Of some live runs the ones of other tenants."""
    return {row[0] for row in await connection.fetch(SQL.of_others, list(ids), tenant_id)}


async def drop_waiting(connection: asyncpg.Connection, ids: Sequence[UUID], terms: Terms) -> list[Retracted]:
    """Take away ticks that have not started; runs that are running meanwhile are left out."""
    return [Retracted(*row) for row in await connection.fetch(SQL.drop_waiting, list(ids), terms.shards, terms.terms)]
