"""What ended, counted by minute, queue, tenant and outcome: for `rollups` in the database and for `/metrics`.

Counting is a few additions for each run; rows are written every ten seconds. What was not written when a process dies is lost
from the pictures, not from the history.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import NamedTuple

from horarium import clock as clocks
from horarium.domain.run import LiveRun
from horarium.events import Name
from horarium.services.leader import Leader
from horarium.store import rollups
from horarium.store.database import Database

WRITE_EVERY_S = 10.0
BUCKETS = 24  # upper bounds 1 ms, 2 ms, 4 ms … 2.3 hours, and everything longer in the last

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
    """How many, and the histograms of lag and duration: runs in bucket i, upper bounds 2^i ms."""

    count: int = 0
    lag_ms: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    duration_ms: list[int] = field(default_factory=lambda: [0] * BUCKETS)


class Tally:
    """Counts what ended since the last write, and since this process started."""

    def __init__(self, database: Database, leader: Leader) -> None:
        self._database = database
        self._leader = leader
        self._counts: dict[Key, Count] = {}
        self.outcomes: dict[tuple[str, str], int] = {}
        self.start_lag: dict[str, list[int]] = {}
        self.start_lag_sum: dict[str, float] = {}
        self.duration: dict[str, list[int]] = {}
        self.duration_sum: dict[str, float] = {}

    def ended(self, run: LiveRun, name: Name) -> None:
        """An attempt ended."""
        outcome = OUTCOMES.get(name, str(name))
        minute = int(self._leader.clock.time() // 60)
        key = Key(minute, run.tenant_id, run.queue, outcome, run.shard)
        count = self._counts.get(key)
        if count is None:
            count = self._counts[key] = Count()
        duration_s = self._leader.clock.monotonic() - run.started_at if run.started_at else 0.0
        lag, duration = bucket_of(run.lag_s), bucket_of(duration_s)
        count.count += 1
        count.lag_ms[lag] += 1
        count.duration_ms[duration] += 1
        by_outcome = (run.queue, outcome)
        self.outcomes[by_outcome] = self.outcomes.get(by_outcome, 0) + 1
        if run.queue not in self.start_lag:
            self.start_lag[run.queue], self.start_lag_sum[run.queue] = [0] * BUCKETS, 0.0
            self.duration[run.queue], self.duration_sum[run.queue] = [0] * BUCKETS, 0.0
        self.start_lag[run.queue][lag] += 1
        self.start_lag_sum[run.queue] += run.lag_s
        self.duration[run.queue][duration] += 1
        self.duration_sum[run.queue] += duration_s

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


def bucket_of(seconds: float) -> int:
    """The bucket of a duration: i where 2^(i−1) ms < duration ≤ 2^i ms."""
    return min(BUCKETS - 1, max(0, math.ceil(seconds * 1000) - 1).bit_length())


def _row(key: Key, count: Count) -> rollups.RollupRow:
    minute = clocks.to_datetime(key.minute * 60)
    lag, duration = json.dumps(count.lag_ms), json.dumps(count.duration_ms)
    return rollups.RollupRow(minute, key.tenant_id, key.queue, key.outcome, key.shard, count.count, lag, duration)


def _merge(into: Count, other: Count) -> None:
    into.count += other.count
    into.lag_ms = [a + b for a, b in zip(into.lag_ms, other.lag_ms, strict=True)]
    into.duration_ms = [a + b for a, b in zip(into.duration_ms, other.duration_ms, strict=True)]
