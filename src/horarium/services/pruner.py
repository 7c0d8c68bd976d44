"""Step 8 of a run's life: it is forgotten. Whole days are dropped; partitions of the coming days are made ahead."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from horarium.domain import ids
from horarium.events import Events, Name
from horarium.services.leader import Leader
from horarium.store import retention, rollups, shards, skips, workers
from horarium.store.database import Database

LOOK_EVERY_S = 600.0
DAYS_AHEAD = 7
AUDIT_DAYS = 400
IDEMPOTENCY = timedelta(hours=24)
ROWS_AT_ONCE = 5_000


class Pruner:
    """Keeps the database flat. Every node may do it; only the leader of shard 0 does."""

    def __init__(self, database: Database, leader: Leader, events: Events, history: timedelta) -> None:
        self._database = database
        self._leader = leader
        self._events = events
        self._history = history

    async def run_once(self) -> float:
        """Make and drop partitions, forget what is old elsewhere."""
        if not self._leader.leads(0):
            return 5.0
        now = self._leader.clock.now()
        before = now - self._history
        async with self._database.connection() as connection:
            await retention.make_partitions(
                connection, now.date() - timedelta(days=1), now.date() + timedelta(days=DAYS_AHEAD)
            )
            dropped = await retention.drop_partitions(
                connection, before.date(), (now - timedelta(days=AUDIT_DAYS)).date()
            )
            await retention.delete_default_history(connection, before)
            await retention.prune_idempotency_keys(connection, now - IDEMPOTENCY)
            await rollups.prune(connection, before)
            await workers.prune(connection)
            await shards.prune_nodes(connection)
            oldest_id = UUID(int=(ids.microseconds(before) // 1000) << 80)
            more = await retention.prune_jobs(connection, oldest_id, before, ROWS_AT_ONCE) == ROWS_AT_ONCE
            more |= await skips.prune(connection, before, ROWS_AT_ONCE) == ROWS_AT_ONCE
        if dropped:
            self._events.tell(Name.PARTITIONS_DROPPED, partitions=dropped)
        return 1.0 if more else LOOK_EVERY_S
