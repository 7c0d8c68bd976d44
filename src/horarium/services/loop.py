"""The loop, written once: interval, jitter, wake-up, shutdown, and it survives errors.

A duty has `run_once`, which does what is to be done now and says after how many seconds to look again. The loop calls it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from horarium import errors
from horarium.events import Events, Name

Step = Callable[[], Awaitable[float]]

MAX_PAUSE_AFTER_ERROR_S = 5.0
MAX_PAUSE_WITHOUT_DATABASE_S = 0.5
"""Short: within a second of the database's return everything goes on. How often it is asked is bounded by its pool."""


class Loop:
    """Calls `step` for ever. `step` returns the seconds until it wants to be called again; `wake` calls it at once."""

    def __init__(self, name: str, step: Step, events: Events) -> None:
        self.name = name
        self._step = step
        self._events = events
        self._wake = asyncio.Event()
        self._failures = 0
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, in the running event loop."""
        self._task = asyncio.create_task(self._run(), name=self.name)

    def wake(self) -> None:
        """Look now rather than at the end of the pause."""
        self._wake.set()

    async def rest(self) -> None:
        """Wait until no step is under way."""
        await self._at_rest.wait()

    async def stop(self) -> None:
        """End the loop; a step that is under way is cancelled."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            self._at_rest.clear()
            try:
                seconds = await self._guarded()
            finally:
                self._at_rest.set()
            await self._pause(seconds)

    async def _guarded(self) -> float:
        """One step; a failure is told and followed by a growing, jittered pause."""
        try:
            seconds = await self._step()
        except asyncio.CancelledError:
            raise
        except errors.UnavailableError as error:
            return min(MAX_PAUSE_WITHOUT_DATABASE_S, self._back_off(error, quiet=self._failures > 0))
        except Exception as error:  # noqa: BLE001 - a duty must not end because one of its steps failed
            return self._back_off(error, quiet=False)
        self._failures = 0
        return seconds

    def _back_off(self, error: Exception, *, quiet: bool) -> float:
        self._failures += 1
        if not quiet:
            self._events.tell(Name.DUTY_FAILED, duty=self.name, error=f"{type(error).__name__}: {error}")
        pause: float = min(MAX_PAUSE_AFTER_ERROR_S, 0.1 * 2 ** min(self._failures, 10))
        return pause * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, no secret

    async def _pause(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        try:
            await asyncio.wait_for(self._wake.wait(), seconds)
        except TimeoutError:
            return
