"""`horarium serve --processes N` and `horarium worker --processes N`: several nodes and workers behind one command each."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from tests.cluster import ledger, processes, waiting

JOBS = 40


async def nodes_of(rows: asyncpg.Connection, count: int) -> set[int]:
    """Wait until so many nodes share the shards; their process ids."""

    async def look() -> set[int] | None:
        query = (
            "SELECT n.pid, count(*) FROM shards s JOIN nodes n ON n.id = s.leader "
            "WHERE s.lease_expires_at > now() GROUP BY n.pid"
        )
        found = {row["pid"]: row["count"] for row in await rows.fetch(query)}
        return set(found) if sorted(found.values()) == [16 // count] * count else None

    return await waiting.until(look, f"{count} nodes share the shards")


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.cluster
async def test_nodes_share_a_port_and_are_looked_after_by_their_parent(database_url: str, tmp_path: Path) -> None:
    here = processes.Installation(tmp_path, database_url, lease="3s")
    try:
        parent = await here.start_server("--processes", "2")
        async with here.database() as rows:
            before = await nodes_of(rows, 2)
            assert parent.pid not in before
            body = [
                {"name": f"tick-{n}", "schedule": "* * * * * *", "target": {"handler": "tick"}} for n in range(JOBS)
            ]
            await here.call("POST", "/v1/jobs:batch", body, expect=200)
            worker = await here.start_worker("tests.cluster.handlers:h", "--slots", "50", "--processes", "2")

            async def all_run() -> bool:
                query = "SELECT count(DISTINCT job_id) FROM history WHERE scheduled_for > $1 AND state = 'succeeded'"
                return bool(await rows.fetchval(query, since) == JOBS)

            async def two_work() -> bool:
                return bool(await rows.fetchval("SELECT count(DISTINCT worker_id) FROM history") >= 2)

            since = await rows.fetchval("SELECT now()")
            await waiting.until(all_run, "a tick of each job succeeds")
            await waiting.until(two_work, "both worker processes work")
            os.kill(min(before), signal.SIGKILL)
            since = await rows.fetchval("SELECT now()")
            await waiting.until(all_run, "a tick of each job succeeds after a node was killed")
            after = await nodes_of(rows, 2)
            assert max(before) in after and min(before) not in after
            until = await rows.fetchval("SELECT date_trunc('second', clock_timestamp())") + timedelta(seconds=1)

            async def all_ended() -> bool:
                live = await rows.fetchval("SELECT count(*) FROM runs WHERE scheduled_for <= $1", until)
                return bool(live == 0 and await rows.fetchval("SELECT min(scheduled_for) > $1 FROM timers", until))

            await waiting.until(all_ended, "all ticks have ended")
            books = await ledger.balance(rows, until)
            assert (books.missing, books.doubled) == (0, 0), books
            assert await worker.stop() == 0
            assert await parent.stop() == 0
            assert [pid for pid in after if lives(pid)] == []
            assert await rows.fetchval("SELECT count(*) FROM nodes WHERE last_seen_at > now() - interval '1 s'") == 0
    finally:
        await here.close()


@pytest.mark.cluster
async def test_nodes_end_when_their_parent_is_killed(database_url: str, tmp_path: Path) -> None:
    here = processes.Installation(tmp_path, database_url)
    try:
        parent = await here.start_server("--processes", "2")
        async with here.database() as rows:
            nodes = await nodes_of(rows, 2)
            await parent.kill()

            async def all_gone() -> bool:
                return not any(lives(pid) for pid in nodes)

            await waiting.until(all_gone, "the nodes have ended")
            assert await rows.fetchval("SELECT count(*) FROM shards WHERE leader IS NOT NULL") == 0
    finally:
        await here.close()
