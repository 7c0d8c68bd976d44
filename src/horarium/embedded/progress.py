"""Tells the user every few seconds what a long wait is for; no wait of the launcher has a limit of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

Listener = Callable[[str], None]
INTERVAL = timedelta(seconds=3)


def ignore(text: str) -> None:
    """The listener of those who do not listen."""


class Reporter:
    """Passes on at most one message per `INTERVAL`, and none before the first has passed."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._interval_s = INTERVAL.total_seconds()
        self._began = self._last = time.monotonic()

    def tick(self, describe: Callable[[], str]) -> None:
        """Report what is being waited for, if it is time to."""
        now = time.monotonic()
        if now - self._last >= self._interval_s:
            self._last = now
            self._listener(f"{describe()} ({now - self._began:.0f} s)")
