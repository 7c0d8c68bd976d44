"""Rows of `workers`: for people who look. Leases live in the leader's memory and in `runs`, not here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import asyncpg

from horarium.store import statements

SQL = statements.load("workers")


class WorkerRow(NamedTuple):
    """A worker as it last described itself. `queues` and `handlers` are JSON texts; `handlers` None: any handler."""

    id: str
    tenant_id: str
    node_id: str
    version: str
    host: str
    pid: int
    queues: str
    handlers: str | None
    slots: int
    running: int


async def upsert(connection: asyncpg.Connection, rows: Sequence[WorkerRow]) -> None:
    """Write workers as they are now."""
    if rows:
        await connection.execute(SQL.upsert, *map(list, zip(*rows, strict=True)))


async def remove(connection: asyncpg.Connection, worker_ids: Sequence[str]) -> None:
    """Forget workers that said goodbye."""
    await connection.execute(SQL.remove, list(worker_ids))


async def prune(connection: asyncpg.Connection) -> None:
    """Forget workers that were not heard for an hour."""
    await connection.execute(SQL.prune)
