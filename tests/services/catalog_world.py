"""A catalog at work in a test: a real database, a clock that is set by hand, and the real scheduler when one is wanted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from horarium.domain import job, job_parsing
from horarium.domain.faults import Fault, Kind
from horarium.domain.ready_set import ReadySet
from horarium.events import Events
from horarium.services import auditor
from horarium.services.canceller import Canceller
from horarium.services.catalog import Catalog
from horarium.services.leader import Leader
from horarium.services.manual import Manual
from horarium.services.scheduler import Scheduler
from horarium.store.database import Database
from horarium.store.runs import RunRow

SHARDS = 16
WHO = job.Actor("default", "ada", "editor", "127.0.0.1", "req-1")
STRANGER = job.Actor("other", "eve", "editor")
NOON = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
# History is kept since before any of the days of these tests, whatever day it is: what is not kept is not audited.
KEPT_SINCE = "SELECT make_partitions('2026-09-01', '2026-09-01')"


class HandClock:
    """A clock that stands still until it is set."""

    def __init__(self, now: datetime = NOON) -> None:
        self.at = now

    def now(self) -> datetime:
        return self.at

    def time(self) -> float:
        return self.at.timestamp()

    def monotonic(self) -> float:
        return self.at.timestamp()


class Heard:
    """Pokes that were told, in order."""

    def __init__(self) -> None:
        self.timers: list[tuple[int, datetime]] = []
        self.added: list[RunRow] = []
        self.removed: list[UUID] = []
        self.cancelling: list[UUID] = []
        self.edited: list[UUID] = []

    def timers_changed(self, changes: Sequence[tuple[int, datetime]]) -> None:
        self.timers += changes

    def runs_added(self, rows: Sequence[RunRow]) -> None:
        self.added += rows

    def runs_removed(self, ids: Sequence[UUID]) -> None:
        self.removed += ids

    def cancel_requested(self, ids: Sequence[UUID]) -> None:
        self.cancelling += ids

    def job_edited(self, job_id: UUID) -> None:
        self.edited.append(job_id)


class World:
    """What a test works with. `at` moves the clock; `fire` lets the scheduler look ten seconds ahead, as it would."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.clock = HandClock()
        self.heard = Heard()
        self.catalog = Catalog(database, self.clock, self.heard, SHARDS)
        self.manual = Manual(database, self.clock, self.heard)
        self.canceller = Canceller(database, self.clock, self.heard)
        self.books_are_true = True

    def at(self, now: datetime | str) -> None:
        """Set the clock."""
        self.clock.at = datetime.fromisoformat(now) if isinstance(now, str) else now

    def later(self, **span: float) -> datetime:
        """Move the clock on."""
        self.clock.at += timedelta(**span)
        return self.clock.at

    def spec(self, **members: Any) -> job.JobSpec:
        """What a body with these members is read as; name and target may be left out."""
        return job_parsing.parse({"target": {"handler": "work"}, **members}, now=self.clock.now())

    async def create(self, **members: Any) -> job.Job:
        """Create a job from a body; the name may be left out."""
        return await self.catalog.create(WHO, self.spec(**{"name": "nightly", **members}))

    async def patch(self, held: job.Job, **members: Any) -> job.Job:
        """Patch a job."""
        return await self.catalog.patch(WHO, held.id, members)

    async def view(self, held: job.Job) -> job.JobView:
        """A job as it is shown now."""
        return await self.catalog.get(WHO, held.id)

    async def fire(self) -> None:
        """Let a scheduler that leads all shards do its work."""
        leader = Leader(self.clock, ReadySet(lease_s=15, capacity=1000))
        leader.take_shards(dict.fromkeys(range(SHARDS), 0))
        leader.loaded(range(SHARDS))
        await Scheduler(self.database, leader, Events(), timedelta(seconds=10)).run_once()

    async def rows(self, table: str, held: job.Job | None = None) -> list[asyncpg.Record]:
        """The rows of a table, or of one job, in order of their nominal time."""
        order = {"timers": "scheduled_for", "runs": "scheduled_for, id", "history": "scheduled_for, id"}.get(
            table, "id"
        )
        where = "" if held is None else f" WHERE job_id = '{held.id}'"
        async with self.database.connection() as connection:
            found: list[asyncpg.Record] = await connection.fetch(f"SELECT * FROM {table}{where} ORDER BY {order}")
            return found

    async def timer(self, held: job.Job) -> asyncpg.Record | None:
        """The timer of a job."""
        rows = await self.rows("timers", held)
        return rows[0] if rows else None

    async def next_time(self, held: job.Job) -> datetime | None:
        """The nominal time that the timer of a job stands for."""
        row = await self.timer(held)
        return None if row is None else row["scheduled_for"]

    async def run_times(self, held: job.Job) -> list[datetime]:
        """The nominal times of the live runs of a job."""
        return [row["scheduled_for"] for row in await self.rows("runs", held)]

    async def skipped(self, held: job.Job) -> list[tuple[str, datetime, datetime, int]]:
        """(reason, first, last, count) of what a job did not run."""
        return [(row["reason"], row["first"], row["last"], row["count"]) for row in await self.rows("skips", held)]

    async def faults(self) -> list[Fault]:
        """What an audit of everything finds now; there is no leader here, and nothing fires what is due."""
        found = await auditor.audit(self.database, instant("2020-01-01T00:00:00Z"), self.clock.now())
        return [fault for fault in found if fault.kind not in (Kind.SHARD_WITHOUT_LEADER, Kind.OVERDUE_TIMER)]

    def cook_the_books(self) -> None:
        """The test writes rows that no service would have written: they are not audited in the end."""
        self.books_are_true = False

    async def audited(self) -> list[tuple[str, str, Any, Any]]:
        """(action, object type, before, after) of each line of the audit."""
        return [
            (row["action"], row["object_type"], _read(row["before"]), _read(row["after"]))
            for row in await self.rows("audit")
        ]

    async def execute(self, statement: str, *values: object) -> None:
        """Do to the store what another duty would have done."""
        async with self.database.connection() as connection:
            await connection.execute(statement, *values)

    async def start(self, run_id: UUID) -> None:
        """Let a run be claimed by a worker."""
        await self.execute(
            "UPDATE runs SET state = 'running', attempt = attempt + 1, fencing_token = nextval('fencing_tokens'),"
            " worker_id = 'w1', started_at = $2 WHERE id = $1",
            run_id,
            self.clock.now(),
        )

    async def end(self, run_id: UUID, state: str = "succeeded") -> None:
        """Let a run end, as the completer writes it."""
        await self.execute(
            """
            WITH done AS (DELETE FROM runs WHERE id = $1 RETURNING *)
            INSERT INTO history (id, job_id, scheduled_for, ready_at, started_at, finished_at, fencing_token, job_version,
                shard, priority, attempt, state, trigger, tenant_id, queue, target_key, payload, target, retry, timeout_s)
            SELECT id, job_id, scheduled_for, ready_at, started_at, now(), fencing_token, job_version, shard, priority,
                attempt, $2, trigger, tenant_id, queue, target_key, payload, target, retry, timeout_s FROM done
            """,
            run_id,
            state,
        )


@asynccontextmanager
async def world(database_url: str) -> AsyncIterator[World]:
    """A world around an emptied database. In the end its books balance."""
    database = Database(database_url, pool_size=6)
    await database.open()
    try:
        made = World(database)
        await made.execute("TRUNCATE audit")
        await made.execute(KEPT_SINCE)
        yield made
        if made.books_are_true:
            assert [fault.text for fault in await made.faults()] == []
    finally:
        await asyncio.wait_for(database.close(), 10)


def instant(text: str) -> datetime:
    """An instant given as `2026-12-01T12:00:00Z`."""
    return datetime.fromisoformat(text)


def _read(text: str | None) -> Any:
    return None if text is None else json.loads(text)
