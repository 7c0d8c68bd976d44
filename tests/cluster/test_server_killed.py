"""The server or PostgreSQL is killed under load: nothing acknowledged is lost, and every tick of the outage has its entry."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import asyncpg
import pytest

from horarium.embedded import EmbeddedCluster
from horarium.store import migrator
from tests.cluster import ledger, processes, waiting

JOBS = 50

Fault = Callable[[], Awaitable[None]]


class Client:
    """Enqueues one-offs without pause and remembers the ones that were acknowledged."""

    def __init__(self, here: processes.Installation) -> None:
        self._here = here
        self.acknowledged: list[UUID] = []
        self.refused = 0
        self._over = asyncio.Event()
        self._task = asyncio.create_task(self._enqueue())

    async def _enqueue(self) -> None:
        body = {"run_at": "now", "target": {"handler": "say"}, "payload": {"word": "hello"}}
        while not self._over.is_set():
            try:
                made = await self._here.call("POST", "/v1/jobs", body)
                self.acknowledged.append(UUID(made["id"]))
            except (aiohttp.ClientError, KeyError, TypeError):
                self.refused += 1

    async def acknowledges(self, count: int) -> None:
        """Wait until so many more were acknowledged."""
        wanted = len(self.acknowledged) + count

        async def look() -> bool:
            return len(self.acknowledged) >= wanted

        await waiting.until(look, f"{count} more one-offs are acknowledged")

    async def stop(self) -> None:
        self._over.set()
        await self._task


async def survive(here: processes.Installation, fault: Fault) -> None:
    """Load, fault, load; then the books."""
    await here.start_worker()
    body = [{"name": f"tick-{n}", "schedule": "* * * * * *", "target": {"handler": "tick"}} for n in range(JOBS)]
    await here.call("POST", "/v1/jobs:batch", body, expect=200)
    client = Client(here)
    await client.acknowledges(100)
    await fault()
    await client.acknowledges(100)
    await client.stop()
    async with here.database() as rows:
        until = await rows.fetchval("SELECT date_trunc('second', clock_timestamp())") + timedelta(seconds=1)

        async def all_done() -> bool:
            done = await rows.fetchval("SELECT count(*) FROM history WHERE job_id = ANY($1)", client.acknowledged)
            live = await rows.fetchval("SELECT count(*) FROM runs WHERE scheduled_for <= $1", until)
            fired = await rows.fetchval("SELECT min(scheduled_for) > $1 FROM timers", until)
            return bool(done >= len(client.acknowledged) and live == 0 and fired)

        await waiting.until(all_done, f"all {len(client.acknowledged)} acknowledged one-offs and all ticks have ended")
        books = await ledger.balance(rows, until)
        print(books, f"{len(client.acknowledged)} acknowledged, {client.refused} refused")
        assert (books.missing, books.doubled) == (0, 0), books
        ended: list[Any] = await rows.fetch(
            "SELECT job_id, count(*) FROM history WHERE job_id = ANY($1) GROUP BY job_id", client.acknowledged
        )
        assert len(ended) == len(client.acknowledged)
        assert {row["count"] for row in ended} == {1}


@pytest.mark.cluster
async def test_the_server_is_killed_and_started_again(database_url: str, tmp_path: Path) -> None:
    here = processes.Installation(tmp_path, database_url, lease="3s")
    try:
        server = await here.start_server()

        async def fault() -> None:
            await server.kill()
            await here.start_server()

        await survive(here, fault)
    finally:
        await here.close()


@pytest.mark.cluster
async def test_postgresql_is_killed_and_started_again_without_a_restart_of_the_server(tmp_path: Path) -> None:
    cluster = EmbeddedCluster(tmp_path / "data")
    await asyncio.to_thread(cluster.start)
    try:
        connection = await asyncpg.connect(cluster.dsn)
        await migrator.migrate(connection)
        await connection.close()
        async with processes.installation(tmp_path, cluster.dsn, lease="3s") as here:

            async def fault() -> None:
                assert cluster.pid is not None
                os.kill(cluster.pid, signal.SIGKILL)
                await asyncio.to_thread(cluster.stop)
                await asyncio.to_thread(cluster.start)

            await survive(here, fault)
    finally:
        await asyncio.to_thread(cluster.stop)
