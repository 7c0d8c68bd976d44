"""Legal rows and a node's duties, for tests: a job with its timer and runs as the services write them."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from horarium import clock as clocks
from horarium.domain import firing, ids, misfire, schedule
from horarium.domain.lanes import Wanted
from horarium.domain.lease import Heard
from horarium.domain.outcome import Outcome
from horarium.domain.overlap import Overlap
from horarium.domain.ready_set import ReadySet
from horarium.domain.run import LiveRun
from horarium.events import Events
from horarium.services.completer import Completer
from horarium.services.dispatcher import Dispatcher
from horarium.services.endings import Report
from horarium.services.leader import Leader, live_run
from horarium.services.reaper import Reaper
from horarium.services.releaser import Releaser
from horarium.services.scheduler import Scheduler
from horarium.services.sweeper import Sweeper
from horarium.store import runs, shards, timers
from horarium.store.database import Database
from tests.recording import Recorder

SHARD = 3
LONG = timedelta(hours=1)
LOOKAHEAD = timedelta(seconds=10)
WAIT_S = 30.0

_entropy = itertools.count(1)


class ManualClock:
    """A clock that is moved by hand. It starts where it is told; `monotonic` counts from 1000."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._elapsed = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def time(self) -> float:
        return clocks.to_seconds(self.now())

    def monotonic(self) -> float:
        return 1000.0 + self._elapsed

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._elapsed += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock to another time: `monotonic` does not notice."""
        self._start += timedelta(seconds=seconds)


@dataclass(frozen=True)
class Job:
    """A row of `jobs`, and what follows from it for timers and runs."""

    id: UUID
    shard: int
    tenant_id: str
    queue: str
    priority: int
    handler: str
    schedule: schedule.Schedule
    policy: firing.FiringPolicy

    def timer(
        self, scheduled_for: datetime, *, due_at: datetime | None = None, last: datetime | None = None, zone: str = ""
    ) -> timers.TimerRow:
        """The timer of this job, standing at an occurrence."""
        return timers.TimerRow(
            self.id,
            self.shard,
            scheduled_for,
            due_at or scheduled_for,
            last,
            self.priority,
            1,
            self.tenant_id,
            self.queue,
            self.handler,
            schedule.encode(self.schedule),
            firing.encode_policy(self.policy),
            zone,
        )

    def tick(self, scheduled_for: datetime, *, ready_at: datetime | None = None) -> runs.RunRow:
        """The run of one scheduled tick."""
        run_id = ids.tick_run_id(self.id, self.shard, scheduled_for)
        return self._run(run_id, scheduled_for, ready_at or scheduled_for, "schedule")

    def by_hand(self, now: datetime, **own: Any) -> runs.RunRow:
        """A run that a person asked for."""
        return self._run(ids.fresh_id(self.shard, now, next(_entropy)), now, now, "manual")._replace(**own)

    def _run(self, run_id: UUID, scheduled_for: datetime, ready_at: datetime, trigger: str) -> runs.RunRow:
        return runs.RunRow(
            run_id,
            self.id,
            self.shard,
            self.tenant_id,
            self.queue,
            self.handler,
            self.priority,
            scheduled_for,
            ready_at,
            1,
            trigger,
        )


def once(at: datetime) -> schedule.Once:
    """The timing of a one-off."""
    return schedule.Once(at)


async def insert_job(
    connection: asyncpg.Connection,
    timing: schedule.Timing,
    *,
    name: str | None = None,
    shard: int = SHARD,
    tenant_id: str = "default",
    queue: str = "default",
    priority: int = 5,
    handler: str = "work",
    payload: str = "{}",
    overlap: Overlap = Overlap.ALLOW,
    late: misfire.MisfirePolicy | None = None,
    retry: dict[str, Any] | None = None,
    timeout_s: int = 300,
    end_at: datetime | None = None,
    jitter: timedelta = timedelta(0),
) -> Job:
    """Write a job that is active, without a timer."""
    now = await connection.fetchval("SELECT clock_timestamp()")
    made = Job(
        ids.fresh_id(shard, now, next(_entropy)),
        shard,
        tenant_id,
        queue,
        priority,
        handler,
        schedule.Schedule(timing, end_at=end_at, jitter=jitter),
        firing.FiringPolicy(late or misfire.MisfirePolicy(), overlap),
    )
    columns: dict[str, Any] = {
        "id": made.id,
        "shard": shard,
        "tenant_id": tenant_id,
        "name": name,
        "target": json.dumps({"handler": handler}),
        "payload": payload,
        "queue": queue,
        "priority": priority,
        "overlap": overlap,
        "retry": json.dumps(retry or {}),
        "timeout_s": timeout_s,
        "end_at": end_at,
        "jitter_s": int(jitter.total_seconds()),
        **_timing_columns(timing),
    }
    marks = ", ".join(f"${place}" for place in range(1, len(columns) + 1))
    await connection.execute(f"INSERT INTO jobs ({', '.join(columns)}) VALUES ({marks})", *columns.values())
    return made


def _timing_columns(timing: schedule.Timing) -> dict[str, Any]:
    match timing:
        case schedule.Cron(expression=expression, timezone=timezone):
            return {"schedule": expression, "timezone": timezone}
        case schedule.Every(interval=interval, anchor=anchor):
            return {"interval_s": int(interval.total_seconds()), "anchor_at": anchor}
        case schedule.Once(at=at, local=local, timezone=timezone, fold=fold):
            return {"run_at": at, "run_at_local": local, "run_at_fold": fold, "timezone": timezone}


def live(row: runs.RunRow, overlap: Overlap = Overlap.ALLOW) -> LiveRun:
    """A row as the leader's memory holds it."""
    return live_run(row, overlap)


