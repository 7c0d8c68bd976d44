"""Step 3 of a run's life: its instant comes. Out of the wheel into its lane, under its job's overlap rule.

Most ticks cost no SQL here. A tick that the overlap rule does not start leaves `runs` and is written to `skips` in one
transaction.
"""

from __future__ import annotations

import asyncio

from horarium import errors
from horarium.domain.ready_set import Released
from horarium.domain.run import LiveRun
from horarium.events import Events, Name
from horarium.services.leader import Leader
from horarium.store import runs, skips
from horarium.store.database import Database

ASKED_BY = "overlap rule cancel_running"
TRY_AGAIN_S = 0.5


class Releaser:
    """Releases runs whose instant has come, and carries out what the overlap rule says of the others."""

    def __init__(self, database: Database, leader: Leader, events: Events) -> None:
        self._database = database
        self._leader = leader
        self._events = events
        self._under_way: set[asyncio.Task[None]] = set()

    def release(self, early_s: float) -> None:
        """Move what is ready into the lanes; runs may be released `early_s` seconds before their instant."""
        released = self._leader.ready.release(self._leader.clock.time(), early_s)
        if released.skipped or released.coalesced or released.to_cancel:
            task = asyncio.create_task(self._carry_out(released), name="overlap")
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def settle(self) -> None:
        """Wait for what is under way."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _carry_out(self, released: Released) -> None:
        """Until it is written: a tick in limbo would be neither run nor skip."""
        while True:
            try:
                await self._write(released)
                return
            except errors.UnavailableError:
                await asyncio.sleep(TRY_AGAIN_S)

    async def _write(self, released: Released) -> None:
        stands_for: dict[LiveRun, LiveRun] = dict(released.coalesced)
        given_up = [*released.skipped, *stands_for]
        async with self._database.transaction() as connection:
            dropped = await runs.drop_waiting(connection, [run.id for run in given_up], self._leader.named_terms())
            rows = [self._skip_row(tick, stands_for) for tick in dropped]
            await skips.insert(connection, rows)
            asked = await runs.request_cancel(connection, [run.id for run in released.to_cancel], ASKED_BY)
        for run in given_up:
            self._leader.ready.gone(run.id)
        self._leader.cancel_requested(asked)
        for row in rows:
            self._events.tell(
                Name.TICKS_SKIPPED, job_id=row.job_id, count=row.count, reason=row.reason, tenant=row.tenant_id
            )

    @staticmethod
    def _skip_row(tick: runs.Retracted, stands_for: dict[LiveRun, LiveRun]) -> skips.SkipRow:
        newer = next((new for old, new in stands_for.items() if old.id == tick.id), None)
        return skips.SkipRow(
            tick.job_id,
            tick.tenant_id,
            tick.shard,
            tick.scheduled_for,
            tick.scheduled_for,
            1,
            True,
            "coalesced" if newer else "overlap",
            newer.id if newer else None,
        )
