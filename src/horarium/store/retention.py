"""What is forgotten: day partitions dropped whole, and the few rows that are not partitioned."""

from __future__ import annotations

from datetime import date, datetime
from uuid import UUID

import asyncpg

from horarium.store import statements

SQL = statements.load("retention")


async def make_partitions(connection: asyncpg.Connection, first: date, last: date) -> int:
    """Make the partitions of some days; returns how many were missing."""
    made: int = await connection.fetchval(SQL.make_partitions, first, last)
    return made


async def drop_partitions(connection: asyncpg.Connection, days_before: date, audit_before: date) -> list[str]:
    """Drop history and logs before a day, and audit before a month; returns the names of what went."""
    dropped: list[str] = await connection.fetchval(SQL.drop_partitions, days_before, audit_before)
    return dropped


async def delete_default_history(connection: asyncpg.Connection, before: datetime) -> None:
    """Forget old rows that landed outside the day partitions."""
    await connection.execute(SQL.delete_default_history, before)


async def prune_idempotency_keys(connection: asyncpg.Connection, before: datetime) -> None:
    """Forget kept answers."""
    await connection.execute(SQL.prune_idempotency_keys, before)


async def prune_jobs(connection: asyncpg.Connection, id_before: UUID, before: datetime, limit: int) -> int:
    """Forget definitions that nothing refers to; returns how many went."""
    tag: str = await connection.execute(SQL.prune_jobs, id_before, before, limit)
    return int(tag.rsplit(" ", 1)[1])
