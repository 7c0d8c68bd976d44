"""The databases of `scale`: a small one, and some like it in which one thing is large."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import asyncpg

from benchmarks import harness

DAYS = 7
PER_STATEMENT = 1_000_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything. `ticks` timers are fired in each of `rounds`."""

    small: int
    registered: int
    backlog: int
    history: int
    ticks: int
    rounds: int


class Case(NamedTuple):
    """One database: what is in it, and how many times the small one's cost it may have."""

    name: str
    registered: int
    backlog: int
    history: int
    limit: float


def cases(sizes: Sizes) -> list[Case]:
    """The small database first."""
    return [
        Case("small", sizes.small, 0, 0, 1.0),
        Case("registered", sizes.registered, 0, 0, 1.2),
        Case("backlog", sizes.small, sizes.backlog, 0, 1.2),
        Case("history", sizes.small, 0, sizes.history, 1.1),
    ]


async def fill(connection: asyncpg.Connection, case: Case, ticks: int) -> None:
    """Put in what the case wants; `chosen` holds the timers that will be fired, spread over all pages."""
    await connection.execute("SELECT make_partitions(current_date - $1::integer, current_date + 1)", DAYS)
    every = case.registered // ticks
    later = await connection.fetchval("SELECT date_trunc('hour', now()) + interval '2 days'")
    await harness.seed(connection, case.registered, later, harness.schedules())
    await connection.execute(
        """CREATE TABLE numbered AS SELECT (row_number() OVER (ORDER BY id) - 1)::integer AS n, id, shard FROM jobs;
           ANALYZE numbered"""
    )
    await connection.execute(
        f"CREATE TABLE chosen AS SELECT id AS job_id FROM numbered WHERE n % {every} = 0 LIMIT {ticks}"
    )
    for first, last in _portions(case.backlog):
        await _add_waiting(connection, first, last, case.registered)
    for first, last in _portions(case.history):
        await _add_finished(connection, first, last, case.registered)
    await harness.settle(connection)


async def _add_waiting(connection: asyncpg.Connection, first: int, last: int, jobs: int) -> None:
    """Runs that have been waiting for an hour or longer."""
    await connection.execute(
        """INSERT INTO runs (id, job_id, scheduled_for, ready_at, job_version, shard, priority, tenant_id, queue, target_key)
           SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '8' || lpad(to_hex(j.shard::integer), 3, '0')
                   || '8' || substr(md5('waiting' || g), 1, 15))::uuid,
                  j.id, at, at, 1, j.shard, 5, 'default', 'default', 'noop'
           FROM (SELECT g, now() - interval '2 hours' + make_interval(secs => g * 3600.0 / $2) AS at
                 FROM generate_series($1::integer, $2::integer) g) AS waiting
           JOIN numbered j ON j.n = waiting.g % $3""",
        first,
        last,
        jobs,
    )


async def _add_finished(connection: asyncpg.Connection, first: int, last: int, jobs: int) -> None:
    """Runs that have ended: half of them today, the others in the week before."""
    await connection.execute(
        """INSERT INTO history (id, job_id, scheduled_for, ready_at, started_at, finished_at, fencing_token, job_version, shard,
                                priority, attempt, state, trigger, tenant_id, queue, target_key, worker_id)
           SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '8' || lpad(to_hex(j.shard::integer), 3, '0')
                   || '8' || substr(md5('finished' || g), 1, 15))::uuid,
                  j.id, at, at, at, at, g, 1, j.shard, 5, 1, 'succeeded', 'schedule', 'default', 'default', 'noop', 'before'
           FROM (SELECT g, CASE WHEN g % 2 = 0 THEN date_trunc('day', now()) + (now() - date_trunc('day', now())) * part
                           ELSE date_trunc('day', now()) - make_interval(days => $3) * part END AS at
                 FROM (SELECT g, (hashint4(g)::bigint + 2147483648) / 4294967296.0 AS part
                       FROM generate_series($1::integer, $2::integer) g) AS spread) AS finished
           JOIN numbered j ON j.n = finished.g % $4""",
        first,
        last,
        DAYS,
        jobs,
    )


def _portions(count: int) -> Iterator[tuple[int, int]]:
    """From and to, for statements of a size that one transaction bears."""
    for first in range(1, count + 1, PER_STATEMENT):
        yield first, min(count, first + PER_STATEMENT - 1)
