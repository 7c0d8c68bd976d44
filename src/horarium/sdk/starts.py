"""Starting runs at their instant: early claims wait here, in the slot they hold.

One timer of the event loop for the earliest of them. Timers of uvloop count whole milliseconds, so the last one before an
instant is bridged by asking at each turn of the loop. That costs CPU, so it is done for one instant in ten milliseconds at
most; another one that comes so soon may start up to a millisecond late. None starts before its instant.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from collections.abc import Callable

from horarium.sdk import attempt as attempts

GRAIN_S = 0.001
SPIN_EVERY_S = 0.010


class Starts:
    """Attempts that wait for their instant (monotonic seconds); `start` is called with each when it has come."""

    def __init__(self, start: Callable[[attempts.Attempt], None]) -> None:
        self._start = start
        self._waiting: list[tuple[float, int, attempts.Attempt]] = []
        self._order = itertools.count()
        self._timer: asyncio.Handle | None = None
        self._spun_for = -math.inf  # the last instant whose last millisecond was bridged

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
        loop, instant = asyncio.get_running_loop(), self._waiting[0][0]
        remaining = instant - time.monotonic()
        if remaining <= 0 or (remaining <= GRAIN_S and self._may_spin(instant)):
            self._timer = loop.call_soon(self._fire)
        else:
            self._timer = loop.call_later(max(remaining - GRAIN_S, GRAIN_S), self._fire)

    def _may_spin(self, instant: float) -> bool:
        if instant != self._spun_for and instant - self._spun_for < SPIN_EVERY_S:
            return False
        self._spun_for = instant
        return True

    def _fire(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            self._start(heapq.heappop(self._waiting)[2])
        if self._waiting:
            self._arm()
