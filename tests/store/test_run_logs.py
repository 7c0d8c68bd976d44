"""Rows of `run_logs`."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from horarium.store import run_logs

RUN = UUID(int=1)


async def test_lines_are_kept_in_the_partition_of_their_day(connection: asyncpg.Connection) -> None:
    now = await connection.fetchval("SELECT now()")
    lines = [
        run_logs.LogRow(RUN, 1, 1, now, "info", "one", '{"n": 1.10}'),
        run_logs.LogRow(RUN, 2, 1, now, "error", "two", None),
    ]
    await run_logs.insert(connection, lines)
    rows = await connection.fetch("SELECT tableoid::regclass::text AS place, * FROM run_logs ORDER BY attempt")
    kept = [run_logs.LogRow(*(row[name] for name in run_logs.LogRow._fields)) for row in rows]
    assert kept == lines
    assert {row["place"] for row in rows} == {f"run_logs_{now:%Y%m%d}"}


async def test_nothing_to_keep_costs_nothing(connection: asyncpg.Connection) -> None:
    await connection.close()
    await run_logs.insert(connection, [])
