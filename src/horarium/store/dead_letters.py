"""Rows of `dead_letters`: the open ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import asyncpg

from horarium.store import statements

SQL = statements.load("dead_letters")


class DeadLetter(NamedTuple):
    """A run that used up its attempts. `fingerprint` is equal for failures of the same kind."""

    run_id: UUID
    job_id: UUID
    tenant_id: str
    queue: str
    shard: int
    fingerprint: str
    error: str
    attempts: int


async def insert(connection: asyncpg.Connection, rows: Sequence[DeadLetter]) -> None:
    """Open dead letters."""
    if rows:
        await connection.execute(SQL.insert, *map(list, zip(*rows, strict=True)))


async def count(connection: asyncpg.Connection) -> dict[tuple[str, str], int]:
    """Open dead letters by (tenant, queue)."""
    return {(row[0], row[1]): row[2] for row in await connection.fetch(SQL.count)}
