"""Load while a fault happens, and the books afterwards: every-second schedules, and one-offs as fast as they are acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import aiohttp

from horarium.domain import faults
from horarium.services import auditor
from horarium.store.database import Database
from tests.cluster import ledger, processes, waiting

JOBS = 50
RETRY = {"base_s": 0.5, "max_attempts": 10}

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
        body = {"run_at": "now", "target": {"handler": "say"}, "payload": {"word": "hello"}, "retry": RETRY}
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
    async with under_load(here) as client:
        await fault()
        await balanced(here, client)


@asynccontextmanager
async def under_load(here: processes.Installation, jobs: int = JOBS) -> AsyncIterator[Client]:
    """A worker, every-second jobs, and a client; all of them under way."""
    await here.start_worker()
    tick = {"schedule": "* * * * * *", "target": {"handler": "tick"}, "retry": RETRY}
    body = [{"name": f"tick-{n}", **tick} for n in range(jobs)]
    await here.call("POST", "/v1/jobs:batch", body, expect=200)
    client = Client(here)
    try:
        await client.acknowledges(100)
        yield client
    finally:
        await client.stop()


async def balanced(here: processes.Installation, client: Client) -> None:
    """It goes on, and the books are right: nothing that was acknowledged is lost, no tick is missing or doubled."""
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
        began = await rows.fetchval("SELECT min(created_at) FROM jobs")
    assert await audited(here, began) == []


async def audited(here: processes.Installation, since: datetime) -> list[faults.Fault]:
    """What the auditor finds, of ticks and of every row."""
    database = Database(here.rows_url, pool_size=1)
    await database.open()
    try:
        return await auditor.audit(database, since)
    finally:
        await database.close()