def a_run(
    ready_at: float = 0.0,
    *,
    job_id: UUID | None = None,
    tenant: str = "default",
    queue: str = "default",
    target: str = "work",
    priority: int = 5,
    overlap: Overlap = Overlap.ALLOW,
    shard: int = SHARD,
) -> LiveRun:
    """A run in memory that has no row."""
    number = next(_entropy)
    return LiveRun(
        UUID(int=number), job_id or UUID(int=number), shard, tenant, queue, target, priority, ready_at, overlap
    )


def wanted(*queues: str, handlers: Sequence[str] | None = None, tenant: str | None = None) -> Wanted:
    """What a worker asks for; without names the queue `default`."""
    weights = tuple((queue, 1.0) for queue in queues or ("default",))
    return Wanted(weights, None if handlers is None else frozenset(handlers), tenant=tenant)


@dataclass
class Core:
    """The duties of a node that leads every shard, on a real database, with a clock that is moved by hand."""

    database: Database
    clock: ManualClock
    events: Events
    told: Recorder
    leader: Leader
    releaser: Releaser
    dispatcher: Dispatcher
    completer: Completer
    reaper: Reaper
    sweeper: Sweeper
    scheduler: Scheduler

    async def job(self, timing: schedule.Timing | None = None, **members: Any) -> Job:
        """Write a job; without a timing one that ran once, now."""
        async with self.database.connection() as connection:
            return await insert_job(connection, timing or once(self.clock.now()), **members)

    async def arm(self, *rows: timers.TimerRow) -> None:
        """Write timers, without telling the leader."""
        async with self.database.connection() as connection:
            await timers.upsert(connection, rows)

    async def make(self, *rows: runs.RunRow, overlap: Overlap = Overlap.ALLOW) -> None:
        """Make runs, and tell the leader as the scheduler does."""
        async with self.database.connection() as connection:
            await runs.insert(connection, rows)
        self.leader.add(live(row, overlap if row.trigger == "schedule" else Overlap.ALLOW) for row in rows)

    async def lease(self, worker_id: str = "w1", slots: int = 10, want: Wanted | None = None) -> list[dict[str, Any]]:
        """The leases of a worker that waits until there is at least one."""
        return read(await self.dispatcher.lease(worker_id, want or wanted(), slots, WAIT_S))

    async def lease_now(
        self, worker_id: str = "w1", slots: int = 10, want: Wanted | None = None
    ) -> list[dict[str, Any]]:
        """The leases of a worker that does not wait."""
        return read(await self.dispatcher.lease(worker_id, want or wanted(), slots, 0))

    async def started(self, *, worker_id: str = "w1", **members: Any) -> Started:
        """A run of a new job, made by hand and handed to a worker."""
        made = await self.job(**members)
        await self.make(made.by_hand(self.clock.now()))
        (lease,) = await self.lease(worker_id, 1, wanted(made.queue))
        return Started(UUID(lease["run_id"]), lease["fencing_token"], made)

    def beat(self, worker_id: str, *held: Started) -> Heard:
        """A worker's heartbeat that lists what it holds."""
        listed = [(run.run_id, run.token) for run in held]
        return self.leader.ready.leases.heartbeat(worker_id, listed, self.clock.monotonic(), self.leader.knows)

    async def reap(self, seconds: float) -> None:
        """Let time pass while the reaper looks now and then, as it does."""
        while seconds > 0:
            self.pass_time(min(seconds, 5))
            seconds -= 5
            await self.reaper.run_once()

    async def take_back(self, worker_id: str, tenant: str | None = None) -> None:
        """What the gateway asks for after each heartbeat."""
        await self.reaper.take_back(worker_id, tenant)

    def lose_all(self) -> dict[int, int]:
        """Forget all shards, and lead them again without knowing what lives in them; returns their terms."""
        terms = dict(self.leader.terms)
        self.leader.drop_shards(list(terms))
        self.leader.take_shards(terms)
        return terms

    async def load_all(self) -> None:
        """What a take-over does: load what has begun, then what waits."""
        shards = set(self.leader.terms)
        await self.sweeper.load(shards)
        self.leader.loaded(shards)
        await self.sweeper.fill(shards)
        self.leader.completed(shards)

    async def row(self, run_id: UUID) -> asyncpg.Record | None:
        """The live row of a run."""
        return await self.fetchrow("SELECT * FROM runs WHERE id = $1", run_id)

    async def ended(self, run_id: UUID) -> asyncpg.Record | None:
        """The row of a run in history."""
        return await self.fetchrow("SELECT * FROM history WHERE id = $1", run_id)

    async def fetchrow(self, query: str, *values: Any) -> asyncpg.Record | None:
        async with self.database.connection() as connection:
            return await connection.fetchrow(query, *values)

    async def fetch(self, query: str, *values: Any) -> list[asyncpg.Record]:
        async with self.database.connection() as connection:
            rows: list[asyncpg.Record] = await connection.fetch(query, *values)
            return rows

    async def fetchval(self, query: str, *values: Any) -> Any:
        async with self.database.connection() as connection:
            return await connection.fetchval(query, *values)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and let the dispatcher see it."""
        self.clock.advance(seconds)
        self.dispatcher.wake()


@dataclass(frozen=True)
class Started:
    """A run that a worker holds."""

    run_id: UUID
    token: int
    job: Job

    def report(self, outcome: Outcome = Outcome.SUCCEEDED, **members: Any) -> Report:
        """How its attempt ended."""
        return Report(self.run_id, self.token, outcome, **members)


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop go round until something is so in memory, and a few times more for what follows from it."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - memory tells nobody that it has changed
            await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)


def read(leases: Sequence[str]) -> list[dict[str, Any]]:
    """Leases as a worker reads them."""
    return [json.loads(lease) for lease in leases]


@asynccontextmanager
async def running_core(
    url: str, *, early: timedelta = timedelta(0), capacity: int = 200_000, node_id: str = "node-1"
) -> AsyncIterator[Core]:
    """A core on a database whose shards nobody leads; it stops in order."""
    database = Database(url, pool_size=6)
    await database.open()
    clock = ManualClock(await database.now())
    events = Events()
    leader = Leader(clock, ReadySet(lease_s=15, capacity=capacity))
    releaser = Releaser(database, leader, events)
    dispatcher = Dispatcher(database, leader, releaser, events, early)
    completer = Completer(database, leader, events)
    core = Core(
        database,
        clock,
        events,
        Recorder(events),
        leader,
        releaser,
        dispatcher,
        completer,
        Reaper(database, leader, completer, events),
        Sweeper(database, leader, events, 30),
        Scheduler(database, leader, events, LOOKAHEAD),
    )
    leader.on_ready = dispatcher.wake
    dispatcher.give_back, dispatcher.refuse = completer.give_back, completer.refuse
    async with database.connection() as connection:
        terms = await shards.take(connection, node_id, LONG, 4096)
    leader.take_shards(terms)
    leader.loaded(terms)
    leader.completed(terms)
    dispatcher.start()
    try:
        yield core
    finally:
        await dispatcher.stop()
        await releaser.settle()
        await completer.settle()
        await database.close()


_EMPTY = """
DELETE FROM jobs; DELETE FROM timers; DELETE FROM runs; DELETE FROM history; DELETE FROM run_logs; DELETE FROM skips;
DELETE FROM dead_letters; DELETE FROM past_schedules; DELETE FROM nodes;
DELETE FROM workers; DELETE FROM rollups; DELETE FROM api_keys; DELETE FROM audit;
UPDATE shards SET leader = NULL, term = 0, lease_expires_at = NULL;
"""


async def empty(url: str) -> None:
    """Take every row of the last test away, which is quicker than a new database."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(_EMPTY)
    finally:
        await connection.close()
