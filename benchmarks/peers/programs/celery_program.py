"""Celery with Redis. Options: celery docs, userguide/optimizing (prefetch for short tasks), userguide/tasks (`ignore_result`)."""

from __future__ import annotations

import os

import called
from celery import Celery
from celery.schedules import crontab
from notes import Notes

PREFETCH = 128
notes = Notes()
app = Celery("peers", broker=os.environ["PEER_REDIS_URL"])
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=PREFETCH,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    beat_schedule={
        f"every-{n}": {"task": "noop", "schedule": crontab(), "args": (n, called.TEXT)} for n in range(called.SCHEDULES)
    },
    beat_schedule_filename=f"{os.environ.get('PEER_FOLDER', '.')}/beat",
)


@app.task(name="noop")
def noop(n: int, b: str) -> None:
    """Nothing but the note."""
    notes.add(n)


def enqueue(*which: str) -> None:
    """One message each, over one connection. A task with a time is sent at once and waits in the memory of a worker."""
    with app.producer_pool.acquire(block=True) as producer:
        for batch in called.batches(*which):
            for job in batch:
                noop.apply_async((job.n, called.TEXT), eta=job.due, producer=producer)


def work(processes: str) -> None:
    """A worker with so many child processes."""
    app.worker_main(
        ["worker", "--loglevel=ERROR", f"--concurrency={processes}", "--without-gossip", "--without-mingle"]
    )


def beat() -> None:
    """The one process that sends what is due."""
    app.Beat(loglevel="ERROR").run()


called.main(enqueue, work, beat)
