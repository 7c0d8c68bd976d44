"""awa, the Python binding. Options: awa docs/configuration (poll and promotion intervals) and its README (COPY for bulk)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import called
from awa import AsyncClient
from notes import Notes

notes = Notes()
QUEUE = "noop"
QUEUES = [{"name": QUEUE, "max_workers": 200, "claimers": 2, "claim_batch_size": 500}]
# Both default to longer; a job that is due later is promoted by the one and found by the other.
INTERVALS = {"poll_interval_ms": 50, "promote_interval_ms": 50} if called.WORK == "start_lag" else {}


@dataclass
class Noop:
    """The arguments of a job."""

    n: int
    b: str


async def prepare() -> None:
    """Tables, and the storage that new installations get when their first worker starts: jobs come before it here."""
    client = AsyncClient(called.URL)
    await client.migrate()
    await client.install_queue_storage(schema="awa")
    await client.close()


async def enqueue(*which: str) -> None:
    """By COPY. A call has one time for all its jobs, so that jobs with times of their own take a call each."""
    client = AsyncClient(called.URL, max_connections=16)
    for batch in called.batches(*which):
        if batch[0].due is None:
            await client.enqueue_many_copy([Noop(**job.payload) for job in batch], queue=QUEUE)
        else:
            for some in _sixteen(batch):
                await asyncio.gather(*(client.insert(Noop(**job.payload), queue=QUEUE, run_at=job.due) for job in some))
    await client.close()


def _sixteen(batch: list[called.Job]) -> Iterator[list[called.Job]]:
    for _, some in groupby(enumerate(batch), key=lambda pair: pair[0] // 16):
        yield [job for _, job in some]


async def work() -> None:
    """Schedules stand in code."""
    client = AsyncClient(called.URL, max_connections=10)

    @client.task(Noop, queue=QUEUE)
    async def noop(job) -> None:
        notes.add(job.args.n)

    for n in range(called.SCHEDULES):
        client.periodic(f"every-{n}", "* * * * *", Noop, Noop(n, called.TEXT), queue=QUEUE)
    await client.start(QUEUES, **INTERVALS)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    await client.shutdown()


called.main(prepare, enqueue, work)
