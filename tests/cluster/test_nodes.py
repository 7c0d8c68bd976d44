"""Three nodes on one database: a worker of one gets the runs of all, and when a leader is killed the others go on."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.cluster import ledger, processes, waiting

JOBS = 64
TAKEN_OVER_WITHIN = timedelta(seconds=5)


class Nodes:
    """Three servers over one database, each at an address of its own; workers know the first one only, or all."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.here = [processes.Installation(folder / str(number), database_url, lease="3s") for number in range(3)]
        self.servers: list[processes.Process] = []
        for each in self.here:
            each.folder.mkdir()
            each.key_file = self.here[0].key_file

    @property
    def urls(self) -> str:
        return ",".join(each.url for each in self.here)

    async def start(self) -> None:
        first, *others = self.here
        self.servers.append(await first.start_server())  # which makes the key
        self.servers += await asyncio.gather(*(each.start_server() for each in others))

    async def close(self) -> None:
        for each in reversed(self.here):
            await each.close()


@pytest.fixture
async def nodes(database_url: str, tmp_path: Path) -> AsyncIterator[Nodes]:
    made = Nodes(tmp_path, database_url)
    try:
        await made.start()
        yield made
    finally:
        await made.close()


async def shared_by(rows: asyncpg.Connection, count: int) -> dict[str, list[int]]:
    """Wait until so many nodes share the shards evenly; shards by the process id of their leader."""

    async def look() -> dict[str, list[int]] | None:
        found: dict[str, list[int]] = {}
        query = (
            "SELECT n.pid, s.shard FROM shards s JOIN nodes n ON n.id = s.leader "
            "WHERE s.lease_expires_at > now() AND n.last_seen_at > now() - interval '3 s'"
        )
        for row in await rows.fetch(query):
            found.setdefault(str(row["pid"]), []).append(row["shard"])
        sizes = [len(shards) for shards in found.values()]
        return found if len(sizes) == count and sum(sizes) == 16 and max(sizes) - min(sizes) <= 1 else None

    return await waiting.until(look, f"{count} nodes share the shards")


async def every_second(here: processes.Installation) -> None:
    body = [{"name": f"tick-{n}", "schedule": "* * * * * *", "target": {"handler": "tick"}} for n in range(JOBS)]
    await here.call("POST", "/v1/jobs:batch", body, expect=200)


async def all_run(rows: asyncpg.Connection) -> None:
    """Wait until a tick of each job that is due from now on has succeeded."""
    since = await rows.fetchval("SELECT now()")

    async def look() -> bool:
        query = "SELECT count(DISTINCT job_id) FROM history WHERE scheduled_for > $1 AND state = 'succeeded'"
        return bool(await rows.fetchval(query, since) == JOBS)

    await waiting.until(look, "a tick of each job succeeds")


async def close_books(rows: asyncpg.Connection) -> ledger.Books:
    """Stop at an instant, wait until all ticks until then have ended, and add up."""
    until: datetime = await rows.fetchval("SELECT date_trunc('second', clock_timestamp())") + timedelta(seconds=1)

    async def all_ended() -> bool:
        live = await rows.fetchval("SELECT count(*) FROM runs WHERE scheduled_for <= $1", until)
        return bool(live == 0 and await rows.fetchval("SELECT min(scheduled_for) > $1 FROM timers", until))

    await waiting.until(all_ended, "all ticks have ended")
    return await ledger.balance(rows, until)


async def longest_silence(rows: asyncpg.Connection, shards: list[int], since: datetime) -> timedelta:
    """The longest time for which no run of some shards was started, from an instant on, in any of their jobs."""
    found: Any = await rows.fetchval(
        """SELECT max(started_at - before) FROM (
               SELECT started_at, lag(started_at) OVER (PARTITION BY job_id ORDER BY started_at) AS before
               FROM history WHERE shard = ANY($1::smallint[]) AND started_at > $2::timestamptz - interval '2 s') AS starts""",
        shards,
        since,
    )
    assert isinstance(found, timedelta)
    return found


@pytest.mark.cluster
async def test_a_worker_of_one_node_gets_the_runs_of_all_and_a_killed_leader_is_replaced(nodes: Nodes) -> None:
    async with nodes.here[0].database() as rows:
        led = await shared_by(rows, 3)
        await every_second(nodes.here[1])
        await nodes.here[0].start_worker()
        await all_run(rows)
        killed = nodes.servers[2]
        since = await rows.fetchval("SELECT now()")
        await killed.kill()
        await shared_by(rows, 2)
        await all_run(rows)
        silence = await longest_silence(rows, led[str(killed.pid)], since)
        assert silence < TAKEN_OVER_WITHIN + timedelta(seconds=1), "a job's starts are a second apart at other times"
        books = await close_books(rows)
    assert (books.missing, books.doubled) == (0, 0), books


@pytest.mark.cluster
async def test_a_leader_is_frozen_and_then_the_nodes_are_replaced_one_after_the_other(nodes: Nodes) -> None:
    """What the frozen one writes when it wakes changes nothing. In a rolling restart no attempt fails, and nobody waits long."""
    async with nodes.here[0].database() as rows:
        await every_second(nodes.here[0])
        await nodes.here[0].start_worker(HORARIUM_URL=nodes.urls)
        await shared_by(rows, 3)
        await all_run(rows)
        nodes.servers[2].send(signal.SIGSTOP)
        await shared_by(rows, 2)
        await all_run(rows)
        nodes.servers[2].send(signal.SIGCONT)
        await shared_by(rows, 3)
        await all_run(rows)
        since = await rows.fetchval("SELECT now()")
        for place, server in enumerate(nodes.servers):
            assert await server.stop() == 0
            await nodes.here[place].start_server()
            await shared_by(rows, 3)
        await all_run(rows)
        books = await close_books(rows)
        failed = await rows.fetchval("SELECT count(*) FROM history WHERE scheduled_for > $1 AND attempt > 1", since)
        late = await rows.fetchval(
            "SELECT percentile_disc(0.99) WITHIN GROUP (ORDER BY started_at - ready_at) FROM history WHERE ready_at > $1",
            since,
        )
    assert (books.missing, books.doubled) == (0, 0), books
    assert failed == 0
    assert late < timedelta(seconds=5)
