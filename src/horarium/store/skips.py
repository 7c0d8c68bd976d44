"""Rows of `skips`: ticks that did not become a run, each with its reason, so that nothing disappears in silence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg

from horarium.store import statements

SQL = statements.load("skips")


class SkipRow(NamedTuple):
    """A stretch of ticks, from `first` to `last`; `exact` is False where `count` is a lower bound (rule M3)."""

    job_id: UUID
    tenant_id: str
    shard: int
    first: datetime
    last: datetime
    count: int  # type: ignore[assignment]  # the column's name; nobody counts in a row
    exact: bool
    reason: str
    coalesced_into: UUID | None = None


async def insert(connection: asyncpg.Connection, rows: Sequence[SkipRow]) -> None:
    """Write stretches of skipped ticks."""
    if rows:
        await connection.execute(SQL.insert, *map(list, zip(*rows, strict=True)))


async def of_job(connection: asyncpg.Connection, job_id: UUID, before: int | None, limit: int) -> list[asyncpg.Record]:
    """The skips of a job, newest first, with ids below `before`."""
    rows: list[asyncpg.Record] = await connection.fetch(SQL.of_job, job_id, before, limit)
    return rows


async def over(connection: asyncpg.Connection, job_id: UUID, instant: datetime) -> list[tuple[datetime, datetime]]:
    """The stretches of skipped ticks, from first to last, that an instant lies in, among the latest of a job."""
    return [(row["first"], row["last"]) for row in await connection.fetch(SQL.over, job_id, instant)]


async def prune(connection: asyncpg.Connection, before: datetime, limit: int) -> int:
    """Delete at most `limit` skips recorded before an instant; returns how many went."""
    tag: str = await connection.execute(SQL.prune, before, limit)
    return int(tag.rsplit(" ", 1)[1])
