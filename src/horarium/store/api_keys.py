"""Rows of `api_keys`: who may ask, for which tenant, in which role."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import asyncpg

from horarium.store import statements

SQL = statements.load("api_keys")


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key as it is listed: everything but its hash."""

    id: str
    tenant_id: str
    name: str
    role: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class Credential:
    """What a presented token is checked against. `expires_in_s` is None for a key without end, below 0 for one that is
    over.
    """

    id: str
    tenant_id: str
    name: str
    role: str
    hash: bytes
    revoked: bool
    expires_in_s: float | None


async def insert(
    connection: asyncpg.Connection,
    *,
    key_id: str,
    tenant_id: str,
    name: str,
    role: str,
    digest: bytes,
    created_by: str,
    expires_at: datetime | None,
) -> KeyRow:
    """Keep a new key."""
    row = await connection.fetchrow(SQL.insert_key, key_id, tenant_id, name, role, digest, created_by, expires_at)
    return KeyRow(**row)


async def find(connection: asyncpg.Connection, key_id: str) -> Credential | None:
    """What a token with this id is checked against."""
    row = await connection.fetchrow(SQL.find_key, key_id)
    return None if row is None else Credential(**row)


async def page(
    connection: asyncpg.Connection, tenant_id: str, after: tuple[datetime, str] | None, limit: int
) -> list[KeyRow]:
    """The keys of a tenant, newest first, revoked and expired ones too; `after` is (created_at, id) of the last one
    seen.
    """
    created_at, key_id = after if after is not None else (None, None)
    return [KeyRow(**row) for row in await connection.fetch(SQL.page_of_keys, tenant_id, created_at, key_id, limit)]


async def count_live_namesakes(connection: asyncpg.Connection, tenant_id: str, name: str) -> int:
    """How many live keys of the tenant carry this name."""
    count: int = await connection.fetchval(SQL.count_live_namesakes, tenant_id, name)
    return count


async def revoke(connection: asyncpg.Connection, tenant_id: str, key_id: str) -> KeyRow | None:
    """End a key; None when the tenant has no such key. Doing it twice changes nothing."""
    row = await connection.fetchrow(SQL.revoke_key, tenant_id, key_id)
    return None if row is None else KeyRow(**row)


async def lock(connection: asyncpg.Connection) -> None:
    """Let no other transaction make keys until this one ends."""
    await connection.execute(SQL.lock_keys)


async def any_exists(connection: asyncpg.Connection) -> bool:
    """Whether any key was ever made."""
    exists: bool = await connection.fetchval(SQL.any_key)
    return exists
