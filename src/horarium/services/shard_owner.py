"""Who leads which shard: this node's part of it (design: architecture section 2).

A lease in the row, by the database's clock: renewed each second, three seconds long. The term rises with each change of
leader, and every write of a leader names its term, so a leader that was wrong for a while changes nothing. A node that could
not ask the database for two seconds stops leading by itself, before its lease can have ended.

Each second, in this order: the clock is measured, the node shows that it lives, leases are renewed, rows are read, and what
they say is done: free shards are taken up to the node's share, surplus ones are handed over. A hand-over forgets the shard at
once, lets the writes that are under way finish under its term, and then frees the row, for another node to take and load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

import asyncpg

from horarium import clock as clocks
from horarium import errors
from horarium.domain import sharding
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
Settle = Callable[[], Awaitable[None]]
Stepped = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Division:
    """Who leads what in one database, as this node last read it: shard → node id, and the live nodes by id."""

    leaders: Mapping[int, str | None] = field(default_factory=dict)
    nodes: Mapping[str, shards.NodeRow] = field(default_factory=dict)

    def leader_of(self, shard: int) -> shards.NodeRow | None:
        """The node that leads a shard, where it is known to live."""
        return self.nodes.get(self.leaders.get(shard) or "")


class ShardOwner:
    """Takes, renews, hands over and releases the shards of this node.

    `database` is for this alone: a renewal must not wait for a free connection, and may cut its own off. `settle` waits until
    the writes that are under way have ended; `load` takes up what has begun in shards that were taken, `fill` what waits there.
    """

    def __init__(
        self, database: Database, leader: Leader, clock: clocks.DatabaseClock, events: Events, node: shards.NodeRow
    ) -> None:
        self._database = database
        self._leader = leader
        self._clock = clock
        self._events = events
        self._node = node
        self._asked_at = clock.monotonic()
        self._handing_over: dict[int, int] = {}
        self._left = False
        self.division = Division()
        self.load: Load | None = None
        self.fill: Load | None = None
        self.settle: Settle | None = None
        self.on_step: Stepped = lambda seconds: None
        self.on_taken: Callable[[], None] = lambda: None
        self.on_loaded: Callable[[], None] = lambda: None
        self.on_surplus: Callable[[], None] = lambda: None
        self.on_freed: Callable[[], None] = lambda: None
        self.on_looked: Callable[[], None] = lambda: None

    async def run_once(self) -> float:
        """Measure, renew, look, move. A database that does not answer is given up on in time."""
        try:
            await self._within(GIVE_UP_AFTER_S / 2)
        except errors.UnavailableError as error:
            self._fence()
            raise errors.UnavailableError(f"the leases of the shards could not be renewed: {error}") from error
        self.on_looked()
        return RENEW_EVERY_S

    async def look(self) -> None:
        """Read who leads what, between two renewals."""
        async with self._database.connection() as connection:
            self.division = await self._look(connection)

    async def load_once(self) -> float:
        """Load what has begun in the shards that were taken, beside the renewals: their timers and leases go on from here."""
        if await self._load(self._leader.unloaded, self.load, self._leader.loaded):
            self.on_loaded()
        return RENEW_EVERY_S

    async def fill_once(self) -> float:
        """Take up what waits in the shards that were loaded. That may be much, and take longer than many leases."""
        await self._load(self._leader.ready.incomplete, self.fill, self._leader.completed)
        return RENEW_EVERY_S

    async def _load(self, shards: Collection[int], load: Load | None, done: Callable[[set[int]], None]) -> bool:
        """Load some shards, tell so, and return whether there were any."""
        wanted = {shard: self._leader.terms[shard] for shard in shards}
        if not wanted:
            return False
        if load is not None:
            await load(set(wanted))
        # One that was lost and taken again meanwhile has a later term, and is loaded once more.
        done({shard for shard, term in wanted.items() if self._leader.terms.get(shard) == term})
        return True

    async def hand_over_once(self) -> float:
        """Free the rows of surplus shards, once what was being written for them has ended."""
        surplus = dict(self._handing_over)
        if surplus:
            if self.settle is not None:
                await self.settle()
            await self._free(surplus)
        return RENEW_EVERY_S

    async def leave(self) -> None:
        """Lead nothing from now on: hand all shards over in order, and be gone in the eyes of others."""
        self._left = True
        await self.release()

    async def release(self) -> None:
        """Give all shards back in order."""
        led = dict(self._leader.terms)
        self._leader.drop_shards(led)
        self._handing_over.update(led)
        if led:
            self._events.tell(Name.SHARDS_LOST, shards=sorted(led), reason="released")
        if self._handing_over and self.settle is not None:
            await self.settle()
        if self._handing_over or self._node.id in self.division.nodes:
            async with self._database.connection() as connection:
                await shards.remove_node(connection, self._node.id)
            await self._free(dict(self._handing_over))

    async def _within(self, seconds: float) -> None:
        """Do the step; when that takes longer, the connection is cut off.

        Merely cancelled, the driver would go on waiting for a server that answers nothing, not even the cancellation.
        """
        step = asyncio.ensure_future(self._step())
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

    async def _step(self) -> None:
        async with self._database.connection() as connection:
            await self._renew(connection)
            self.division = await self._look(connection)
            if not self._left:
                await self._move(connection)

    async def _renew(self, connection: asyncpg.Connection) -> None:
        led = dict(self._leader.terms)
        asked_at = self._clock.monotonic()
        database_now = await connection.fetchval(DATABASE_SQL.clock)
        stepped = self._clock.observe(database_now, asked_at, self._clock.monotonic())
        if not self._left:
            await shards.beat(connection, self._node)
        kept = await shards.renew(connection, led, self._node.id, LEASE) if led else set()
        self._asked_at = asked_at
        self._lose(set(led) - kept, "another node took them")
        if stepped:
            self._events.tell(Name.CLOCK_STEPPED, seconds=round(stepped, 3))
            self.on_step(stepped)

    async def _look(self, connection: asyncpg.Connection) -> Division:
        rows = await shards.all_shards(connection, LEASE)
        nodes = await shards.live_nodes(connection, LEASE)
        return Division(
            {row["shard"]: row["leader"] if row["alive"] else None for row in rows}, {node.id: node for node in nodes}
        )

    async def _move(self, connection: asyncpg.Connection) -> None:
        """Take up to this node's share, or begin to hand over what is more than that."""
        division = self.division
        counted = [node.id for node in division.nodes.values() if node.counts]
        held = [sharding.Held(shard, leader) for shard, leader in division.leaders.items()]
        move = sharding.decide(self._node.id, counted, held)
        if move.take:
            self._take_up(await shards.take(connection, self._node.id, LEASE, move.take))
        elif move.give > len(self._handing_over):
            self._give_up(move.give - len(self._handing_over))

    def _take_up(self, taken: dict[int, int]) -> None:
        if taken:
            self._leader.take_shards(taken)
            self.division = replace(
                self.division, leaders={**self.division.leaders, **dict.fromkeys(taken, self._node.id)}
            )
            self._events.tell(Name.SHARDS_TAKEN, shards=sorted(taken))
            self.on_taken()

    def _give_up(self, count: int) -> None:
        """Forget surplus shards: rather those that are not loaded yet."""
        led, unloaded = self._leader.terms, self._leader.unloaded
        surplus = sorted(led, key=lambda shard: (shard in unloaded, shard))[-count:]
        self._handing_over.update({shard: led[shard] for shard in surplus})
        self._lose(set(surplus), "handed over")
        self.on_surplus()

    async def _free(self, surplus: Mapping[int, int]) -> None:
        """Free rows that are still this node's; one that cannot be freed now ends with its lease."""
        try:
            async with self._database.connection() as connection:
                await shards.release(connection, surplus, self._node.id)
        finally:
            self._handing_over = {
                shard: term for shard, term in self._handing_over.items() if surplus.get(shard) != term
            }
        self.on_freed()

    def _fence(self) -> None:
        """The database cannot be asked: stop leading before the lease can have ended."""
        if self._leader.terms and self._clock.monotonic() - self._asked_at > GIVE_UP_AFTER_S:
            self._lose(set(self._leader.terms), "the database could not be asked")

    def _lose(self, gone: Collection[int], reason: str) -> None:
        if gone:
            self._leader.drop_shards(gone)
            self.division = replace(self.division, leaders={**self.division.leaders, **dict.fromkeys(gone)})
            self._events.tell(Name.SHARDS_LOST, shards=sorted(gone), reason=reason)
