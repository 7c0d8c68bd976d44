"""Asks a cluster something, for tests that have no event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg


def value(dsn: str, sql: str) -> Any:
    """Return the one value that `sql` gives."""
    return asyncio.run(_value(dsn, sql))


async def _value(dsn: str, sql: str) -> Any:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


def execute(dsn: str, *statements: str) -> None:
    """Run `statements` one by one."""
    asyncio.run(_execute(dsn, statements))


async def _execute(dsn: str, statements: tuple[str, ...]) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()
