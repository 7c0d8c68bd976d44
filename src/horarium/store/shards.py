"""Rows of `shards` and `nodes`: who leads what, under which term, and which nodes there are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import asyncpg

from horarium.store import statements

SQL = statements.load("shards")


async def renew(connection: asyncpg.Connection, terms: Mapping[int, int], node_id: str, lease: timedelta) -> set[int]:
    """Extend the leases of led shards; returns the ones that are still ours."""
    rows = await connection.fetch(SQL.renew, list(terms), list(terms.values()), lease, node_id)
    return {row[0] for row in rows}


async def take(connection: asyncpg.Connection, node_id: str, lease: timedelta, limit: int) -> dict[int, int]:
    """Take free or expired shards, at most `limit`; returns shard → term."""
    return {row[0]: row[1] for row in await connection.fetch(SQL.take, node_id, lease, limit)}


async def release(connection: asyncpg.Connection, terms: Mapping[int, int], node_id: str) -> None:
    """Give led shards back."""
    await connection.execute(SQL.release, list(terms), list(terms.values()), node_id)


async def all_shards(connection: asyncpg.Connection) -> list[asyncpg.Record]:
    """Every shard with leader, term and lease."""
    rows: list[asyncpg.Record] = await connection.fetch(SQL.all)
    return rows


async def register_node(
    connection: asyncpg.Connection, node_id: str, url: str | None, version: str, host: str, pid: int
) -> None:
    """Tell that this node is there."""
    await connection.execute(SQL.register_node, node_id, url, version, host, pid)


async def remove_node(connection: asyncpg.Connection, node_id: str) -> None:
    """Forget a node that stopped in order."""
    await connection.execute(SQL.remove_node, node_id)


async def prune_nodes(connection: asyncpg.Connection) -> None:
    """Forget nodes that were not seen for a day."""
    await connection.execute(SQL.prune_nodes)
