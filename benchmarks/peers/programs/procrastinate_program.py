"""Procrastinate. Options: procrastinate docs, howto/production/concurrency and the reference of `run_worker_async`."""

from __future__ import annotations

import logging

import called
from notes import Notes
from procrastinate import App, PsycopgConnector

CONCURRENCY = 30
notes = Notes()
app = App(
    connector=PsycopgConnector(conninfo=called.URL, min_size=4, max_size=20),
    # Jobs that are due later are found by polling, every five seconds unless told otherwise.
    worker_defaults={"fetch_job_polling_interval": 0.02 if called.WORK == "start_lag" else 5.0},
)


@app.task(name="noop", queue="noop")
async def noop(n: int, b: str) -> None:
    """Nothing but the note."""
    notes.add(n)


def declare(n: int) -> None:
    """A schedule of one minute."""

    @app.periodic(cron="* * * * *", periodic_id=f"every-{n}")
    @app.task(name=f"every-{n}", queue="noop")
    async def every(timestamp: int) -> None:
        notes.add(n)


async def prepare() -> None:
    """Tables."""
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def enqueue(*which: str) -> None:
    """In batches; jobs with times of their own take a call each."""
    async with app.open_async():
        for batch in called.batches(*which):
            if batch[0].due is None:
                await noop.batch_defer_async(*[job.payload for job in batch])
            else:
                for job in batch:
                    await noop.configure(schedule_at=job.due).defer_async(**job.payload)


async def work() -> None:
    """Schedules stand in code."""
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    for n in range(called.SCHEDULES):
        declare(n)
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY)


called.main(prepare, enqueue, work)
