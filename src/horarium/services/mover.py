"""Moves a shard to another database (design: architecture section 2); `domain/moving.py` tells the steps.

How far a move has come stands in the `shards` rows of both databases. Each step looks at them, does its part and writes down that
it is done, so that the same call finishes what was interrupted. A mover shows by a lease that it is alive; the work of a dead one
is taken over by the next call, or by the nodes (`mender`), which end the pause within seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import asyncpg
import msgspec

from horarium import errors
from horarium.domain import job, moving, roles
from horarium.domain.moving import Step
from horarium.domain.placement import State
from horarium.store import audit
from horarium.store import moving as rows
from horarium.store import moving_changes as changes
from horarium.store.databases import Databases
from horarium.store.moving import Standing

# Runs that ended this long ago are closed: no transaction that ends one takes so long.
CLOSED = timedelta(minutes=10)
# The former leader learns of the pause with its next renewal. Then it asks for nothing that the fence would refuse.
LEADER_LEARNS_S = 1.2
# What somebody may still do who has not learnt that the shard has left, ends before its rows are deleted.
GRACE_S = 5.0
RENEW_EVERY_S = 2.0
FENCE_TRIES = 20

Told = Callable[[Step, str], None]


class Mover:
    """Moves one shard from the place of one database to that of another. `told` hears each step before it is done."""

    def __init__(
        self, databases: Databases, shard: int, source: int, target: int, mover: str, told: Told = lambda *_: None
    ) -> None:
        self._databases = databases
        self._shard = shard
        self._mover = mover
        self._told = told
        self._source, self._target = databases.all[source], databases.all[target]
        self._names = databases.names[source], databases.names[target]
        found = databases.states()
        self._numbers = tuple(found[name].number for name in self._names)
        self._ahead: changes.Ahead | None = None
        self._steps = {
            Step.PREPARE: self._prepare,
            Step.HISTORY: self._history_and_pause,
            Step.COPY: self._copy,
            Step.LEAVE: self._leave,
            Step.ARRIVE: self._arrive,
            Step.CLEAR: self._clear,
        }

    async def run(self) -> None:
        """Do what is left to do. Raises ConflictError when somebody else is at it, UnavailableError when a database is silent."""
        while True:
            source, target = await self._standings()
            if source.state is State.LEAVING and source.peer != self._numbers[1]:
                raise errors.ConflictError(f"shard {self._shard} is on its way to another database; finish that first")
            step = moving.next_step(source.state, target.state if target else None)
            if step is None:
                return
            await self._steps[step]()

    async def mend(self) -> Step | None:
        """After a mover's death: finish or undo its pause. Returns what was done; None when there was nothing to do."""
        source, target = await self._standings()
        step = moving.mending(source.state, target.state if target else None)
        if step is None or (source.state is State.LEAVING and source.alive):
            return None
        if step is Step.UNDO:
            await self._undo()
            return step
        if step is Step.LEAVE:
            await self._leave()
        await self._arrive()
        return step

    async def _standings(self) -> tuple[Standing, Standing | None]:
        async with self._source.connection() as connection:
            source = await rows.standing(connection, self._shard)
        async with self._target.connection() as connection:
            target = await rows.standing(connection, self._shard)
        if source is None:
            raise errors.NotFoundError(f"database {self._names[0]} knows nothing of shard {self._shard}")
        return source, target

    async def _prepare(self) -> None:
        self._told(Step.PREPARE, "")
        async with self._target.transaction() as connection:
            remains = await rows.remains(connection)
            if remains:
                which = ", ".join(map(str, remains))
                raise errors.ConflictError(
                    f"database {self._names[1]} still holds rows of shards that have left it ({which}): finish those moves first"
                )
            standing = await rows.prepare(connection, self._shard, self._numbers[0], self._mover)
            if standing is None:
                raise self._somebody_else()
            if standing.copied_until is None:
                await rows.purge(connection, self._shard)

    async def _history_and_pause(self) -> None:
        """Copy what is closed, and what lives, while the shard works; then stop it, and see that the former leader knows."""
        self._told(Step.HISTORY, "")
        async with self._both() as (source, target), self._renewed(self._target):
            standing = await rows.prepare(target, self._shard, self._numbers[0], self._mover)
            if standing is None:
                raise self._somebody_else()
            now = await self._source.now()
            await self._copy_closed(source, target, standing.copied_until, now)
            self._ahead = await self._copy_ahead(source, target)
            was_led = (await rows.standing(source, self._shard) or standing).alive
            self._told(Step.PAUSE, "")
            if not await rows.pause(source, self._shard, self._numbers[1], self._mover):
                raise self._somebody_else()
        if was_led:
            await asyncio.sleep(LEADER_LEARNS_S)

    async def _copy_closed(
        self, source: asyncpg.Connection, target: asyncpg.Connection, after: datetime | None, now: datetime
    ) -> None:
        stretches = await rows.stretches(source, after, now - CLOSED)
        days = [each.first for each in stretches if each.first > rows.FIRST]
        await rows.make_room(target, min(days, default=now), now)
        for stretch in stretches:
            async with target.transaction():
                copied = await rows.copy_history(source, target, self._shard, stretch, self._mover)
                if copied is None:
                    raise self._somebody_else()
            self._told(Step.HISTORY, f"{copied} runs until {stretch.end:%Y-%m-%d %H:%M}")

    async def _copy_ahead(self, source: asyncpg.Connection, target: asyncpg.Connection) -> changes.Ahead:
        """Copy what lives, and again what has changed since, until a pass is short."""
        ahead: changes.Ahead | None = None
        took_s: float | None = None
        while True:
            began = time.monotonic()
            self._told(Step.AHEAD, "")
            async with source.transaction(isolation="repeatable_read", readonly=True), target.transaction():
                copied = await changes.copy_ahead(source, target, self._shard, ahead, self._mover)
                if copied is None:
                    raise self._somebody_else()
                ahead, counts = copied
                self._told(Step.AHEAD, _told_counts(counts))
            before_s, took_s = took_s, time.monotonic() - began
            if not moving.is_another_pass_worth_it(took_s, before_s):
                return ahead

    async def _copy(self) -> None:
        self._told(Step.COPY, "")
        async with self._both() as (source, target), self._renewed(self._source):
            if not await rows.hold(source, self._shard, self._numbers[1], self._mover):
                raise self._somebody_else()
            standing = await rows.standing(target, self._shard)
            if standing is None or standing.leader != self._mover:
                self._ahead = None
            await rows.take_arrival(target, self._shard, self._mover)
            await self._fence(source)
            since = standing.copied_until if standing and standing.copied_until else rows.FIRST
            async with target.transaction():
                counts = await self._copy_rest(source, target, since)
                if not await rows.note_arrived(source, target, self._shard, self._mover):
                    raise self._somebody_else()
                self._told(Step.COPY, _told_counts(counts))

    async def _copy_rest(
        self, source: asyncpg.Connection, target: asyncpg.Connection, since: datetime
    ) -> dict[str, int]:
        """What has not been copied ahead, of tables and of late history; returns how many rows."""
        await rows.let_pass(target)
        counts = {table: await changes.follow(source, target, table, self._shard, self._ahead) for table in rows.LIVE}
        return counts | {"history": await rows.copy_late_history(source, target, self._shard, since)}

    async def _leave(self) -> None:
        self._told(Step.LEAVE, "")
        async with self._source.connection() as connection:
            taken = await rows.hold(connection, self._shard, self._numbers[1], self._mover)
            if not taken or not await rows.leave(connection, self._shard, self._mover):
                raise self._somebody_else()

    async def _arrive(self) -> None:
        """The fence of the target, if the shard once left it, is taken away first: its rows are the target's already."""
        self._told(Step.ARRIVE, "")
        source, _ = await self._standings()
        async with self._target.connection() as connection:
            await self._fence(connection, but=self._shard)
        async with self._target.transaction() as connection:
            if await rows.arrive(connection, self._shard, source.term):
                before, after = (msgspec.json.encode({"database": name}).decode() for name in self._names)
                await audit.record(connection, _ACTOR, "move", "shard", str(self._shard), before, after)

    async def _clear(self) -> None:
        self._told(Step.CLEAR, "")
        await asyncio.sleep(GRACE_S)
        async with self._both() as (source, target):
            for stretch in await rows.stretches(source, None, rows.LAST):
                async with target.transaction():
                    await rows.copy_logs(source, target, self._shard, stretch)
                async with source.transaction():
                    await rows.delete_stretch(source, self._shard, stretch)
            async with source.transaction():
                await rows.purge(source, self._shard)
                await rows.note_gone(source, self._shard)

    async def _undo(self) -> None:
        """The source works on: it refuses nothing any more, and then its row says so."""
        self._told(Step.UNDO, "")
        async with self._source.connection() as connection:
            if not await rows.hold(connection, self._shard, self._numbers[1], self._mover):
                raise self._somebody_else()
            await self._fence(connection, but=self._shard)
            if not await rows.stay(connection, self._shard, self._mover):
                raise self._somebody_else()

    async def _fence(self, connection: asyncpg.Connection, but: int | None = None) -> None:
        """Table by table, so that no writer of several tables can be locked out by us and we by it."""
        for table in rows.FENCED:
            for tries_left in reversed(range(FENCE_TRIES)):
                try:
                    await rows.fence(connection, table, but)
                    break
                except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
                    if not tries_left:
                        raise errors.UnavailableError(
                            f"table {table} is held by a long transaction: end it, and call again"
                        ) from error
                    await asyncio.sleep(RENEW_EVERY_S / 10)

    @asynccontextmanager
    async def _both(self) -> AsyncIterator[tuple[asyncpg.Connection, asyncpg.Connection]]:
        async with self._source.connection() as source, self._target.connection() as target:
            yield source, target

    @asynccontextmanager
    async def _renewed(self, database: object) -> AsyncIterator[None]:
        """Show that this mover is alive, by the row in one of the two databases, beside what is being done."""
        where = self._source if database is self._source else self._target

        async def renew() -> None:
            while True:
                await asyncio.sleep(RENEW_EVERY_S)
                async with where.connection() as connection:
                    await rows.keep_lease(connection, self._shard, self._mover)

        task = asyncio.create_task(renew(), name="mover_lease")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _somebody_else(self) -> errors.ConflictError:
        return errors.ConflictError(f"shard {self._shard} is being moved by somebody else right now")


