"""The timing wheel: runs whose instant has not come, by that instant.

Runs that become ready within the same hundredth of a second share a bucket, so a hundred thousand runs of one full hour cost
one append each. Only the earliest bucket is ever put in order.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from operator import attrgetter

from horarium.domain.run import LiveRun, Phase

BUCKETS_PER_SECOND = 100

_by_ready_at = attrgetter("ready_at")


class Wheel:
    """Runs ordered by `ready_at` (seconds). Runs that are GONE by the time they would be released are dropped."""

    def __init__(self) -> None:
        self._buckets: dict[int, list[LiveRun]] = {}
        self._order: list[int] = []
        self._sorted: int | None = None

    def __bool__(self) -> bool:
        return bool(self._order)

    def add(self, run: LiveRun) -> None:
        """Keep a run until its instant."""
        key = int(run.ready_at * BUCKETS_PER_SECOND)
        bucket = self._buckets.get(key)
        if bucket is None:
            self._buckets[key] = [run]
            heapq.heappush(self._order, key)
        else:
            bucket.append(run)
        if key == self._sorted:
            self._sorted = None

    def next_instant(self) -> float | None:
        """When the next run becomes ready; None when there is none."""
        bucket = self._earliest()
        return bucket[-1].ready_at if bucket else None

    def release(self, until: float, limit: int) -> Iterator[LiveRun]:
        """The runs that are ready by `until`, in order, at most `limit` of them; they leave the wheel."""
        while limit > 0:
            bucket = self._earliest()
            if not bucket or bucket[-1].ready_at > until:
                return
            run = bucket.pop()
            if run.phase is Phase.WHEEL:
                limit -= 1
                yield run

    def _earliest(self) -> list[LiveRun] | None:
        """The earliest bucket that is not empty, latest instant first, so that runs are popped off its end."""
        while self._order:
            key = self._order[0]
            bucket = self._buckets[key]
            if bucket:
                if key != self._sorted:
                    bucket.sort(key=_by_ready_at)
                    bucket.reverse()  # not `reverse=True`, which would leave equals in the order they came in
                    self._sorted = key
                return bucket
            heapq.heappop(self._order)
            del self._buckets[key]
        return None
