"""Oban for Python. Options: oban docs, guides "Defining queues" and "Ready for production", and the reference of `Oban`."""

from __future__ import annotations

import asyncio
import signal

import called
from notes import Notes
from oban import Oban, worker
from oban.schema import install

LIMIT = 200
notes = Notes()


@worker(queue="default")
class Noop:
    """Nothing but the note."""

    async def process(self, job) -> None:
        notes.add(job.args["n"])


def declare(n: int) -> None:
    """A schedule of one minute: the class is the job, so each has its own."""

    async def process(self, job) -> None:
        notes.add(n)

    name = f"Every{n}"
    globals()[name] = worker(queue="default", cron="* * * * *")(
        type(name, (), {"process": process, "__module__": __name__, "__qualname__": name})
    )


async def prepare() -> None:
    """Tables."""
    pool = await Oban.create_pool(dsn=called.URL)
    await install(pool)
    await pool.close()


async def enqueue(*which: str) -> None:
    """In batches."""
    pool = await Oban.create_pool(dsn=called.URL)
    client = Oban(pool=pool)
    for batch in called.batches(*which):
        due = [{} if job.due is None else {"scheduled_at": job.due} for job in batch]
        await client.enqueue_many([Noop.new(job.payload, **more) for job, more in zip(batch, due, strict=True)])
    await pool.close()


async def work() -> None:
    """Schedules stand in code. What is due later is staged every second unless told otherwise."""
    for n in range(called.SCHEDULES):
        declare(n)
    pool = await Oban.create_pool(dsn=called.URL)
    stager = {"interval": 0.02} if called.WORK == "start_lag" else {}
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with Oban(pool=pool, queues={"default": LIMIT}, stager=stager):
        await ended.wait()
    await pool.close()


called.main(prepare, enqueue, work)
