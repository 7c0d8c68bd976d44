"""The duties of one node, put together: what the leader of some shards does from its first look to an orderly end.

shard_owner   which shards are ours            every second
              handing surplus ones over        at once
scheduler     2  its time comes near           every second, at once after a poke
dispatcher    3  its instant comes (releaser)
              4  a worker asks                 at the instant
completer     6  it ends                       at once
reaper        7  its worker dies               every half second
pruner        8  it is forgotten               every ten minutes
sweeper       memory against rows              every thirty seconds, and after a take-over
rearmer       clock steps, new zone data       after a take-over or a step
registry, tally, watch                         every ten seconds
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from horarium import clock as clocks
from horarium import errors
from horarium.domain.ready_set import ReadySet
from horarium.events import Events
from horarium.services.completer import Completer
from horarium.services.dispatcher import Dispatcher
from horarium.services.leader import Leader
from horarium.services.live_view import LeaderView
from horarium.services.loop import Loop, Step
from horarium.services.pruner import Pruner
from horarium.services.reaper import Reaper
from horarium.services.rearmer import Rearmer
from horarium.services.registry import Node, Registry
from horarium.services.releaser import Releaser
from horarium.services.scheduler import Scheduler
from horarium.services.shard_owner import ShardOwner
from horarium.services.sweeper import Sweeper
from horarium.services.tally import Tally
from horarium.services.watch import Watch
from horarium.store.database import Database

LEASE_CONNECT_S = 1.0
HAND_OVER_WITHIN_S = 1.0
LAST_WORD_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Timing:
    """The durations that the duties go by."""

    lookahead: timedelta = timedelta(seconds=10)
    lease: timedelta = timedelta(seconds=15)
    early_claim: timedelta = timedelta(milliseconds=100)
    sweep: timedelta = timedelta(seconds=30)
    history: timedelta = timedelta(days=30)
    snapshot_alarm: timedelta = timedelta(minutes=10)


class ControlPlane:
    """All duties of a node around one leader's memory."""

    def __init__(
        self, database: Database, node: Node, events: Events, timing: Timing, max_ready: int = 200_000
    ) -> None:
        self.database = database
        self.events = events
        self.clock = clocks.DatabaseClock()
        ready = ReadySet(lease_s=timing.lease.total_seconds(), capacity=max_ready)
        self.leader = Leader(self.clock, ready)
        self.scheduler = Scheduler(database, self.leader, events, timing.lookahead)
        self.releaser = Releaser(database, self.leader, events)
        self.dispatcher = Dispatcher(database, self.leader, self.releaser, events, timing.early_claim)
        self.completer = Completer(database, self.leader, events)
        self.reaper = Reaper(database, self.leader, self.completer, events)
        self.sweeper = Sweeper(database, self.leader, events, timing.sweep.total_seconds())
        self.lease_database = database.another(pool_size=1, connect_timeout_s=LEASE_CONNECT_S)
        self.owner = ShardOwner(self.lease_database, self.leader, self.clock, events, node)
        self.rearmer = Rearmer(database, self.leader, events)
        self.pruner = Pruner(database, self.leader, events, timing.history)
        self.registry = Registry(database, self.leader, node)
        self.tally = Tally(database, self.leader)
        self.watch = Watch(database, self.leader, events, timing.snapshot_alarm)
        self.view = LeaderView(self.leader)
        self._loops = {
            name: Loop(name, step, events)
            for name, step in {
                "shard_owner": self.owner.run_once,
                "load": self.owner.load_once,
                "fill": self.owner.fill_once,
                "hand_over": self.owner.hand_over_once,
                "scheduler": self.scheduler.run_once,
                "reaper": self.reaper.run_once,
                "leases": self.reaper.refresh_once,
                "sweeper": self.sweeper.run_once,
                "refill": self.sweeper.refill_once,
                "edits": self.sweeper.follow_edits,
                "rearmer": self.rearmer.run_once,
                "partitions": self.pruner.make_partitions_once,
                "pruner": self.pruner.run_once,
                "registry": self.registry.run_once,
                "tally": self.tally.run_once,
                "watch": self.watch.run_once,
            }.items()
        }
        self._connect()

    def add_duty(self, name: str, step: Step) -> None:
        """Another duty of this node, before it starts."""
        self._loops[name] = Loop(name, step, self.events)

    async def start(self, *, patient: bool = False) -> None:
        """Measure the clock, take what shards are free, load them, and start all loops.

        `patient`: a database that cannot be asked yet stops nobody; its duties begin when it answers.
        """
        try:
            await self.lease_database.open()
            await self.owner.run_once()
            await self.owner.load_once()
        except errors.UnavailableError:
            if not patient:
                raise
        for loop in self._loops.values():
            loop.start()
        self.dispatcher.start()

    async def drain(self) -> None:
        """Hand out no more runs, and give the shards to others at once; reports are still taken in."""
        await self.dispatcher.stop()
        with suppress(errors.UnavailableError, TimeoutError):  # then the leases end by themselves
            async with asyncio.timeout(LAST_WORD_WITHIN_S):
                await self.owner.leave()

    async def stop(self) -> None:
        """End in order: shards are given back, what is under way is finished."""
        await self.drain()
        for loop in self._loops.values():
            await loop.stop()
        await self.releaser.settle()
        await self.completer.settle()
        try:
            async with asyncio.timeout(LAST_WORD_WITHIN_S):
                await self.tally.run_once()
        except (errors.UnavailableError, TimeoutError):
            return  # what was not counted is missing from the pictures, not from the history
        finally:
            await self.lease_database.close()

    def unready(self) -> list[str]:
        """What keeps this node from its work; nothing when all is well: then it leads shards, or others lead them all."""
        division = self.owner.division
        if self.leader.terms or (division.leaders and all(map(division.leader_of, division.leaders))):
            return []
        return ["this node leads no shard yet, and not all are led by others"]

    def warnings(self) -> list[str]:
        """What is not as it should be, and keeps this node from nothing yet."""
        return self.watch.warnings()

    def look_now(self) -> None:
        """Renew, look and take now rather than at the end of the second."""
        self._loops["shard_owner"].wake()

    def _connect(self) -> None:
        """Who wakes whom."""
        self.leader.on_timers = self._loops["scheduler"].wake
        self.leader.on_ready = self.dispatcher.wake
        self.leader.on_edited = self._loops["edits"].wake
        self.owner.load = self.sweeper.load
        self.owner.fill = self.sweeper.fill
        self.owner.settle = self._writes_end
        self.owner.on_surplus = self._loops["hand_over"].wake
        self.owner.on_step = self._stepped
        self.owner.on_taken = self._loops["load"].wake
        self.owner.on_loaded = self._loaded
        self.dispatcher.give_back = self.completer.give_back
        self.dispatcher.refuse = self.completer.refuse
        self.reaper.on_silent = self.dispatcher.dismiss
        self.completer.on_ended = self.tally.ended

    async def _writes_end(self) -> None:
        """Wait until what is being written now has ended, so that the next leader of a shard loads it as it is.

        A write that takes longer than a second is not waited for: it still counts or fails by its own condition.
        """
        resting = asyncio.create_task(self._loops["scheduler"].rest())
        writes = {
            resting,
            *self.dispatcher.under_way(),
            *self.completer.under_way(),
            *self.releaser.under_way(),
        }
        await asyncio.wait(writes, timeout=HAND_OVER_WITHIN_S)
        resting.cancel()

    def _loaded(self) -> None:
        self._loops["fill"].wake()
        self._loops["rearmer"].wake()

    def _stepped(self, seconds: float) -> None:
        self.leader.rescan()
        self.dispatcher.wake()
        self._loops["rearmer"].wake()
