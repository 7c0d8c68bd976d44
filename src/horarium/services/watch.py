"""Watches what no event tells: dead letters that are open, and timers that should have been fired and were not."""

from __future__ import annotations

from datetime import timedelta

from horarium.services.leader import Leader
from horarium.store import dead_letters, timers
from horarium.store.database import Database

LOOK_EVERY_S = 10.0
OVERDUE = timedelta(seconds=5)
COUNT_BOUND = 10_000


class Watch:
    """Figures for `/metrics`, some seconds old."""

    def __init__(self, database: Database, leader: Leader) -> None:
        self._database = database
        self._leader = leader
        self.dead_letters: dict[tuple[str, str], int] = {}
        self.overdue_timers = 0

    async def run_once(self) -> float:
        """Look once."""
        before = self._leader.clock.now() - OVERDUE
        async with self._database.connection() as connection:
            self.dead_letters = await dead_letters.count(connection)
            self.overdue_timers = await timers.count_overdue(connection, list(self._leader.terms), before, COUNT_BOUND)
        return LOOK_EVERY_S
