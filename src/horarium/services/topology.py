"""Which nodes there are, and who leads which shard: read off the rows of every database."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta

import asyncpg

from horarium import errors
from horarium.services import views
from horarium.services.parts import Gathered
from horarium.services.shard_owner import LEASE
from horarium.store import shards
from horarium.store.databases import Databases

SHOWN_FOR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class _Rows:
    """What one database tells."""

    database: str
    shards: list[asyncpg.Record]
    nodes: list[asyncpg.Record]


class Topology:
    """Answers what people ask of nodes and shards. Databases that cannot be asked are named in `missing`."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases

    async def shards(self) -> Gathered[views.Shard]:
        """All shards by number, with the node that leads each. UnavailableError when no database answers."""
        found = await self._read()
        shown = [_shard(rows, row, _urls(rows)) for rows in found for row in rows.shards]
        return Gathered(sorted(shown, key=lambda shard: shard.shard), found.missing)

    async def nodes(self) -> Gathered[views.Node]:
        """The nodes that were seen in the last hour, by id. UnavailableError when no database answers."""
        found = await self._read()
        nodes: dict[str, views.Node] = {}
        for rows in found:
            led = _led(rows)
            for row in rows.nodes:
                node = _node(row, led.get(row["id"], []))
                nodes[node.id] = _together(nodes[node.id], node) if node.id in nodes else node
        return Gathered((nodes[node_id] for node_id in sorted(nodes)), found.missing)

    async def _read(self) -> Gathered[_Rows]:
        names, databases = self._databases.names, self._databases.all
        answers = await asyncio.gather(*map(self._ask, range(len(databases))), return_exceptions=True)
        found = [answer for answer in answers if isinstance(answer, _Rows)]
        for answer in answers:
            if isinstance(answer, BaseException) and not (isinstance(answer, errors.UnavailableError) and found):
                raise answer
        silent = [name for name, answer in zip(names, answers, strict=True) if not isinstance(answer, _Rows)]
        return Gathered(found, tuple(silent))

    async def _ask(self, place: int) -> _Rows:
        async with self._databases.all[place].connection() as connection:
            rows = await shards.all_shards(connection, LEASE)
            nodes = await shards.nodes(connection, SHOWN_FOR, LEASE)
        return _Rows(self._databases.names[place], rows, nodes)


def _urls(rows: _Rows) -> dict[str, str | None]:
    return {row["id"]: row["url"] for row in rows.nodes}


def _led(rows: _Rows) -> dict[str, list[int]]:
    led: dict[str, list[int]] = {}
    for row in rows.shards:
        if row["alive"]:
            led.setdefault(row["leader"], []).append(row["shard"])
    return led


def _shard(rows: _Rows, row: asyncpg.Record, urls: dict[str, str | None]) -> views.Shard:
    leader = row["leader"] if row["alive"] else None
    return views.Shard(
        row["shard"], rows.database, leader, urls.get(leader or ""), row["term"], row["lease_expires_at"]
    )


def _node(row: asyncpg.Record, led: list[int]) -> views.Node:
    return views.Node(
        id=row["id"],
        state="alive" if row["alive"] else "silent",
        url=row["url"],
        version=row["version"],
        host=row["host"],
        pid=row["pid"],
        shards=led,
        started_at=row["started_at"],
        last_seen_at=row["last_seen_at"],
    )


def _together(one: views.Node, other: views.Node) -> views.Node:
    """A node as two databases know it: it lives when it lives in the eyes of both."""
    silent = "silent" in (one.state, other.state)
    return replace(
        one,
        state="silent" if silent else "alive",
        shards=sorted(one.shards + other.shards),
        last_seen_at=min(one.last_seen_at, other.last_seen_at),
    )
