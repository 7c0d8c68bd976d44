"""Deadlines of running attempts, for the price of a comparison each.

Nearly all attempts end long before theirs, so nothing is filed: one timer stands at the earliest deadline that was seen,
and when it fires, the attempts that are still held are looked through.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping

from horarium.sdk import attempt as attempts


class Deadlines:
    """Calls `expire` with each held attempt whose `deadline` has passed. `expire` moves the deadline on."""

    def __init__(self, held: Mapping[str, attempts.Attempt], expire: Callable[[attempts.Attempt], None]) -> None:
        self._held = held
        self._expire = expire
        self._armed_for = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, attempt: attempts.Attempt) -> None:
        """Look at this attempt when its deadline comes."""
        if attempt.deadline < self._armed_for:
            self._arm(attempt.deadline)

    def stop(self) -> None:
        """Expire nothing any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, instant: float) -> None:
        self.stop()
        self._armed_for = instant
        if instant < math.inf:
            wait = max(0.0, instant - time.monotonic()) + 0.001  # timers of uvloop may fire a millisecond early
            self._timer = asyncio.get_running_loop().call_later(wait, self._fire)

    def _fire(self) -> None:
        now = time.monotonic()
        for attempt in [held for held in self._held.values() if held.deadline <= now]:
            self._expire(attempt)
        self._arm(min((held.deadline for held in self._held.values()), default=math.inf))
