"""What the database says about its own health, for `horarium doctor` and for the watch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from horarium.store import statements

SQL = statements.load("diagnosis")

AT_MOST = 20

_KINDS = {"prepared": "prepared transaction", "slot": "replication slot"}


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody who keeps vacuum from taking away what has died since: a `session`, a `prepared` transaction, or a `slot`.

    `name` is the role of a session, else that of the thing itself. `age_s` and `query_s` in seconds, where the time is known: of
    the transaction, and of its latest statement; `xids` counts the transactions that were begun since.
    """

    kind: str
    name: str
    pid: int | None
    application: str
    state: str
    age_s: float | None
    query_s: float | None
    xids: int | None

    def __str__(self) -> str:
        if self.kind != "session":
            return f"{_KINDS[self.kind]} {self.name}" + (f" ({self.state})" if self.state else "")
        who = " ".join(part for part in (self.name, f"({self.application})" if self.application else "") if part)
        return f"process {self.pid}" + (f" of {who}" if who else "") + (f", {self.state}" if self.state else "")


@dataclass(frozen=True, slots=True)
class Table:
    """A table that is written all the time. `bytes` it takes, and `needed` for its live rows, where that is known."""

    name: str
    live: int
    dead: int
    bytes: int
    vacuumed_at: datetime | None
    is_vacuumed: bool
    needed: int | None


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Whether vacuum comes by itself; the age of the oldest row that is not frozen, and from which on all are made to be."""

    autovacuum: bool
    counts: bool
    frozen_age: int
    freeze_at: int


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


async def holders(connection: asyncpg.Connection) -> list[Holder]:
    """Who keeps vacuum from its work in this database, the oldest first."""
    return [Holder(*row) for row in await connection.fetch(SQL.holders, AT_MOST)]


def oldest(found: Sequence[Holder]) -> Holder | None:
    """The one of whom it is known that it has held on the longest."""
    return max((each for each in found if each.age_s is not None), key=lambda each: each.age_s or 0.0, default=None)


async def tables(connection: asyncpg.Connection) -> list[Table]:
    """The tables that are written all the time, the one with most dead rows first."""
    return [Table(*row) for row in await connection.fetch(SQL.tables)]


async def upkeep(connection: asyncpg.Connection) -> Upkeep:
    """Whether the database is looked after."""
    return Upkeep(*await connection.fetchrow(SQL.upkeep))


async def leadership(connection: asyncpg.Connection) -> Leadership:
    """Whether all shards are led."""
    row = await connection.fetchrow(SQL.shards_without_leader)
    return Leadership(row["leaderless"], row["shards"])


async def room(connection: asyncpg.Connection) -> Room:
    """How many connections there are, and of which version the server is."""
    row = await connection.fetchrow(SQL.room)
    return Room(row["used"], row["most"], row["version_num"])