def _told_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {table}" for table, count in counts.items())


_ACTOR = job.Actor("default", "horarium shards move", roles.Role.ADMIN)


def route(databases: Databases, shard: int, to: str) -> tuple[int, int] | None:
    """(source, target) as places, of a move that is to begin or to go on; None when nothing is left to do.

    Raises NotFoundError for a database or a shard that there is not, ConflictError when the shard is on another way.
    """
    if to not in databases.names:
        raise errors.NotFoundError(f"there is no database {to!r}; there are {', '.join(databases.names)}")
    found = databases.states()
    silent = [name for name in databases.names if name not in found]
    if silent:
        raise errors.UnavailableError(f"databases {', '.join(silent)} cannot be asked")
    target = databases.names.index(to)
    stands = {place: found[name].shards.get(shard) for place, name in enumerate(databases.names)}
    sources = [place for place, state in stands.items() if place != target and state in (State.LEAVING, State.LEFT)]
    sources += [place for place, state in stands.items() if place != target and state is State.HERE]
    if sources:
        return sources[0], target
    if stands[target] is State.LEAVING:
        raise errors.ConflictError(f"shard {shard} is leaving database {to} right now; finish that move first")
    if stands[target] is not State.HERE:
        raise errors.NotFoundError(f"there is no shard {shard}")
    return None
