"""The sweep: memory against the rows of the led shards. So a run can be stuck for seconds, never for ever.

The same walk loads memory after a take-over. A waiting row that memory does not know is taken up; a row that runs under a token
that memory does not know gets one fresh lease; what memory holds without a row is dropped. After a take-over finds are
expected; later each is told, since it means a fault elsewhere.
"""

from __future__ import annotations

from uuid import UUID

import asyncpg

from horarium import clock as clocks
from horarium.domain.run import LiveRun, Phase, overlap_for
from horarium.domain.states import RUNNING
from horarium.events import Events, Name
from horarium.services.leader import Leader
from horarium.store import runs
from horarium.store.database import Database

ROWS_AT_ONCE = 5_000
REFILL_EVERY_S = 0.2
IDLE_S = 60.0
START = UUID(int=0)


class Sweeper:
    """Keeps the leader's memory true to the rows."""

    def __init__(self, database: Database, leader: Leader, events: Events, interval_s: float) -> None:
        self._database = database
        self._leader = leader
        self._events = events
        self._interval_s = interval_s

    async def run_once(self) -> float:
        """One sweep over all led shards; the pause grows with its cost."""
        if not self._leader.terms:
            return self._interval_s
        started = self._leader.clock.monotonic()
        refill = self._leader.ready.overflowed
        found, dropped = await self._sweep(set(self._leader.terms))
        if (found and not refill) or dropped:
            self._events.tell(Name.SWEEP_FOUND, taken_up=found, dropped=dropped)
        self._leader.on_ready()
        return max(self._interval_s, 20 * (self._leader.clock.monotonic() - started))

    async def refill_once(self) -> float:
        """When memory was full and has room again: take up rows that waited in the table."""
        ready = self._leader.ready
        if ready.overflowed and len(ready) < ready.capacity / 2:
            await self._sweep(set(self._leader.terms))
            self._leader.on_ready()
        return REFILL_EVERY_S

    async def load(self, shards: set[int]) -> None:
        """After a take-over: take up everything that lives in these shards."""
        await self._sweep(shards)
        self._leader.on_ready()

    async def follow_edits(self) -> float:
        """After edits: the jobs' waiting runs in memory follow their rows in queue, priority, target and overlap rule."""
        while self._leader.edited:
            job_id = next(iter(self._leader.edited))
            async with self._database.connection() as connection:
                rows = await runs.load_of_job(connection, job_id)
            self._leader.edited.discard(job_id)
            for row in rows:
                self._follow(row)
        return IDLE_S

    def _follow(self, row: asyncpg.Record) -> None:
        run = self._leader.ready.runs.get(row["id"])
        if run is None:
            self._compare(row)
            return
        self._leader.ready.obey(run, overlap_for(row["trigger"], row["overlap"]))
        if row["state"] != RUNNING and run.phase in (Phase.WHEEL, Phase.LANE, Phase.HELD):
            self._leader.ready.relabel(run, row["queue"], row["target_key"], row["priority"])

    async def _sweep(self, shards: set[int]) -> tuple[int, int]:
        """Returns how many rows were taken up, and how many runs were dropped from memory."""
        ready = self._leader.ready
        ready.overflowed = False
        known = [run for run in ready.runs.values() if run.shard in shards]
        for run in known:
            run.seen = False
        found, cursor, complete = 0, START, False
        while not complete and not ready.overflowed:
            async with self._database.connection() as connection:
                rows = await runs.load(connection, list(shards), cursor, ROWS_AT_ONCE)
            found += sum(self._compare(row) for row in rows)
            complete = len(rows) < ROWS_AT_ONCE
            cursor = rows[-1]["id"] if rows else cursor
        return found, self._drop_unseen(known) if complete else 0

    def _compare(self, row: asyncpg.Record) -> bool:
        """Hold one row against memory; True when memory did not know it."""
        run = self._leader.ready.runs.get(row["id"])
        if run is None:
            return self._take_up(row)
        run.seen = True
        if row["cancel_requested_at"] is not None:
            self._leader.ready.leases.request_cancel(run.id, self._leader.clock.monotonic())
        if row["state"] == RUNNING:
            # A claim whose answer was lost: the row runs under a token that memory has never seen.
            if row["fencing_token"] > run.token and run.phase in (Phase.LANE, Phase.WHEEL, Phase.HELD):
                self._leader.ready.gone(run.id)
                return self._take_up(row)
        elif run.phase is Phase.RUNNING and row["fencing_token"] >= run.token:
            # The end of an attempt whose answer was lost: the row waits again.
            self._leader.ready.wait_again(run.id, clocks.to_seconds(row["ready_at"]), row["attempt"])
            return True
        return False

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

    def _drop_unseen(self, known: list[LiveRun]) -> int:
        """Forget runs that were in memory before the sweep began and have no row any more."""
        ready = self._leader.ready
        stale = [
            run for run in known if not run.seen and ready.runs.get(run.id) is run and run.phase is not Phase.CLAIMING
        ]
        for run in stale:
            ready.gone(run.id)
        return len(stale)
