"""A control plane in this process whose duties the benchmark calls itself, one at a time: no loop of its own runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from horarium import logs, server
from horarium.events import Event, Events, Name
from horarium.services.control_plane import ControlPlane, Timing
from horarium.services.registry import Node
from horarium.store.database import Database


@dataclass(slots=True)
class Led:
    """A control plane that leads all shards of a database; `fired` counts the runs it has made."""

    plane: ControlPlane
    fired: int = 0

    async def fire(self, count: int) -> None:
        """Have the scheduler fire, until it has fired so many; more is a fault."""
        until = self.fired + count
        while self.fired < until:
            await self.plane.scheduler.run_once()
        assert self.fired == until, (self.fired, until)

    def hear(self, event: Event) -> None:
        """Count what is fired."""
        if event.name is Name.RUNS_FIRED:
            self.fired += event.fields["count"]


@asynccontextmanager
async def leading(url: str, *, max_ready: int = 200_000) -> AsyncIterator[Led]:
    """Take all shards, load what lives in them, hand out runs; give the shards back at the end."""
    logs.configure("console", "warning")
    database, events = Database(url, pool_size=4), Events()
    await database.open()
    plane = ControlPlane(database, Node("bench", None, "bench", "bench", 0), events, Timing(), max_ready)
    led = Led(plane)
    events.listen(led.hear)
    await plane.lease_database.open()
    try:
        await plane.owner.run_once()
        await plane.owner.load_once()
        await plane.owner.fill_once()
        plane.dispatcher.start()
        server.calm_collector()  # as a node does: else the figures are the collector's
        yield led
        await plane.dispatcher.stop()
        await plane.owner.release()
    finally:
        await plane.lease_database.close()
        await database.close()
