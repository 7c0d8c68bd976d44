"""What the database says about its own health, for `horarium doctor`."""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg

from horarium.store import statements

SQL = statements.load("diagnosis")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A session whose snapshot keeps vacuum from taking away what has died since; `age_s` in seconds."""

    age_s: float
    pid: int
    application: str


@dataclass(frozen=True, slots=True)
class DeadRows:
    """Estimated live and dead rows of a table."""

    table: str
    live: int
    dead: int


@dataclass(frozen=True, slots=True)
class Leadership:
    """How many of the shards no live node leads."""

    leaderless: int
    shards: int


@dataclass(frozen=True, slots=True)
class Room:
    """Connections used of the most there may be, and the server's version (150004 is 15.4)."""

    used: int
    most: int
    version_num: int


async def oldest_snapshot(connection: asyncpg.Connection) -> Snapshot | None:
    """The oldest snapshot that another session holds."""
    row = await connection.fetchrow(SQL.oldest_snapshot)
    return None if row is None else Snapshot(row["age_s"] or 0.0, row["pid"], row["application"])


async def dead_rows(connection: asyncpg.Connection) -> list[DeadRows]:
    """The hot tables, the one with most dead rows first."""
    return [DeadRows(row["table_name"], row["live"], row["dead"]) for row in await connection.fetch(SQL.dead_rows)]


async def leadership(connection: asyncpg.Connection) -> Leadership:
    """Whether all shards are led."""
    row = await connection.fetchrow(SQL.shards_without_leader)
    return Leadership(row["leaderless"], row["shards"])


async def room(connection: asyncpg.Connection) -> Room:
    """How many connections there are, and of which version the server is."""
    row = await connection.fetchrow(SQL.room)
    return Room(row["used"], row["most"], row["version_num"])
