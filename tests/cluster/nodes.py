"""Several nodes over one database, as real processes: who leads what, what each of them told, and load on all of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg

from tests.cluster import waiting
from tests.cluster.processes import Installation, Process


class Nodes:
    """Servers over one database, each at an address of its own; `here[0]` makes the key, and all use it."""

    def __init__(self, folder: Path, database_urls: Sequence[str], **settings: str) -> None:
        settings = {"lease": "3s", **settings}
        self.here = [Installation(folder / str(number), url, **settings) for number, url in enumerate(database_urls)]
        self.servers: list[Process] = []
        for each in self.here:
            each.folder.mkdir()
            each.key_file = self.here[0].key_file

    @property
    def urls(self) -> str:
        return ",".join(each.url for each in self.here)

    async def start(self) -> None:
        """Start them all; the first one makes the key."""
        first, *others = self.here
        self.servers.append(await first.start_server())
        self.servers += await asyncio.gather(*(each.start_server() for each in others))
        for each in self.here:
            each.worker_urls = self.urls

    def told(self, number: int) -> list[dict[str, Any]]:
        """What a node has logged."""
        lines = (self.here[number].folder / "server.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    async def close(self) -> None:
        for each in reversed(self.here):
            await each.close()


@asynccontextmanager
async def started(folder: Path, database_urls: Sequence[str], **settings: str) -> AsyncIterator[Nodes]:
    """Running nodes, one for each address of the database; they share its shards."""
    made = Nodes(folder, database_urls, **settings)
    try:
        await made.start()
        async with made.here[0].database() as rows:
            await shared_by(rows, len(made.here))
        yield made
    finally:
        await made.close()


async def shared_by(rows: asyncpg.Connection, count: int) -> dict[int, list[int]]:
    """Wait until so many nodes share the shards evenly; shards by the process id of their leader."""

    async def look() -> dict[int, list[int]] | None:
        found = await led(rows)
        sizes = [len(shards) for shards in found.values()]
        return found if len(sizes) == count and sum(sizes) == 16 and max(sizes) - min(sizes) <= 1 else None

    return await waiting.until(look, f"{count} nodes share the shards")


async def led(rows: asyncpg.Connection) -> dict[int, list[int]]:
    """The shards by the process id of the node that leads them."""
    found: dict[int, list[int]] = {}
    query = (
        "SELECT n.pid, s.shard FROM shards s JOIN nodes n ON n.id = s.leader "
        "WHERE s.lease_expires_at > now() AND n.last_seen_at > now() - interval '3 s'"
    )
    for row in await rows.fetch(query):
        found.setdefault(row["pid"], []).append(row["shard"])
    return found


async def depose(rows: asyncpg.Connection, pid: int) -> datetime:
    """Take all shards from a node that goes on believing in them until it looks, for others to take; returns when."""
    async with rows.transaction():
        await rows.execute(
            "UPDATE shards SET leader = NULL, lease_expires_at = NULL, term = term + 1"
            " WHERE leader IN (SELECT id FROM nodes WHERE pid = $1)",
            pid,
        )
        await rows.execute("DELETE FROM nodes WHERE pid = $1", pid)
        now: datetime = await rows.fetchval("SELECT clock_timestamp()")
    return now


async def longest_silence(rows: asyncpg.Connection, shards: list[int], since: datetime) -> timedelta:
    """The longest time for which no run of some shards was started, from an instant on, in any of their every-second jobs."""
    found: Any = await rows.fetchval(
        """SELECT max(started_at - before) FROM (
               SELECT started_at, lag(started_at) OVER (PARTITION BY job_id ORDER BY started_at) AS before
               FROM history WHERE trigger = 'schedule' AND shard = ANY($1::smallint[])
                              AND started_at > $2::timestamptz - interval '2 s') AS starts""",
        shards,
        since,
    )
    assert isinstance(found, timedelta)
    return found


async def start_lags(rows: asyncpg.Connection, since: datetime) -> tuple[int, timedelta]:
    """Of the runs that became ready since an instant: how many needed another attempt, and the 99th percentile of the lag."""
    row = await rows.fetchrow(
        """SELECT count(*) FILTER (WHERE attempt > 1),
                  percentile_disc(0.99) WITHIN GROUP (ORDER BY started_at - ready_at)
           FROM history WHERE ready_at > $1""",
        since,
    )
    return row[0], row[1]
