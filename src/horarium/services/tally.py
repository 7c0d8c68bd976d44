"""What ended, counted by minute, queue, tenant and outcome: for `rollups` in the database and for `/metrics`.

Counting is a few additions for each run; rows are written every ten seconds. What was not written when a process dies is lost
from the pictures, not from the history.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import add
from typing import NamedTuple, TypeVar

from horarium import clock as clocks
from horarium.domain.run import LiveRun
from horarium.events import Name
from horarium.services.leader import Leader
from horarium.store import rollups
from horarium.store.database import Database

WRITE_EVERY_S = 10.0
BUCKETS = 24  # upper bounds 1 ms, 2 ms, 4 ms … 1.2 hours, and everything longer in the last
BOUNDS_S = [2**i / 1000 for i in range(BUCKETS - 1)]

# The bucket of a duration in seconds: i where 2^(i−1) ms < duration ≤ 2^i ms.
bucket_of: Callable[[float], int] = partial(bisect_left, BOUNDS_S)

OUTCOMES = {
    Name.RUNS_SUCCEEDED: "succeeded",
    Name.RUNS_RETRIED: "failed",
    Name.RUNS_DEAD: "dead",
    Name.RUNS_CANCELLED: "cancelled",
    Name.RUNS_INTERRUPTED: "interrupted",
}


Key = tuple[int, str, str, str, int]  # minute since the epoch, tenant, queue, outcome, shard: what is counted apart
Outcome = tuple[str, str]  # queue, outcome
K = TypeVar("K")


@dataclass(slots=True)
class Count:
    """How many, the histograms of lag and duration (runs in bucket i, upper bounds 2^i ms), and their sums in seconds."""

    count: int = 0
    lag_ms: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    duration_ms: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    lag_sum: float = 0.0
    duration_sum: float = 0.0


class Books(NamedTuple):
    """What was counted: not written yet, being written, and written since the process started, by queue and outcome.

    Replaced as a whole, so that a scrape in another thread never misses what moves from one to the next.
    """

    counts: dict[Key, Count]
    writing: dict[Key, Count]
    written: dict[Outcome, Count]


class Tally:
    """Counts what ended since the last write, and since this process started."""

    def __init__(self, database: Database, leader: Leader) -> None:
        self._database = database
        self._leader = leader
        self._books = Books({}, {}, {})

    def ended(self, runs: Sequence[LiveRun], name: Name) -> None:
        """Attempts ended, all of them just now and in the same way."""
        outcome = OUTCOMES.get(name, str(name))
        clock = self._leader.clock
        minute, now = int(clock.time() // 60), clock.monotonic()
        counts = self._books.counts
        for run in runs:
            key = (minute, run.tenant_id, run.queue, outcome, run.shard)
            count = counts.get(key)
            if count is None:
                count = counts[key] = Count()
            lag_s, duration_s = run.lag_s, now - run.started_at if run.started_at else 0.0
            count.count += 1
            count.lag_ms[bucket_of(lag_s)] += 1
            count.duration_ms[bucket_of(duration_s)] += 1
            count.lag_sum += lag_s
            count.duration_sum += duration_s

    def by_outcome(self) -> dict[Outcome, Count]:
        """What was counted since the process started, by queue and outcome."""
        counts, writing, written = self._books
        return _added_up([*written.items(), *_by_outcome([*writing.items(), *list(counts.items())])])

    async def run_once(self) -> float:
        """Write what was counted. What cannot be written now is added to the next time."""
        counts, _, written = self._books
        self._books = Books({}, counts, written)
        rows = [_row(key, count) for key, count in counts.items()]
        try:
            async with self._database.connection() as connection:
                await rollups.add(connection, rows)
        except BaseException:
            self._books = Books(_added_up([*self._books.counts.items(), *counts.items()]), {}, written)
            raise
        self._books = Books(self._books.counts, {}, _added_up([*written.items(), *_by_outcome(counts.items())]))
        return WRITE_EVERY_S


def by_outcome(counted: Iterable[Tally]) -> dict[Outcome, Count]:
    """What several have counted since the process started, added up by queue and outcome."""
    return _added_up(item for tally in counted for item in tally.by_outcome().items())


def by_queue(outcomes: Mapping[Outcome, Count]) -> dict[str, Count]:
    """The same by queue alone."""
    return _added_up((queue, count) for (queue, _), count in outcomes.items())


def _by_outcome(counts: Iterable[tuple[Key, Count]]) -> Iterator[tuple[Outcome, Count]]:
    return (((queue, outcome), count) for (_, _, queue, outcome, _), count in counts)


def _added_up(counts: Iterable[tuple[K, Count]]) -> dict[K, Count]:
    """Counts with the same key together, none of them changed."""
    total: dict[K, Count] = {}
    for key, count in counts:
        total[key] = _sum(total.get(key), count)
    return total


def _row(key: Key, count: Count) -> rollups.RollupRow:
    minute, tenant_id, queue, outcome, shard = key
    lag, duration = json.dumps(count.lag_ms), json.dumps(count.duration_ms)
    return rollups.RollupRow(
        clocks.to_datetime(minute * 60), tenant_id, queue, outcome, shard, count.count, lag, duration
    )


def _sum(one: Count | None, other: Count) -> Count:
    """Both together, as a new count."""
    if one is None:
        return replace(other)
    return Count(
        one.count + other.count,
        list(map(add, one.lag_ms, other.lag_ms)),
        list(map(add, one.duration_ms, other.duration_ms)),
        one.lag_sum + other.lag_sum,
        one.duration_sum + other.duration_sum,
    )
