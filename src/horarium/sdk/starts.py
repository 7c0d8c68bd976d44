"""Starting runs at their instant: early claims wait here, in the slot they hold.

One timer of the event loop for the earliest of them. Timers of uvloop count whole milliseconds and may fire up to one
early, so an early call waits again: a run never starts before its instant, and seldom more than a millisecond after it.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable

from horarium.sdk import attempt as attempts

_TIMER_GRAIN_S = 0.001
_SPIN_S = 0.0002  # below this, waiting for a timer would be later than asking again at once


class Starts:
    """Attempts that wait for their instant (monotonic seconds); `start` is called with each when it has come."""

    def __init__(self, start: Callable[[attempts.Attempt], None]) -> None:
        self._start = start
        self._waiting: list[tuple[float, int, attempts.Attempt]] = []
        self._order = itertools.count()
        self._timer: asyncio.Handle | None = None

    def add(self, instant: float, attempt: attempts.Attempt) -> None:
        """Start this attempt at that instant."""
        heapq.heappush(self._waiting, (instant, next(self._order), attempt))
        if self._waiting[0][2] is attempt:
            self._arm()

    def take_all(self) -> list[attempts.Attempt]:
        """The attempts that have not started, which then will not."""
        taken = [attempt for _, _, attempt in self._waiting]
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
        return taken

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop, remaining = asyncio.get_running_loop(), self._waiting[0][0] - time.monotonic()
        if remaining <= _SPIN_S:
            self._timer = loop.call_soon(self._fire)
        else:
            self._timer = loop.call_later(max(remaining - _TIMER_GRAIN_S, _TIMER_GRAIN_S), self._fire)

    def _fire(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            self._start(heapq.heappop(self._waiting)[2])
        if self._waiting:
            self._arm()
