"""PgQueuer. Options: pgqueuer docs, guides/performance-tuning: batch size for short jobs, `autovac`, one asyncpg connection."""

from __future__ import annotations

import asyncio
import json
import signal
from datetime import UTC, datetime, timedelta

import asyncpg
import called
from notes import Notes
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job, Schedule
from pgqueuer.queries import Queries

notes = Notes()
# The guide: a single asyncpg connection for the manager, and larger batches for jobs that are short.
BATCH = {"drain": 500}.get(called.WORK, 100)


async def prepare() -> None:
    """Tables, and the recommended autovacuum settings."""
    connection = await asyncpg.connect(called.URL)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.optimize_autovacuum()
    await connection.close()


async def enqueue(*which: str) -> None:
    """In batches, as the library does it."""
    connection = await asyncpg.connect(called.URL)
    queries = Queries(AsyncpgDriver(connection))
    for batch in called.batches(*which):
        now = datetime.now(UTC)
        await queries.enqueue(
            ["noop"] * len(batch),
            [json.dumps(job.payload).encode() for job in batch],
            [0] * len(batch),
            [timedelta(0) if job.due is None else job.due - now for job in batch],
        )
    await connection.close()


async def work() -> None:
    """A queue manager and, beside it, the scheduler, whose schedules stand in code."""
    manager = PgQueuer(AsyncpgDriver(await asyncpg.connect(called.URL)))

    @manager.entrypoint("noop")
    async def noop(job: Job) -> None:
        assert job.payload is not None
        notes.add(json.loads(job.payload)["n"])

    for n in range(called.SCHEDULES):
        declare(manager, n)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, manager.shutdown.set)
    await manager.run(batch_size=BATCH)


def declare(manager: PgQueuer, n: int) -> None:
    """A schedule of one minute."""

    @manager.schedule(f"every-{n}", "* * * * *")
    async def every(schedule: Schedule) -> None:
        notes.add(n)


called.main(prepare, enqueue, work)
