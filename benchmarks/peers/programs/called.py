"""How a program is called: `python PROGRAM.py prepare | enqueue FIRST COUNT [BEGIN STEP] | schedule COUNT | work`.

What it works on stands in the environment: `PEER_DATABASE_URL`, `PEER_WORK` (what the configuration is for: drain, start_lag
or minute_mark) and `PEER_SCHEDULES` (how many schedules of one minute to declare in code). Like `notes`, it needs nothing
but Python.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

URL = os.environ.get("PEER_DATABASE_URL", "")
WORK = os.environ.get("PEER_WORK", "")
SCHEDULES = int(os.environ.get("PEER_SCHEDULES", "0"))
TEXT = "some payload of moderate length, about a hundred bytes in all, as most of them are."
PER_STATEMENT = 5_000

Verb = Callable[..., Coroutine[Any, Any, None] | None]


class Job(NamedTuple):
    """A job to be made: its number, and when it is due, if not at once."""

    n: int
    due: datetime | None

    @property
    def payload(self) -> dict[str, Any]:
        """About a hundred bytes, with the number."""
        return {"n": self.n, "b": TEXT}


def batches(first: str, count: str, begin: str = "", step: str = "0") -> Iterator[list[Job]]:
    """The jobs that `enqueue` is to make, in batches."""
    since = datetime.fromtimestamp(float(begin), UTC) if begin else None
    jobs = [
        Job(int(first) + i, None if since is None else since + i * timedelta(seconds=float(step)))
        for i in range(int(count))
    ]
    for low in range(0, len(jobs), PER_STATEMENT):
        yield jobs[low : low + PER_STATEMENT]


def main(*verbs: Verb) -> None:
    """Run the verb that was asked for, in an event loop when it is a coroutine: uvloop, where the peer brings it."""
    name, *rest = sys.argv[1:]
    (verb,) = [verb for verb in verbs if verb.__name__ == name]
    begun = verb(*rest)
    if begun is not None:
        _run(begun)


def _run(begun: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop
    except ModuleNotFoundError:
        asyncio.run(begun)
    else:
        uvloop.run(begun)
