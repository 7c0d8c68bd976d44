"""Tests wait for the events that operators see, never for a number of seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from horarium.events import Event, Events, Name

SAFETY_S = 30.0


class Recorder:
    """Keeps every event, and lets a test wait for them."""

    def __init__(self, events: Events) -> None:
        self.events: list[Event] = []
        self._came = asyncio.Event()
        events.listen(self._keep)

    def named(self, name: Name) -> Iterator[Event]:
        """The events of one name, in order."""
        return (event for event in self.events if event.name is name)

    def total(self, name: Name) -> int:
        """How many times this happened: a batch counts as often as its `count` says."""
        return sum(event.fields.get("count", 1) for event in self.named(name))

    async def wait_for(self, name: Name, *, count: int = 1) -> list[Event]:
        """The events of one name, once it has happened `count` times since the beginning."""
        try:
            async with asyncio.timeout(SAFETY_S):
                while self.total(name) < count:
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            raise AssertionError(f"{name} happened {self.total(name)} times, not {count}: {self.events}") from None
        return list(self.named(name))

    def _keep(self, event: Event) -> None:
        self.events.append(event)
        self._came.set()
