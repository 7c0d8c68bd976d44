"""Rows of `idempotency_keys`: which request has a key, and what it was answered.

A row is taken before the request does anything and completed with its answer. `taken_at` (the row's `created_at`) is
the holder's term: whoever took the key over in the meantime has another one, and a late holder changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import asyncpg

from horarium.store import statements

SQL = statements.load("idempotency")

# The status of a key whose request ended without an answer: it may or may not have taken effect.
IN_DOUBT = 0


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a key. `status` is None while its request is under way; `headers` is JSON text."""

    request_hash: bytes
    status: int | None
    headers: str
    body: bytes | None
    created_at: datetime
    age_s: float


async def take(
    connection: asyncpg.Connection, tenant_id: str, key: str, request_hash: bytes, headers: str, shard: int = 0
) -> datetime | None:
    """Take a key: the term, or None when a request of the last 24 hours has it. `shard` is the one it lives with."""
    taken_at: datetime | None = await connection.fetchval(SQL.take_key, tenant_id, key, request_hash, headers, shard)
    return taken_at


async def read(connection: asyncpg.Connection, tenant_id: str, key: str) -> Known | None:
    """What is known of a key."""
    row = await connection.fetchrow(SQL.read_key, tenant_id, key)
    return None if row is None else Known(**row)


async def retake(
    connection: asyncpg.Connection, tenant_id: str, key: str, taken_at: datetime, headers: str
) -> datetime | None:
    """Take a key over from a request that left no answer: the new term, or None when somebody else was first."""
    term: datetime | None = await connection.fetchval(SQL.retake_key, tenant_id, key, taken_at, headers)
    return term


async def keep(
    connection: asyncpg.Connection,
    tenant_id: str,
    key: str,
    taken_at: datetime,
    *,
    status: int,
    headers: str,
    body: bytes | None,
) -> None:
    """Keep the answer of the request that holds the key."""
    await connection.execute(SQL.keep_answer, tenant_id, key, taken_at, status, headers, body)


async def free(connection: asyncpg.Connection, tenant_id: str, key: str, taken_at: datetime) -> None:
    """Give a key back, as if it had never been taken."""
    await connection.execute(SQL.free_key, tenant_id, key, taken_at)
