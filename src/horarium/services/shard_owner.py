"""Who leads which shard: this node's part of it (design: architecture section 2).

A lease in the row, by the database's clock: renewed each second, three seconds long. The term rises with each change of
leader, and every write of a leader names its term, so a leader that was wrong for a while changes nothing. A node that could
not ask the database for two seconds stops leading by itself, before its lease can have ended.

The renewal is also the measurement of the database's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from horarium import clock as clocks
from horarium import errors
from horarium.events import Events, Name
from horarium.services.leader import Leader
from horarium.store import shards
from horarium.store.database import SQL as DATABASE_SQL
from horarium.store.database import Database

RENEW_EVERY_S = 1.0
LEASE = timedelta(seconds=3)
GIVE_UP_AFTER_S = 2.0


def _forget(step: asyncio.Future[None]) -> None:
    """Nobody waits for a step that was given up; what it ended with is of no interest."""
    if not step.cancelled():
        step.exception()


Load = Callable[[set[int]], Awaitable[None]]
Stepped = Callable[[float], None]


class ShardOwner:
    """Takes, renews and releases the shards of this node.

    `database` is for this alone: a renewal must not wait for a free connection, and may cut its own off.
    """

    def __init__(
        self, database: Database, leader: Leader, clock: clocks.DatabaseClock, events: Events, node_id: str
    ) -> None:
        self._database = database
        self._leader = leader
        self._clock = clock
        self._events = events
        self._node_id = node_id
        self._asked_at = clock.monotonic()
        self.load: Load | None = None
        self.on_step: Stepped = lambda seconds: None
        self.on_taken: Callable[[], None] = lambda: None
        self.on_loaded: Callable[[], None] = lambda: None

    async def run_once(self) -> float:
        """Measure the clock, renew what is led, take what is free. A database that does not answer is given up on in time."""
        try:
            await self._within(GIVE_UP_AFTER_S / 2)
        except errors.UnavailableError as error:
            self._fence()
            raise errors.UnavailableError(f"the leases of the shards could not be renewed: {error}") from error
        return RENEW_EVERY_S

    async def _within(self, seconds: float) -> None:
        """Renew and take; when that takes longer, the connection is cut off.

        Merely cancelled, the driver would go on waiting for a server that answers nothing, not even the cancellation.
        """
        step = asyncio.ensure_future(self._renew_and_take())
        try:
            done, _ = await asyncio.wait({step}, timeout=seconds)
            if not done:
                raise errors.UnavailableError(f"no answer within {seconds:g} s")
            step.result()
        finally:
            if not step.done():
                self._database.cut_off()
                step.cancel()
                step.add_done_callback(_forget)

    async def _renew_and_take(self) -> None:
        await self._renew()
        await self._take()

    async def load_once(self) -> float:
        """Load what lives in the shards that were taken, beside the renewals: it may take longer than a lease."""
        unloaded = {shard: self._leader.terms[shard] for shard in self._leader.unloaded}
        if unloaded:
            if self.load is not None:
                await self.load(set(unloaded))
            # One that was lost and taken again meanwhile has a later term, and is loaded once more.
            same = {shard for shard, term in unloaded.items() if self._leader.terms.get(shard) == term}
            self._leader.loaded(same)
            self.on_loaded()
        return RENEW_EVERY_S

    async def release(self) -> None:
        """Give all shards back in order, at the end of this node's life."""
        led = dict(self._leader.terms)
        self._leader.drop_shards(led)
        if led:
            async with self._database.connection() as connection:
                await shards.release(connection, led, self._node_id)
            self._events.tell(Name.SHARDS_LOST, shards=sorted(led), reason="released")

    async def _renew(self) -> None:
        led = dict(self._leader.terms)
        async with self._database.connection() as connection:
            asked_at = self._clock.monotonic()
            database_now = await connection.fetchval(DATABASE_SQL.clock)
            stepped = self._clock.observe(database_now, asked_at, self._clock.monotonic())
            kept = await shards.renew(connection, led, self._node_id, LEASE) if led else set()
        self._asked_at = asked_at
        self._lose(set(led) - kept, "another node took them")
        if stepped:
            self._events.tell(Name.CLOCK_STEPPED, seconds=round(stepped, 3))
            self.on_step(stepped)

    async def _take(self) -> None:
        async with self._database.connection() as connection:
            taken = await shards.take(connection, self._node_id, LEASE, limit=4096)
        if taken:
            self._leader.take_shards(taken)
            self._events.tell(Name.SHARDS_TAKEN, shards=sorted(taken))
            self.on_taken()

    def _fence(self) -> None:
        """The database cannot be asked: stop leading before the lease can have ended."""
        if self._leader.terms and self._clock.monotonic() - self._asked_at > GIVE_UP_AFTER_S:
            self._lose(set(self._leader.terms), "the database could not be asked")

    def _lose(self, gone: set[int], reason: str) -> None:
        if gone:
            self._leader.drop_shards(gone)
            self._events.tell(Name.SHARDS_LOST, shards=sorted(gone), reason=reason)
