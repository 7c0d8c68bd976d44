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

from horarium.store import statements
from horarium.store.timers import Terms

SQL = statements.load("runs")

# An id from its 16 bytes or its text, in the driver's own class: a `uuid.UUID` that is made, hashed, sent and shown faster.
uuid_of: Callable[[bytes | str], UUID] = pgproto.UUID


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


class Grant(NamedTuple):
    """What one request for leases gets: parallel lists for the leader's memory, and each lease as JSON for the worker."""

    request: int
    ids: list[UUID]
    tokens: list[int]
    attempts: list[int]
    timeouts: list[int]
    leases: list[str]


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
    connection: asyncpg.Connection,
    ids: Sequence[UUID],
    workers: Sequence[str],
    requests: Sequence[int],
    lease: timedelta,
    terms: Terms,
) -> list[Grant]:
    """Claim waiting runs for workers: attempt + 1, a new fencing token, a lease. Runs that are no longer waiting are left out."""
    lease_s = f"{lease.total_seconds():g}"
    others = {str(run_id): worker for run_id, worker in zip(ids, workers, strict=True) if worker != workers[0]}
    row = await connection.fetchrow(
        SQL.claim, ids, json.dumps(others), workers[0], lease, terms.shards, terms.terms, lease_s
    )
    return _by_request(row, dict(zip(ids, requests, strict=True)))


def _by_request(row: asyncpg.Record, request_of: dict[UUID, int]) -> list[Grant]:
    """Share what a claim brought among the requests that it was made for."""
    if not row["ids"]:
        return []
    if len(set(request_of.values())) == 1:
        return [Grant(request_of[row["ids"][0]], *row)]
    grants: dict[int, Grant] = {}
    for run_id, token, attempt, timeout_s, lease in zip(*row, strict=True):
        request = request_of[run_id]
        grant = grants.get(request)
        if grant is None:
            grant = grants[request] = Grant(request, [], [], [], [], [])
        grant.ids.append(run_id)
        grant.tokens.append(token)
        grant.attempts.append(attempt)
        grant.timeouts.append(timeout_s)
        grant.leases.append(lease)
    return list(grants.values())


async def succeed(
    connection: asyncpg.Connection,
    ids: Sequence[UUID],
    tokens: Sequence[int],
    results: Sequence[str | None],
    progress: Sequence[str | None],
) -> list[Held]:
    """End runs as succeeded; returns the ones that were still held under their token."""
    if not any(results) and not any(progress):
        return [Held(*row) for row in await connection.fetch(SQL.succeed_plain, ids, tokens)]
    return [Held(*row) for row in await connection.fetch(SQL.succeed, ids, tokens, results, progress)]


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


async def load(connection: asyncpg.Connection, shards: Sequence[int], after: UUID, limit: int) -> list[asyncpg.Record]:
    """Live rows of some shards by key order, after `after`."""
    rows: list[asyncpg.Record] = await connection.fetch(SQL.load, list(shards), after, limit)
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
