"""What ended, counted by minute, queue, tenant and outcome: for `rollups` in the database and for `/metrics`.

Counting is a few additions for each run; rows are written every ten seconds. What was not written when a process dies is lost
from the pictures, not from the history.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

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


class Key(NamedTuple):
    """What is counted apart."""

    minute: int
    tenant_id: str
    queue: str
    outcome: str
    shard: int


@dataclass(slots=True)
class Count:
    """How many, the histograms of lag and duration (runs in bucket i, upper bounds 2^i ms), and their sums in seconds."""

    count: int = 0
    lag_ms: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    duration_ms: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    lag_sum: float = 0.0
    duration_sum: float = 0.0


class Tally:
    """Counts what ended since the last write, and since this process started."""

    def __init__(self, database: Database, leader: Leader) -> None:
        self._database = database
        self._leader = leader
        self._counts: dict[Key, Count] = {}
        self.outcomes: dict[tuple[str, str], int] = {}
        self.by_queue: dict[str, Count] = {}

    def ended(self, runs: Sequence[LiveRun], name: Name) -> None:
        """Attempts ended, all of them just now and in the same way."""
        outcome = OUTCOMES.get(name, str(name))
        clock = self._leader.clock
        minute, now = int(clock.time() // 60), clock.monotonic()
        by_kind: dict[tuple[str, str, int], Count] = {}
        for run in runs:
            kind = (run.tenant_id, run.queue, run.shard)
            count = by_kind.get(kind)
            if count is None:
                count = by_kind[kind] = Count()
            lag_s, duration_s = run.lag_s, now - run.started_at if run.started_at else 0.0
            count.count += 1
            count.lag_ms[bucket_of(lag_s)] += 1
            count.duration_ms[bucket_of(duration_s)] += 1
            count.lag_sum += lag_s
            count.duration_sum += duration_s
        for (tenant_id, queue, shard), count in by_kind.items():
            _merge(self._counts.setdefault(Key(minute, tenant_id, queue, outcome, shard), Count()), count)
            self.outcomes[queue, outcome] = self.outcomes.get((queue, outcome), 0) + count.count
            _merge(self.by_queue.setdefault(queue, Count()), count)

    async def run_once(self) -> float:
        """Write what was counted. What cannot be written now is added to the next time."""
        counts, self._counts = self._counts, {}
        rows = [_row(key, count) for key, count in counts.items()]
        try:
            async with self._database.connection() as connection:
                await rollups.add(connection, rows)
        except BaseException:
            for key, count in counts.items():
                _merge(self._counts.setdefault(key, Count()), count)
            raise
        return WRITE_EVERY_S


def by_queue(counted: Iterable[Tally]) -> dict[str, Count]:
    """What several have counted since the process started, added up by queue."""
    total: dict[str, Count] = {}
    for tally in counted:
        for queue, count in list(tally.by_queue.items()):
            _merge(total.setdefault(queue, Count()), count)
    return total


def _row(key: Key, count: Count) -> rollups.RollupRow:
    minute = clocks.to_datetime(key.minute * 60)
    lag, duration = json.dumps(count.lag_ms), json.dumps(count.duration_ms)
    return rollups.RollupRow(minute, key.tenant_id, key.queue, key.outcome, key.shard, count.count, lag, duration)


def _merge(into: Count, other: Count) -> None:
    into.count += other.count
    into.lag_sum += other.lag_sum
    into.duration_sum += other.duration_sum
    into.lag_ms = [a + b for a, b in zip(into.lag_ms, other.lag_ms, strict=True)]
    into.duration_ms = [a + b for a, b in zip(into.duration_ms, other.duration_ms, strict=True)]
