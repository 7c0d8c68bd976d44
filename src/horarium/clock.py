"""One clock: the database's (design: architecture section 5).

What is due is decided by the time of the database that holds a shard. A process never trusts its own wall clock: it keeps
`offset = database − monotonic`, measured with each lease renewal, and reads time as `monotonic + offset`. Every duty is given
a clock, so tests drive time by hand.
"""

from __future__ import annotations

import time
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Time as the duties see it."""

    def now(self) -> datetime:
        """The database's time: aware, UTC."""

    def time(self) -> float:
        """The database's time in seconds since the Unix epoch, for the hot path."""

    def monotonic(self) -> float:
        """Seconds that never step; for durations and sleeping."""


def to_datetime(seconds: float) -> datetime:
    """The aware UTC instant of so many seconds since the Unix epoch."""
    return EPOCH + timedelta(seconds=seconds)


def to_seconds(instant: datetime) -> float:
    """Seconds since the Unix epoch of an aware instant."""
    return (instant - EPOCH).total_seconds()


class Sample(NamedTuple):
    """One measurement: the offset in seconds, and how far off it may be (half of the round trip)."""

    offset: float
    uncertainty: float


class DatabaseClock:
    """The database's time, carried by the monotonic clock between measurements.

    Of the last eight measurements the one with the shortest round trip counts: a busy loop makes round trips long, not the
    clock wrong. A measurement that cannot be reconciled with it is a step of the database's clock and counts at once.
    """

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=8)
        self._offset = time.time() - time.monotonic()

    def now(self) -> datetime:
        return to_datetime(self.time())

    def time(self) -> float:
        return time.monotonic() + self._offset

    def monotonic(self) -> float:
        return time.monotonic()

    def observe(self, database_now: datetime, asked_at: float, answered_at: float) -> float:
        """Take in that the database said `database_now` between two monotonic instants.

        Returns by how many seconds the clock stepped (0 for the small corrections of an ordinary measurement).
        """
        middle, uncertainty = (asked_at + answered_at) / 2, (answered_at - asked_at) / 2
        sample = Sample(to_seconds(database_now) - middle, uncertainty)
        stepped = self._step(sample)
        if stepped:
            self._samples.clear()
        self._samples.append(sample)
        self._offset = min(self._samples, key=lambda known: known.uncertainty).offset
        return stepped

    def skew(self) -> float:
        """Seconds by which this machine's wall clock is ahead of the database's."""
        return time.time() - self.time()

    def _step(self, sample: Sample) -> float:
        difference = sample.offset - self._offset
        if not self._samples:
            return 0.0
        tolerance = sample.uncertainty + min(known.uncertainty for known in self._samples) + 0.010
        return difference if abs(difference) > tolerance else 0.0
