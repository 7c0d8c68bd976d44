"""Timers set anew: after a large backward step of the database's clock (rule M4), and under newer zone data (rule Z1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from horarium import clock as clocks
from horarium.domain import firing, schedule, zones
from horarium.domain.firing import CLOCK_STEP, Planner
from horarium.events import Events, Name
from horarium.services.leader import Leader
from horarium.store import past_schedules, timers
from horarium.store.database import Database
from horarium.store.timers import TimerRow

ROWS_AT_ONCE = 1_000
IDLE_S = 3600.0
START = UUID(int=0)


class Rearmer:
    """Runs once after each take-over and each step of the clock; `wanted` says that there may be something to do."""

    def __init__(self, database: Database, leader: Leader, events: Events) -> None:
        self._database = database
        self._leader = leader
        self._events = events
        self._planner = Planner()

    async def run_once(self) -> float:
        """Look at all timers of the led shards once; then again when the loop is woken."""
        if not self._leader.terms:
            return 1.0
        rearmed = await self._rearm()
        recomputed = await self._recompute()
        if rearmed:
            self._events.tell(Name.CLOCK_STEPPED, rearmed=rearmed)
        if rearmed or recomputed:
            self._leader.rescan()
        return IDLE_S

    async def _rearm(self) -> int:
        """Jobs whose last handled tick lies more than three hours ahead: the clock was set back. From now on, anew."""
        cursor, total = START, 0
        while True:
            now = self._leader.clock.now()
            async with self._database.transaction() as connection:
                rows = await timers.select_handled_ahead(
                    connection, list(self._leader.terms), now + CLOCK_STEP, cursor, ROWS_AT_ONCE
                )
                times = {row.job_id: tick for row in rows if (tick := self._next_tick(row, now)) is not None}
                await timers.rearm(connection, times)
                again = [
                    past_schedules.Unknown(row.job_id, row.shard, now, row.last_scheduled_for or now) for row in rows
                ]
                await past_schedules.leave_open(connection, again)
            total += len(times)
            if len(rows) < ROWS_AT_ONCE:
                return total
            cursor = rows[-1].job_id

    def _next_tick(self, row: TimerRow, now: datetime) -> firing.Tick | None:
        try:
            return self._planner.next_tick(row.job_id, row.schedule_key, now)
        except Exception:  # noqa: BLE001 - the scheduler marks that job when its time comes (rule N2)
            return None

    async def _recompute(self) -> int:
        """Timers computed with older zone data: the next time after the last one that was handled."""
        version, cursor, total = zones.data_version(), START, 0
        while True:
            now = self._leader.clock.now()
            async with self._database.transaction() as connection:
                rows = await timers.select_other_zone_version(
                    connection, list(self._leader.terms), version, cursor, ROWS_AT_ONCE
                )
                moved = [change for row in rows if (change := _change(row, now)) is not None]
                await timers.recompute(connection, moved, version)
                await past_schedules.leave_open(connection, _told_otherwise(rows, moved, now))
                one_offs = [change for change in moved if change.schedule_key.startswith(firing.ONE_OFF)]
                await timers.relocate_one_offs(connection, {each.job_id: each.next_scheduled_for for each in one_offs})
            total += len(moved)
            if len(rows) < ROWS_AT_ONCE:
                return total
            cursor = rows[-1].job_id


def _told_otherwise(
    rows: Sequence[TimerRow], changes: Sequence[timers.Recomputed], now: datetime
) -> list[past_schedules.Unknown]:
    """Jobs whose next time is another one under the new zone data: their ticks until now cannot be told by these."""
    moved = {each.job_id for each in changes if each.next_scheduled_for != each.scheduled_for}
    return [
        past_schedules.Unknown(row.job_id, row.shard, clocks.EPOCH, max(now, row.last_scheduled_for or now))
        for row in rows
        if row.job_id in moved
    ]


def _change(row: TimerRow, now: datetime) -> timers.Recomputed | None:
    """Where a timer stands under the zone data in use; None when that cannot be said, or when there is no next time."""
    try:
        decoded = _relocated(schedule.decode(row.schedule_key))
        nominal = firing.recompute(decoded, row.last_scheduled_for, row.scheduled_for, now)
        if nominal is None:
            return None
        due = schedule.due_time(row.job_id, nominal, decoded, schedule.next_fire(decoded, nominal))
    except Exception:  # noqa: BLE001 - a zone that vanished: the scheduler marks that job when its time comes (rule Z3)
        return None
    return timers.Recomputed(row.job_id, row.scheduled_for, nominal, due, schedule.encode(decoded))


def _relocated(decoded: schedule.Schedule) -> schedule.Schedule:
    """A one-off that was given as wall time is looked up anew (rule Z2)."""
    if isinstance(decoded.timing, schedule.Once):
        return replace(decoded, timing=schedule.relocate(decoded.timing))
    return decoded
