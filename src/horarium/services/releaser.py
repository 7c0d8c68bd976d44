"""Step 3 of a run's life: its instant comes. Out of the wheel into its lane, under its job's overlap rule.

Most ticks cost no SQL here. A tick that the overlap rule does not start leaves `runs` and is written to `skips` in one
transaction.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from uuid import UUID

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
        self._ending = asyncio.Event()

    def release(self, early_s: float) -> None:
        """Move what is ready into the lanes; runs may be released `early_s` seconds before their instant."""
        released = self._leader.ready.release(self._leader.clock.time(), early_s)
        if released.skipped or released.coalesced or released.to_cancel:
            task = asyncio.create_task(self._carry_out(released), name="overlap")
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    def under_way(self) -> list[asyncio.Future[None]]:
        """The ticks that are being written as skipped or coalesced."""
        return [*self._under_way]

    async def settle(self) -> None:
        """Wait for what is under way. What cannot be written now is left to the next leader: its rows wait still."""
        self._ending.set()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _carry_out(self, released: Released) -> None:
        """Until it is written: a tick in limbo would be neither run nor skip."""
        while not await self._written(released) and not self._ending.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(TRY_AGAIN_S):
                    await self._ending.wait()

    async def _written(self, released: Released) -> bool:
        try:
            await self._write(released)
        except errors.UnavailableError:
            return False
        except Exception as error:  # noqa: BLE001 - told, and tried again
            self._events.tell(Name.DUTY_FAILED, duty="releaser", error=f"{type(error).__name__}: {error}")
            return False
        return True

    async def _write(self, released: Released) -> None:
        stands_for = _latest(released.coalesced)
        given_up = [*released.skipped, *(older for older, _ in released.coalesced)]
        async with self._database.transaction() as connection:
            dropped = await runs.drop_waiting(connection, [run.id for run in given_up], self._leader.named_terms())
            rows = [_skip_row(tick, stands_for.get(tick.id)) for tick in dropped]
            await skips.insert(connection, rows)
            asked = await runs.request_cancel(connection, [run.id for run in released.to_cancel], ASKED_BY)
        for run in given_up:
            self._leader.ready.gone(run.id)
        self._leader.cancel_requested(asked)
        for row in rows:
            self._events.tell(
                Name.TICKS_SKIPPED, job_id=row.job_id, count=row.count, reason=row.reason, tenant=row.tenant_id
            )


def _latest(coalesced: list[tuple[LiveRun, LiveRun]]) -> dict[UUID, UUID]:
    """For each older run the one that runs for it: of a chain that came due at once, the last."""
    found: dict[UUID, UUID] = {}
    for older, newer in reversed(coalesced):
        found[older.id] = found.get(newer.id, newer.id)
    return found


def _skip_row(tick: runs.Retracted, coalesced_into: UUID | None) -> skips.SkipRow:
    return skips.SkipRow(
        tick.job_id,
        tick.tenant_id,
        tick.shard,
        tick.scheduled_for,
        tick.scheduled_for,
        1,
        True,
        "coalesced" if coalesced_into else "overlap",
        coalesced_into,
    )
