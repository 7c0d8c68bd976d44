"""Rows of `rollups`: counts and histograms by minute, so that no page counts rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import asyncpg

from horarium.store import statements

SQL = statements.load("rollups")


class RollupRow(NamedTuple):
    """What ended in one minute. `lag_ms` and `duration_ms` are JSON arrays: runs in bucket i, upper bounds 2^i ms."""

    minute: datetime
    tenant_id: str
    queue: str
    outcome: str
    shard: int
    count: int  # type: ignore[assignment]  # the column's name; nobody counts in a row
    lag_ms: str
    duration_ms: str


async def add(connection: asyncpg.Connection, rows: Sequence[RollupRow]) -> None:
    """Add counts to their minutes."""
    if rows:
        await connection.execute(SQL.add, *map(list, zip(*rows, strict=True)))


async def prune(connection: asyncpg.Connection, before: datetime) -> None:
    """Forget minutes before an instant."""
    await connection.execute(SQL.prune, before)
