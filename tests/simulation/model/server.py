"""The server: rows, commits, row locks, its clock; and what can befall it.

Read committed, as PostgreSQL has it: a statement chooses rows as they were committed when it began, waits for those that another
transaction holds, and looks again at what that one left. Each row that is written is held to the end of its transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import asyncpg

from tests.simulation.chance import Chance
from tests.simulation.model.rows import Fields

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
TABLES = (
    "jobs",
    "timers",
    "runs",
    "history",
    "skips",
    "dead_letters",
    "shards",
    "nodes",
    "workers",
    "rollups",
    "run_logs",
)
MORE_TABLES = ("audit", "past_schedules", "jobs_name")  # the last one is an index

SEEN_AFTER_S = 6.0

Place = tuple[str, Any]
Condition = Callable[[Fields], bool]


class Change(NamedTuple):
    """One row that a commit writes: None where it was not there before, or is not any more."""

    table: str
    key: Any
    before: Fields | None
    after: Fields | None


class Server:
    """One PostgreSQL. `on_commit` is told of every change that became durable."""

    def __init__(self, chance: Chance, shards: int, seconds: Callable[[], float]) -> None:
        self.chance = chance
        self._seconds = seconds
        self.tables: dict[str, dict[Any, Fields]] = {name: {} for name in (*TABLES, *MORE_TABLES)}
        for shard in range(shards):
            row = {"shard": shard, "leader": None, "term": 0, "lease_expires_at": None, "state": "here"}
            self.tables["shards"][shard] = row
        self.offset_s = 0.0
        self._latest = START
        self._stepped_at = -SEEN_AFTER_S
        self.holders: dict[Place, Transaction] = {}
        self.open: dict[Transaction, None] = {}
        self.ended: dict[Any, list[Fields]] = {}
        self.on_commit: Callable[[list[Change]], None] = lambda changes: None
        self._token = 0
        self._serial = 0

    def now(self) -> datetime:
        """The server's clock."""
        return START + timedelta(seconds=self._seconds() + self.offset_s)

    def step(self, seconds: float) -> None:
        """Set the clock to another time."""
        self._latest = max(self._latest, self.now())
        self._stepped_at = self._seconds()
        self.offset_s += seconds

    @property
    def is_in_time(self) -> bool:
        """Whether the clock is not behind where it has been, and every node has seen the last step."""
        return self.now() > self._latest and self._seconds() >= self._stepped_at + SEEN_AFTER_S

    def next_token(self) -> int:
        """The sequence `fencing_tokens`."""
        self._token += 1
        return self._token

    def next_serial(self) -> int:
        """A key for tables whose rows have none of their own."""
        self._serial += 1
        return self._serial

    def begin(self) -> Transaction:
        transaction = Transaction(self)
        self.open[transaction] = None
        return transaction

    def commit(self, transaction: Transaction) -> None:
        """Make what a transaction wrote durable, all of it at one moment."""
        if transaction.is_over:
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
        changes = []
        for (table, key), after in transaction.written.items():
            before = self.tables[table].get(key)
            if after is None:
                self.tables[table].pop(key, None)
            else:
                self.tables[table][key] = after
                if table == "history":
                    self.ended.setdefault(after["id"], []).append(after)
            changes.append(Change(table, key, before, after))
        self._release(transaction)
        if changes:
            self.on_commit(changes)

    def roll_back(self, transaction: Transaction) -> None:
        """Forget what a transaction wrote."""
        self._release(transaction)

    def _release(self, transaction: Transaction) -> None:
        if self.open.pop(transaction, 0) == 0:
            return
        transaction.is_over = True
        for place in transaction.held:
            if self.holders.get(place) is transaction:
                del self.holders[place]
        for waiter in transaction.waiters:
            if not waiter.done():
                waiter.set_result(None)


