"""Rows of `rollups`: counts and histograms that several writers add to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import asyncpg

from horarium.store import rollups

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ROW = rollups.RollupRow(AT, "default", "q", "succeeded", 3, 2, "[1,1,0]", "[0,0,2]")


async def test_counts_are_added_to_their_minute(connection: asyncpg.Connection) -> None:
    await rollups.add(connection, [ROW, ROW._replace(outcome="dead", count=1)])
    await rollups.add(connection, [ROW._replace(count=5, lag_ms="[0,3,2]", duration_ms="[5,0,0]")])
    rows = {row["outcome"]: row for row in await connection.fetch("SELECT * FROM rollups")}
    row = rows["succeeded"]
    assert (row["minute"], row["count"], row["lag_ms"], row["duration_ms"]) == (AT, 7, [1, 4, 2], [5, 0, 2])
    assert (rows["dead"]["count"], rows["dead"]["lag_ms"]) == (1, [1, 1, 0])


async def test_minutes_before_an_instant_are_forgotten(connection: asyncpg.Connection) -> None:
    await rollups.add(connection, [ROW, ROW._replace(minute=AT + timedelta(minutes=1))])
    await rollups.prune(connection, AT + timedelta(minutes=1))
    assert await connection.fetchval("SELECT array_agg(minute) FROM rollups") == [AT + timedelta(minutes=1)]


async def test_nothing_to_add_costs_nothing(connection: asyncpg.Connection) -> None:
    await connection.close()
    await rollups.add(connection, [])
