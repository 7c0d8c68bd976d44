"""A clock that stands still until it is told to move."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from horarium import clock as clocks

START = datetime(2026, 12, 1, 2, 0, tzinfo=UTC)


class ManualClock:
    """`horarium.clock.Clock` moved by hand. `start` is aware; `monotonic` counts from 1000 s."""

    def __init__(self, start: datetime = START) -> None:
        if start.tzinfo is None:
            raise ValueError(f"{start!r} has no time zone")
        self._start = start
        self._elapsed = timedelta(0)

    def now(self) -> datetime:
        """The time it shows: aware, UTC."""
        return (self._start + self._elapsed).astimezone(UTC)

    def time(self) -> float:
        """The same in seconds since the Unix epoch."""
        return clocks.to_seconds(self.now())

    def monotonic(self) -> float:
        """Seconds that only `advance` moves."""
        return 1000.0 + self._elapsed.total_seconds()

    def advance(self, duration: timedelta) -> None:
        """Let time pass; ValueError for a negative duration."""
        if duration < timedelta(0):
            raise ValueError("time does not run backwards; `step` sets the wall clock")
        self._elapsed += duration

    def step(self, duration: timedelta) -> None:
        """Set the wall clock forward or back by so much: `monotonic` does not notice."""
        self._start += duration
