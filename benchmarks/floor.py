"""The floor itself, and what Horarium adds to it: the rows and the WAL of one run on the straight path.

First the four statements by bare SQL, each alone on one connection and all together on three: what PostgreSQL gives on this
machine, and what other benchmarks hold their figures against. Then the same timers through bare SQL and through Horarium
(server and worker processes, no-op handlers), on a cluster with `full_page_writes` off, so that the WAL is that of the rows
alone: bytes by `pg_current_wal_insert_lsn()`, row writes by `pg_stat_all_tables`, everything included (shard leases, rollups,
vacuum). Verified: as many runs succeeded as timers were due.
Goals: at most 5 row writes (and 1 % of housekeeping) and 1,200 bytes of WAL for a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import NamedTuple

import asyncpg
import uvloop

from benchmarks import bare, books, harness, system

GOAL_WRITES, HOUSEKEEPING, GOAL_BYTES = 5, 1.01, 1_200
STAGES = ("fire", "claim", "complete")
KINDS = ("ins", "upd", "del", "hot")

CarryOut = Callable[[str, asyncpg.Connection, datetime, int], Awaitable[None]]


class Cost(NamedTuple):
    """What was written for each run; `hot` is the part of the claims that touched no index."""

    wal_bytes: float
    row_writes: float
    hot: float
    by_table: str
    by_record: str


async def measure_statements(url: str, given: harness.Options) -> None:
    """The four statements, alone and together."""
    count, seconds = (40_000, 3) if given.quick else (300_000, 20)
    connection = await harness.fresh(url)
    due = await seed(connection, count)
    rates = await bare.stage_rates(url, due)
    await connection.execute("TRUNCATE runs, history")
    await harness.settle(connection)
    together = await bare.end_to_end_rate(url, seconds)
    await connection.close()
    harness.tell(
        *[harness.Result(f"floor.{stage}", rate, "runs/s") for stage, rate in zip(STAGES, rates, strict=True)],
        harness.Result("floor.together", together, "runs/s"),
    )


async def measure_costs(url: str, given: harness.Options) -> None:
    """Rows and WAL of a run: bare SQL first, then Horarium."""
    count = 20_000 if given.quick else 200_000
    least = await cost(url, count, by_bare_sql)
    ours = await cost(url, count, by_horarium)
    for name, found in (("bare SQL", least), ("horarium", ours)):
        harness.say(given, f"{name}, rows a run: {found.by_table}")
        harness.say(given, f"{name}, WAL bytes a run: {found.by_record}")
    writes_ok, bytes_ok = ours.row_writes <= GOAL_WRITES * HOUSEKEEPING, ours.wal_bytes <= GOAL_BYTES
    goals = f"<= {GOAL_WRITES} row writes", f"<= {GOAL_BYTES:,} bytes"
    harness.tell(
        harness.Result("floor.hot_claims", ours.hot, "of claims", least.hot, ours.hot / least.hot),
        harness.Result(
            "floor.row_writes",
            ours.row_writes,
            "rows/run",
            least.row_writes,
            ours.row_writes / least.row_writes,
            goals[0],
            writes_ok,
        ),
        harness.Result(
            "floor",
            ours.wal_bytes,
            "WAL B/run",
            least.wal_bytes,
            ours.wal_bytes / least.wal_bytes,
            " and ".join(reversed(goals)),
            writes_ok and bytes_ok,
        ),
    )


async def cost(url: str, count: int, carry_out: CarryOut) -> Cost:
    """What is written when `count` due timers are fired, claimed and completed."""
    connection = await harness.fresh(url)
    due = await seed(connection, count)
    rows_before, wal_before = await row_writes(connection), await wal_position(connection)
    await carry_out(url, connection, due, count)
    wal_after = await wal_position(connection)
    # A backend hands in its counts when it ends: all but this one have ended.
    written = await row_writes(connection) - rows_before
    assert await connection.fetchval("SELECT count(*) FROM history WHERE state = 'succeeded'") == count
    by_record = await wal_by_record(connection, wal_before, wal_after, count)
    await connection.close()
    writes = sum(number for (_, kind), number in written.items() if kind != "hot")
    hot = written["runs", "hot"] / written["runs", "upd"]
    return Cost((wal_after - wal_before) / count, writes / count, hot, described(written, count), by_record)


async def by_bare_sql(url: str, connection: asyncpg.Connection, due: datetime, count: int) -> None:
    """The same rows by the bare statements."""
    await bare.stage_rates(url, due)


async def by_horarium(url: str, connection: asyncpg.Connection, due: datetime, count: int) -> None:
    """Server and worker, from their start to their end."""
    with system.system(url) as running:
        running.start_server()
        running.start_worker("--slots", "500")
        while await connection.fetchval("SELECT count(*) FROM history") < count:
            await books.pause()


async def seed(connection: asyncpg.Connection, count: int) -> datetime:
    """Timers due at the full hour that has passed."""
    due = await harness.past_hour(connection)
    await harness.seed(connection, count, due, harness.schedules())
    await harness.settle(connection)
    return due


async def row_writes(connection: asyncpg.Connection) -> Counter[tuple[str, str]]:
    """Rows written so far, by table and kind; partitions count as their table."""
    await connection.execute("SELECT pg_stat_clear_snapshot(), pg_stat_force_next_flush()")
    rows = await connection.fetch(
        """SELECT regexp_replace(relname, '_(default|[0-9]+)$', '') AS name, sum(n_tup_ins)::bigint AS ins,
                  sum(n_tup_upd)::bigint AS upd, sum(n_tup_del)::bigint AS del, sum(n_tup_hot_upd)::bigint AS hot
           FROM pg_stat_all_tables WHERE schemaname = 'horarium' GROUP BY 1"""
    )
    return Counter({(row["name"], kind): row[kind] for row in rows for kind in KINDS})


async def wal_position(connection: asyncpg.Connection) -> int:
    """Bytes of WAL written since the cluster was made."""
    position: int = await connection.fetchval("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
    return position


async def wal_by_record(connection: asyncpg.Connection, first: int, last: int, count: int) -> str:
    """The largest kinds of WAL records, in bytes for a run and in records for a run."""
    await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_walinspect")
    rows = await connection.fetch(
        """SELECT "resource_manager/record_type" AS kind, combined_size::float8 AS bytes, count::float8 AS records
           FROM pg_get_wal_stats('0/0'::pg_lsn + $1::bigint, '0/0'::pg_lsn + $2::bigint, true)
           ORDER BY combined_size DESC LIMIT 8""",
        first,
        last,
    )
    return ", ".join(f"{row['kind']} {row['bytes'] / count:.0f} in {row['records'] / count:.2f}" for row in rows)


def described(written: Counter[tuple[str, str]], count: int) -> str:
    """What was written to which table, for a run."""
    parts = [f"{table} {kind} {number / count:.3f}" for (table, kind), number in sorted(written.items()) if number]
    return ", ".join(parts)


def main() -> None:
    """Run it."""
    given = harness.options(__doc__ or "")
    with harness.cluster() as cluster:
        uvloop.run(measure_statements(cluster.dsn, given))
    with harness.cluster(full_page_writes="off") as cluster:
        uvloop.run(measure_costs(cluster.dsn, given))


if __name__ == "__main__":
    main()
