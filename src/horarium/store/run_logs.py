"""Rows of `run_logs`: what handlers said, kept with the run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg

from horarium.store import statements

SQL = statements.load("run_logs")


class LogRow(NamedTuple):
    """One line. `seq` counts from 1 within the attempt; `fields` is JSON text."""

    run_id: UUID
    attempt: int
    seq: int
    at: datetime
    level: str
    message: str
    fields: str | None


async def insert(connection: asyncpg.Connection, rows: Sequence[LogRow]) -> None:
    """Keep lines."""
    if rows:
        await connection.execute(SQL.insert, *map(list, zip(*rows, strict=True)))
