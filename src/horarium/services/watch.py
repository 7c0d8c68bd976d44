"""Watches what no event tells: open dead letters, timers that should have been fired and were not, and old snapshots.

Somebody's forgotten transaction keeps vacuum from taking away what has died; tables that are written all the time swell, and
everything slows down, hours later and elsewhere. So it is told when it has lasted for some minutes, with who it is.
"""

from __future__ import annotations

from datetime import timedelta

from horarium.events import Events, Name
from horarium.services.leader import Leader
from horarium.store import dead_letters, diagnosis, timers
from horarium.store.database import Database
from horarium.store.diagnosis import Holder

LOOK_EVERY_S = 10.0
OVERDUE = timedelta(seconds=5)
COUNT_BOUND = 10_000


class Watch:
    """Figures for `/metrics`, some seconds old; `snapshot_alarm` is the age from which a snapshot is told of."""

    def __init__(self, database: Database, leader: Leader, events: Events, snapshot_alarm: timedelta) -> None:
        self._database = database
        self._leader = leader
        self._events = events
        self._alarm_s = snapshot_alarm.total_seconds()
        self._too_old: Holder | None = None
        self.dead_letters: dict[tuple[str, str], int] = {}
        self.overdue_timers = 0
        self.oldest_snapshot_s = 0.0

    async def run_once(self) -> float:
        """Look once."""
        before = self._leader.clock.now() - OVERDUE
        async with self._database.connection() as connection:
            self.dead_letters = await dead_letters.count(connection)
            self.overdue_timers = await timers.count_overdue(connection, list(self._leader.terms), before, COUNT_BOUND)
            self._judge(diagnosis.oldest(await diagnosis.holders(connection)))
        return LOOK_EVERY_S

    def warnings(self) -> list[str]:
        """What is not as it should be, and keeps this node from nothing yet."""
        held = self._too_old
        if held is None:
            return []
        return [f"{held} has held a snapshot for {(held.age_s or 0.0) / 60:.0f} min: dead rows cannot be taken away"]

    def _judge(self, oldest: Holder | None) -> None:
        """Tell of a snapshot once when it gets too old, not each time it is seen."""
        self.oldest_snapshot_s = 0.0 if oldest is None else oldest.age_s or 0.0
        known, self._too_old = self._too_old, oldest if self.oldest_snapshot_s >= self._alarm_s else None
        if self._too_old is not None and known is None:
            self._events.tell(
                Name.SNAPSHOT_HELD,
                age_s=round(self.oldest_snapshot_s),
                holder=str(self._too_old),
                kind=self._too_old.kind,
                pid=self._too_old.pid,
                application=self._too_old.application,
                transactions=self._too_old.xids,
            )