@dataclass(eq=False)
class Transaction:
    """What one transaction has written and holds."""

    server: Server
    written: dict[Place, Fields | None] = field(default_factory=dict)
    held: dict[Place, None] = field(default_factory=dict)
    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    waits_for: Transaction | None = None
    is_over: bool = False

    def __post_init__(self) -> None:
        self.now = self.server.now()

    def get(self, table: str, key: Any) -> Fields | None:
        """A row as this transaction sees it now."""
        place = (table, key)
        if place in self.written:
            return self.written[place]
        return self.server.tables[table].get(key)

    def rows(self, table: str) -> dict[Any, Fields]:
        """All rows of a table as this transaction sees them now."""
        mine = {key: row for (name, key), row in self.written.items() if name == table}
        if not mine:
            return self.server.tables[table]
        merged = {**self.server.tables[table], **mine}
        return {key: row for key, row in merged.items() if row is not None}

    def put(self, table: str, key: Any, row: Fields | None) -> None:
        """Write a row that is held; None deletes it."""
        self.written[table, key] = row

    def append(self, table: str, row: Fields) -> None:
        """Write a new row of a table without a key."""
        self.put(table, self.server.next_serial(), row)

    async def hold(self, table: str, key: Any) -> Fields | None:
        """Wait until nobody else holds the row, hold it, and see what it is now."""
        place = (table, key)
        while (holder := self.server.holders.get(place)) is not None and holder is not self:
            await self._wait_for(holder)
        if self.is_over:
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
        self.server.holders[place] = self
        self.held[place] = None
        return self.get(table, key)

    def holds_or_free(self, table: str, key: Any) -> bool:
        """Whether the row can be held at once."""
        return self.server.holders.get((table, key)) in (None, self)

    async def matching(
        self, table: str, keys: Iterable[Any] | None, condition: Condition, *, in_order: bool = False
    ) -> list[Fields]:
        """Hold the rows of these keys (None: of all) that meet a condition, when chosen and when held."""
        if keys is None:
            chosen = [key for key, row in self.rows(table).items() if condition(row)]
        else:
            rows = ((key, self.get(table, key)) for key in dict.fromkeys(keys))
            chosen = [key for key, row in rows if row is not None and condition(row)]
        if len(chosen) > 1:
            chosen = sorted(chosen) if in_order else self.server.chance.in_some_order(chosen)
        found = []
        for key in chosen:
            row = await self.hold(table, key)
            if row is not None and condition(row):
                found.append(row)
        return found

    def free_rows(self, table: str, rows: Iterable[Fields], key: str, limit: int) -> list[Fields]:
        """FOR UPDATE SKIP LOCKED … LIMIT, of rows in their order."""
        found: list[Fields] = []
        for row in rows:
            if len(found) == limit:
                break
            if self.holds_or_free(table, row[key]):
                place = (table, row[key])
                self.server.holders[place] = self
                self.held[place] = None
                found.append(row)
        return found

    async def insert(self, table: str, key: Any, row: Fields) -> bool:
        """INSERT … ON CONFLICT DO NOTHING; whether the row is new."""
        if await self.hold(table, key) is not None:
            return False
        self.put(table, key, row)
        return True

    def led(self, shards: Iterable[int], terms: Iterable[int]) -> set[int]:
        """The shards whose term is the named one."""
        return {shard for shard, term in zip(shards, terms, strict=True) if self._term(shard) == term}

    def _term(self, shard: int) -> int | None:
        row = self.get("shards", shard)
        return None if row is None else row["term"]

    async def _wait_for(self, holder: Transaction) -> None:
        self.waits_for = holder
        met: Transaction | None = holder
        while met is not None and met is not self:
            met = met.waits_for
        try:
            if met is self:
                await asyncio.sleep(1.0)  # deadlock_timeout
                if holder.waits_for is not None and not holder.is_over:
                    raise asyncpg.DeadlockDetectedError("deadlock detected")
                return
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            holder.waiters.append(waiter)
            self.waiters.append(waiter)  # woken, too, when this transaction is ended from outside
            await waiter
        finally:
            self.waits_for = None
        if self.is_over:
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
