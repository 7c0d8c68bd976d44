"""Nodes without HTTP, and a worker that calls them: what a whole life needs, in one process and in real time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from horarium.domain.lanes import Wanted
from horarium.domain.outcome import Outcome
from horarium.errors import UnavailableError
from horarium.events import Events
from horarium.services.control_plane import ControlPlane, Timing
from horarium.services.endings import Report, Taken
from horarium.services.registry import Node
from horarium.store.database import Database
from tests.builders import WAIT_S
from tests.recording import Recorder

ANY = Wanted((("default", 1.0),))
QUICK = Timing(lease=timedelta(seconds=1), sweep=timedelta(seconds=1))

T = TypeVar("T")
Handler = Callable[["Attempt"], Awaitable[Outcome | None]]


@dataclass
class RunningNode:
    """All duties of a node, and what they told."""

    plane: ControlPlane
    told: Recorder
    database: Database

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        async with self.database.connection() as connection:
            rows: list[Any] = await connection.fetch(query, *values)
            return rows

    async def fetchval(self, query: str, *values: Any) -> Any:
        async with self.database.connection() as connection:
            return await connection.fetchval(query, *values)

    async def die(self) -> None:
        """As if it was killed: nothing is released, and its leases have ended."""
        for loop in self.plane._loops.values():
            await loop.stop()
        await self.plane.dispatcher.stop()
        await self.fetch("UPDATE shards SET lease_expires_at = now() - interval '1 ms'")
        await self.fetch("UPDATE nodes SET last_seen_at = now() - interval '3 s'")


@asynccontextmanager
async def node(url: str, name: str = "node-1", timing: Timing = QUICK) -> AsyncIterator[RunningNode]:
    """A node that leads what shards are free; it stops in order."""
    database = Database(url, pool_size=6)
    await database.open()
    events = Events()
    told = Recorder(events)
    plane = ControlPlane(database, Node(name, None, "0", "host", 1), events, timing)
    await plane.start()
    try:
        yield RunningNode(plane, told, database)
    finally:
        await plane.stop()
        await database.close()


@dataclass
class Attempt:
    """A lease as a worker holds it."""

    lease: dict[str, Any]
    plane: ControlPlane

    @property
    def run_id(self) -> UUID:
        return UUID(self.lease["run_id"])

    @property
    def token(self) -> int:
        token: int = self.lease["fencing_token"]
        return token

    @property
    def number(self) -> int:
        number: int = self.lease["attempt"]
        return number

    async def report(self, outcome: Outcome = Outcome.SUCCEEDED, **members: Any) -> Taken:
        """Tell how it ended."""
        return await self.plane.completer.report([Report(self.run_id, self.token, outcome, **members)])


async def ask(plane: ControlPlane, worker_id: str = "w1", slots: int = 10, wait_s: float = WAIT_S) -> list[Attempt]:
    """Ask a node for runs."""
    leases = await plane.dispatcher.lease(worker_id, ANY, slots, wait_s)
    return [Attempt(json.loads(lease), plane) for lease in leases]


async def ask_one(plane: ControlPlane, worker_id: str = "w1") -> Attempt:
    """Ask a node for the next run."""
    (attempt,) = await ask(plane, worker_id, 1)
    return attempt


@dataclass
class Worker:
    """Asks, carries out, reports, and says that it is alive."""

    plane: ControlPlane
    handler: Handler
    name: str = "w1"
    held: dict[UUID, int] = field(default_factory=dict)
    started: list[Attempt] = field(default_factory=list)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Work beside what follows; die with its end, in silence."""
        tasks = [asyncio.create_task(self._work()), asyncio.create_task(self._beat())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(ended, asyncio.CancelledError), ended

    async def _work(self) -> None:
        while True:
            attempts = await _placed(lambda: ask(self.plane, self.name, 20, 1.0))
            self.held |= {attempt.run_id: attempt.token for attempt in attempts}
            self.started += attempts
            await asyncio.gather(*(self._carry_out(attempt) for attempt in attempts))

    async def _carry_out(self, attempt: Attempt) -> None:
        await _pause(attempt.lease.get("start_in_s", 0))
        outcome = await self.handler(attempt)
        if outcome is not None:
            await _placed(lambda: attempt.report(outcome))
        self.held.pop(attempt.run_id, None)

    async def _beat(self) -> None:
        leases, leader = self.plane.leader.ready.leases, self.plane.leader
        while True:
            leases.heartbeat(self.name, list(self.held.items()), leader.clock.monotonic(), leader.knows)
            await _placed(lambda: self.plane.reaper.take_back(self.name, None))
            await _pause(leases.lease_s / 3)


async def _placed(call: Callable[[], Awaitable[T]]) -> T:
    """What a worker does with a call that the node answers with 503: it repeats it."""
    while True:
        try:
            return await call()
        except UnavailableError:
            await _pause(0.05)


async def _pause(seconds: float) -> None:
    """A worker's own pauses: until a start, and from heartbeat to heartbeat."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()
