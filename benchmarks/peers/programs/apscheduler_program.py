"""APScheduler 3. Options: apscheduler docs, userguide: PostgreSQL through SQLAlchemy where jobs must survive, asyncio executor.

Jobs may be added by the scheduler's own process only (the FAQ says why), so `enqueue` leaves a request that it finds.
"""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import called
from apscheduler.executors.asyncio import AsyncIOExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger
from notes import Notes

FOLDER = Path(os.environ.get("PEER_FOLDER", "."))
REQUEST = FOLDER / "request"
LOOK_EVERY_S = 0.02
notes = Notes()


async def noop(n: int, b: str) -> None:
    """Nothing but the note."""
    notes.add(n)


def enqueue(*which: str) -> None:
    """Ask the scheduler's process, and wait until it has done it."""
    written = REQUEST.with_suffix(".new")
    written.write_text(" ".join(which))
    written.rename(REQUEST)
    while REQUEST.exists():
        time.sleep(LOOK_EVERY_S)


async def work() -> None:
    """A scheduler that is told what to add by request, or declares its schedules itself."""
    url = called.URL.replace("postgresql://", "postgresql+psycopg://")
    scheduler = AsyncIOScheduler(
        jobstores={"default": SQLAlchemyJobStore(url=url)},
        executors={"default": AsyncIOExecutor()},
        # A run that is more than a second late is left out unless told otherwise.
        job_defaults={"misfire_grace_time": None},
        timezone=UTC,
    )
    scheduler.start()
    for n in range(called.SCHEDULES):
        scheduler.add_job(noop, CronTrigger.from_crontab("* * * * *"), [n, called.TEXT], id=f"every-{n}")
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        if REQUEST.exists():
            await add(scheduler, REQUEST.read_text().split())
            REQUEST.unlink()


async def add(scheduler: AsyncIOScheduler, which: list[str]) -> None:
    """Add one-offs."""
    for batch in called.batches(*which):
        for job in batch:
            scheduler.add_job(noop, "date", [job.n, called.TEXT], run_date=job.due or datetime.now(UTC))
            await asyncio.sleep(0)


called.main(enqueue, work)
