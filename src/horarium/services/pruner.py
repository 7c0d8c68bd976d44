"""Step 8 of a run's life: it is forgotten. Whole days are dropped; partitions of the coming days are made ahead."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from horarium.domain import ids
from horarium.events import Events, Name
from horarium.services.leader import Leader
from horarium.store import past_schedules, retention, rollups, shards, skips, workers
from horarium.store.database import Database

LOOK_EVERY_S = 600.0
DAYS_AHEAD = 7
AUDIT_DAYS = 400
IDEMPOTENCY = timedelta(hours=24)
ROWS_AT_ONCE = 5_000


class Pruner:
    """Keeps the database flat. Every node may do it; only the leader of the first shard that lives here does."""

    def __init__(self, database: Database, leader: Leader, events: Events, history: timedelta) -> None:
        self._database = database
        self._leader = leader
        self._events = events
        self._history = history

    async def make_partitions_once(self) -> float:
        """Make the partitions of the coming days. Tried again soon when a long query holds the table."""
        if not await self._is_chosen():
            return 5.0
        today = self._leader.clock.now().date()
        async with self._database.connection() as connection:
            await retention.make_partitions(connection, today - timedelta(days=1), today + timedelta(days=DAYS_AHEAD))
        return LOOK_EVERY_S

    async def run_once(self) -> float:
        """Drop whole days, and forget what is old elsewhere."""
        if not await self._is_chosen():
            return 5.0
        now = self._leader.clock.now()
        before = now - self._history
        async with self._database.connection() as connection:
            more = await self._forget_rows(connection, before, now)
            audit_before = (now - timedelta(days=AUDIT_DAYS)).date()
            dropped = await retention.drop_partitions(connection, before.date(), audit_before)
        if dropped:
            self._events.tell(Name.PARTITIONS_DROPPED, partitions=dropped)
        return 1.0 if more else LOOK_EVERY_S

    async def _is_chosen(self) -> bool:
        """Which shard is the first one changes when shards are moved between databases, so the rows are asked."""
        if not self._leader.terms:
            return False
        async with self._database.connection() as connection:
            first = await shards.first(connection)
        return first is not None and self._leader.leads(first)

    @staticmethod
    async def _forget_rows(connection: asyncpg.Connection, before: datetime, now: datetime) -> bool:
        """What is not partitioned, in bounded bites; True when there is more."""
        await retention.delete_default_history(connection, before)
        await retention.prune_idempotency_keys(connection, now - IDEMPOTENCY)
        await rollups.prune(connection, before)
        await workers.prune(connection)
        await shards.prune_nodes(connection)
        oldest_id = UUID(int=(ids.microseconds(before) // 1000) << 80)
        jobs_gone = await retention.prune_jobs(connection, oldest_id, before, ROWS_AT_ONCE)
        skips_gone = await skips.prune(connection, before, ROWS_AT_ONCE)
        past_gone = await past_schedules.prune(connection, before, ROWS_AT_ONCE)
        return ROWS_AT_ONCE in (jobs_gone, skips_gone, past_gone)
