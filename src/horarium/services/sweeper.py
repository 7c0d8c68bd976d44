"""The sweep: memory against the rows of the led shards. So a run can be stuck for seconds, never for ever.

A waiting row that memory does not know is taken up; a row that runs under a token that memory does not know gets one fresh
lease; what memory holds without a row is dropped. Each find is told, since it means a fault elsewhere. Runs move on while
their rows travel, so whatever differs at the first look is looked at a second time before it counts as a find.

After a take-over what has begun is loaded by itself, and comes first. Then, and when memory was full, the same walk takes up what
is there, and nothing of it is a find. A few seconds after a take-over the shards are looked at once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from uuid import UUID

import asyncpg

from horarium import clock as clocks
from horarium.domain.lanes import LaneName
from horarium.domain.run import LiveRun, Phase, overlap_for
from horarium.domain.states import RUNNING
from horarium.events import Events, Name
from horarium.services.leader import Leader
from horarium.store import runs
from horarium.store.database import Database

ROWS_AT_ONCE = 5_000
REFILL_EVERY_S = 0.2
IDLE_S = 60.0
QUIET_S = 1.0
FEW_RUNS = 10_000
NOTICED_AFTER_S = 3.5  # a lease and a little: whoever led before knows by then that it does not any more
MOST_INTERVALS = 4
START = UUID(int=0)
WAITING_PHASES = (Phase.WHEEL, Phase.LANE, Phase.HELD)


class Sweeper:
    """Keeps the leader's memory true to the rows."""

    def __init__(self, database: Database, leader: Leader, events: Events, interval_s: float) -> None:
        self._database = database
        self._leader = leader
        self._events = events
        self._interval_s = interval_s
        self.rows_at_once = ROWS_AT_ONCE
        self._filling = 0
        self._unreached: set[int] = set()
        self._losses = 0
        self._quiet_at: float | None = None
        self._taken_at: dict[int, float] = {}

    async def run_once(self) -> float:
        """One sweep over all led shards; the pause grows with its cost, to four times the usual one."""
        if not self._leader.terms:
            return self._interval_s
        started = self._leader.clock.monotonic()
        loaded = set(self._leader.terms) - self._leader.loading
        if self._leader.ready.overflowed or self._filling:
            await self._take_up_all(loaded)
        else:
            await self._sweep(loaded)
        self._leader.on_ready()
        took = self._leader.clock.monotonic() - started
        return min(max(self._interval_s, 20 * took), MOST_INTERVALS * self._interval_s)

    async def refill_once(self) -> float:
        """When memory was full and has room again: take up rows that waited in the table; while it is full, those of short lanes.

        After broken connections: sweep.
        """
        ready = self._leader.ready
        if ready.overflowed and len(ready) < ready.capacity / 2:
            self._filling += 1
            try:
                await self._take_up_all(set(self._leader.terms))
            finally:
                self._filling -= 1
            self._leader.on_ready()
        await self._take_up_short_lanes()
        await self._sweep_after_losses()
        await self._sweep_after_take_over()
        return REFILL_EVERY_S

    async def _sweep_after_losses(self) -> None:
        """Connections broke, and with them perhaps the answers to commits: once it is quiet, look rather than wait."""
        now = self._leader.clock.monotonic()
        if self._database.losses != self._losses:
            self._losses, self._quiet_at = self._database.losses, now + QUIET_S
        elif self._quiet_at is not None and now >= self._quiet_at:
            self._quiet_at = None
            await self.run_once()

    async def load(self, shards: set[int]) -> None:
        """After a take-over: take up what has begun in these shards, so that leases and overlap rules go on at once."""
        async with self._database.connection() as connection:
            rows = await runs.load_begun(connection, list(shards))
        for row in rows:
            self._adopt(row)
        self._leader.on_ready()

    async def fill(self, shards: set[int]) -> None:
        """After `load`: take up what waits in these shards, with a pause after each page as long as it took.

        Who changes leaders because it is overloaded is given room for the rest.
        """
        await self._take_up_all(shards, pause=1.0)
        self._taken_at.update(dict.fromkeys(shards, self._leader.clock.monotonic()))
        self._leader.on_ready()

    async def _sweep_after_take_over(self) -> None:
        """A leader that was cut off hears of new runs and timers until it notices, a lease later; then look at what it heard.

        Not where very many runs wait: who changes leaders because it is overloaded is not to be given more to do, and what is
        new waits behind the others anyhow.
        """
        before = self._leader.clock.monotonic() - NOTICED_AFTER_S
        ripe = {shard for shard, at in self._taken_at.items() if at <= before}
        if ripe and not (self._leader.ready.overflowed or self._filling):
            if len(self._leader.ready) <= FEW_RUNS:
                led = {shard for shard in ripe if self._leader.leads(shard)}
                await self._sweep(led - self._leader.loading, is_expected=True)
            self._taken_at = {shard: at for shard, at in self._taken_at.items() if shard not in ripe}
            self._leader.rescan(ripe)
            self._leader.on_ready()

    async def follow_edits(self) -> float:
        """After edits: the jobs' waiting runs in memory follow their rows in queue, priority, target and overlap rule."""
        while self._leader.edited:
            job_id = self._leader.edited.pop()
            try:
                async with self._database.connection() as connection:
                    rows = await runs.load_of_job(connection, job_id)
            except BaseException:
                self._leader.edited.add(job_id)
                raise
            for row in rows:
                self._follow(row)
        return IDLE_S

    def _follow(self, row: asyncpg.Record) -> None:
        ready = self._leader.ready
        run = ready.runs.get(row["id"])
        if run is None:
            self._adopt(row)
            return
        if row["state"] != RUNNING and run.phase in WAITING_PHASES:
            ready.relabel(run, row["queue"], row["target_key"], row["priority"])
        ready.obey(ready.runs[run.id], overlap_for(row["trigger"], row["overlap"]))

    async def _take_up_all(self, shards: set[int], pause: float = 0.0) -> None:
        """Take up what is there in some shards, until memory is full. `pause`: see `_walk`."""
        ready = self._leader.ready
        ready.overflowed = False
        async for _ in self._walk(shards, pause=pause):
            if ready.overflowed:
                self._unreached |= shards
                return

    async def _take_up_short_lanes(self) -> None:
        """Take up what a walk has not reached since memory was full: of the lanes that are let in all the same.

        Which those are is known when runs have become ready, a moment after a walk.
        """
        ready = self._leader.ready
        if not self._unreached or not ready.crowded():
            return
        shards, self._unreached = self._unreached & set(self._leader.terms), set()
        async for _ in self._walk(shards, but=ready.crowded):
            pass

    async def _walk(
        self, shards: set[int], *, but: Callable[[], Sequence[LaneName]] = tuple, pause: float = 0.0
    ) -> AsyncIterator[None]:
        """Take up rows of some shards by key, a page at a time, without what waits in some lanes.

        What is taken up may start while the walk goes on. `pause` is how long nothing is asked for after a page, in times of
        what the page took.
        """
        cursor: UUID | None = START
        while cursor is not None:
            began = self._leader.clock.monotonic()
            rows, cursor = await self._page(shards, cursor, but())
            for row in rows:
                self._adopt(row)
            self._leader.on_ready()
            yield
            if cursor is not None and pause:
                await asyncio.sleep(pause * (self._leader.clock.monotonic() - began))

    async def _sweep(self, shards: set[int], *, is_expected: bool = False) -> None:
        """The first look, over all rows; then the second one, at what differed. What is expected is mended and not told."""
        unseen = {run.id for run in self._leader.ready.runs.values() if run.shard in shards}
        doubtful: list[UUID] = []
        cursor: UUID | None = START
        while cursor is not None:
            rows, cursor = await self._page(shards, cursor)
            unseen.difference_update(row["id"] for row in rows)
            doubtful += [row["id"] for row in rows if self._differs(row)]
        rows = await self._look_again([*doubtful, *unseen])
        taken_up = sum(self._adopt(row) for row in rows)
        dropped = self._drop(unseen.difference(row["id"] for row in rows))
        if (taken_up or dropped) and not is_expected:
            self._events.tell(Name.SWEEP_FOUND, taken_up=taken_up, dropped=dropped)

    async def _page(
        self, shards: set[int], after: UUID, but: Sequence[LaneName] = ()
    ) -> tuple[list[asyncpg.Record], UUID | None]:
        """Live rows by key, without what waits in some lanes, and the cursor of the next page; None after the last one."""
        async with self._database.connection() as connection:
            rows = await runs.load(connection, list(shards), after, self.rows_at_once, but)
        return rows, rows[-1]["id"] if len(rows) == self.rows_at_once else None

    async def _look_again(self, ids: list[UUID]) -> list[asyncpg.Record]:
        rows: list[asyncpg.Record] = []
        for start in range(0, len(ids), self.rows_at_once):
            async with self._database.connection() as connection:
                rows += await runs.load_by_id(connection, ids[start : start + self.rows_at_once])
        return rows

    def _differs(self, row: asyncpg.Record) -> bool:
        """Whether memory holds a run otherwise than its row."""
        run = self._leader.ready.runs.get(row["id"])
        if run is None:
            return True
        if row["cancel_requested_at"] is not None:
            self._leader.ready.leases.request_cancel(run.id, self._leader.clock.monotonic())
        if row["state"] == RUNNING:
            # A claim whose answer was lost: the row runs under a token that memory has never seen.
            return run.phase in WAITING_PHASES and row["fencing_token"] > run.token
        # The end of an attempt whose answer was lost: the row waits again.
        return run.phase is Phase.RUNNING and row["fencing_token"] >= run.token

    def _adopt(self, row: asyncpg.Record) -> bool:
        """Make memory hold a run as its row does; True when it did not."""
        if not self._differs(row):
            return False
        run = self._leader.ready.runs.get(row["id"])
        if run is not None and row["state"] != RUNNING:
            self._leader.ready.wait_again(run.id, clocks.to_seconds(row["ready_at"]), row["attempt"])
            return True
        return self._take_up(row)

    def _take_up(self, row: asyncpg.Record) -> bool:
        if not self._leader.leads(row["shard"]):
            return False
        run = LiveRun(
            row["id"],
            row["job_id"],
            row["shard"],
            row["tenant_id"],
            row["queue"],
            row["target_key"],
            row["priority"],
            clocks.to_seconds(row["ready_at"]),
            overlap_for(row["trigger"], row["overlap"]),
            row["attempt"],
        )
        run.token = row["fencing_token"]
        if row["state"] != RUNNING:
            return self._leader.ready.add(run)
        now = self._leader.clock.monotonic()
        ran = max(0.0, (self._leader.clock.now() - row["started_at"]).total_seconds()) if row["started_at"] else 0.0
        left = max(self._leader.ready.leases.lease_s, row["timeout_s"] - ran)
        self._leader.ready.add_running(run, row["worker_id"] or "", row["fencing_token"], left, now)
        if row["cancel_requested_at"] is not None:
            self._leader.ready.leases.request_cancel(run.id, now)
        return True

    def _drop(self, ids: Iterable[UUID]) -> int:
        """Forget runs that have no row any more, save those whose claim is on its way: that will tell."""
        ready = self._leader.ready
        stale = [run for run_id in ids if (run := ready.runs.get(run_id)) and run.phase is not Phase.CLAIMING]
        for run in stale:
            ready.gone(run.id)
        return len(stale)
