"""Rows of `shards` and `nodes`: who leads what, under which term, and which nodes there are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

import asyncpg

from horarium.domain.placement import State
from horarium.store import statements

SQL = statements.load("shards")


class NodeRow(NamedTuple):
    """A node as it shows itself to its peers; they reach it at `url`, where it has one.

    `counts`: it has been seen more than once, so that shards may be given up for it.
    """

    id: str
    url: str | None
    version: str
    host: str = ""
    pid: int = 0
    counts: bool = False


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


async def all_shards(connection: asyncpg.Connection, lease: timedelta) -> list[asyncpg.Record]:
    """Every shard with leader, term and lease; `alive` tells whether the lease, which is so long, holds."""
    rows: list[asyncpg.Record] = await connection.fetch(SQL.all, lease)
    return rows


async def first(connection: asyncpg.Connection) -> int | None:
    """The lowest shard that lives here; None when none does."""
    lowest: int | None = await connection.fetchval(SQL.first)
    return lowest


async def states(connection: asyncpg.Connection) -> dict[int, State]:
    """How the shards that this database has rows of stand to it."""
    return {row["shard"]: State(row["state"]) for row in await connection.fetch(SQL.states)}


async def beat(connection: asyncpg.Connection, node: NodeRow) -> None:
    """Tell that this node lives."""
    await connection.execute(SQL.beat, node.id, node.url, node.version, node.host, node.pid)


async def live_nodes(connection: asyncpg.Connection, within: timedelta) -> list[NodeRow]:
    """The nodes that were seen of late."""
    return [NodeRow(*row) for row in await connection.fetch(SQL.live_nodes, within)]


async def nodes(connection: asyncpg.Connection, within: timedelta, alive_within: timedelta) -> list[asyncpg.Record]:
    """The nodes that were seen within some time; `alive` are those that were seen lately."""
    rows: list[asyncpg.Record] = await connection.fetch(SQL.nodes, within, alive_within)
    return rows


async def remove_node(connection: asyncpg.Connection, node_id: str) -> None:
    """Forget a node that stopped in order."""
    await connection.execute(SQL.remove_node, node_id)


async def prune_nodes(connection: asyncpg.Connection) -> None:
    """Forget nodes that were not seen for a day."""
    await connection.execute(SQL.prune_nodes)
