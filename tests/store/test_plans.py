"""The statements that carry the load: each is planned as it is meant to be, whatever the statistics say.

`runs` is empty most of the time, so its statistics often say so while a wave waits in it: then a list of ids that is joined
with the table is compared with it row by row. Each statement is tried with true statistics and with such ones, as a plan
for its parameters and as the generic one that a prepared statement ends up with.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from horarium.store import runs, shards, timers
from horarium.store.runs import WaitAgain
from horarium.store.timers import Terms
from tests import builders, databases
from tests.store import plans

JOBS = 50_000
WAITING = 20_000
BATCH = 1_000
SHARDS = 16
NOON = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
LEASE = timedelta(seconds=15)
EMPTY, TRUE = "statistics say that the tables are empty", "statistics are true"
MODES: tuple[plans.Mode, ...] = ("force_custom_plan", "force_generic_plan")

# Pages a row: an index is three pages deep here, and a row is written once into its table and its indexes.
PAGES_READ, PAGES_WRITTEN = 6, 30
# What one row of one statement may add to the WAL; the whole of a run's life has 1.2 KB.
WAL_A_ROW = 800

# With autovacuum, true statistics would come of themselves at any moment.
_STILL = "ALTER TABLE {table} SET (autovacuum_enabled = off)"
_JOBS = """
INSERT INTO jobs (id, shard, target, schedule, description)
SELECT md5('job ' || n)::uuid, n % 16, '{"handler": "work"}', '* * * * *', repeat('what it is for ', 20)
FROM generate_series(1, $1) AS n
"""
_TIMERS = """
INSERT INTO timers (job_id, shard, scheduled_for, due_at, priority, job_version, tenant_id, queue, target_key, schedule_key)
SELECT md5('job ' || n)::uuid, n % 16, at, at, 5, 1, 'default', 'default', 'work', '["cron","* * * * *","UTC"]'
FROM generate_series(1, $1) AS n CROSS JOIN LATERAL (SELECT $2::timestamptz + n * interval '10 ms' AS at) AS moment
"""
_RUNS = """
INSERT INTO runs (id, job_id, shard, scheduled_for, ready_at, job_version, priority, tenant_id, queue, target_key)
SELECT md5('run ' || n)::uuid, md5('job ' || n)::uuid, n % 16, $2, $2, 1, 5, 'default', 'default', 'work'
FROM generate_series(1, $1) AS n
"""


@dataclass(frozen=True)
class Loaded:
    """A database with many rows, led by somebody."""

    connection: asyncpg.Connection
    terms: Terms
    waiting: list[UUID]
    running: list[runs.Held]

    async def explain(self, work: Callable[[Any], Awaitable[Any]], mode: plans.Mode) -> dict[str, plans.Explained]:
        """The plans of what the store does."""
        return await plans.explain(self.connection, work, mode)


@pytest.fixture(scope="module", params=[TRUE, EMPTY])
def loaded_url(request: pytest.FixtureRequest, databases_of_run: databases.Session) -> Iterator[str]:
    """A database with many rows, of which the statistics are true, or were taken when there were none."""
    url = databases_of_run.create_database()
    databases.run(_load(url, request.param == TRUE))
    yield url
    databases_of_run.drop_database(url)


async def _load(url: str, true_statistics: bool) -> None:
    connection = await asyncpg.connect(url)
    try:
        await _fill_and_empty(connection)
        await connection.execute(_JOBS, JOBS)
        await connection.execute(_TIMERS, JOBS, NOON)
        await connection.execute(_RUNS, WAITING, NOON)
        if true_statistics:
            await connection.execute("ANALYZE")
    finally:
        await connection.close()


async def _fill_and_empty(connection: asyncpg.Connection) -> None:
    """Some rows came and went, and then the statistics were taken."""
    for table in ("jobs", "timers", "runs"):
        await connection.execute(_STILL.format(table=table))
    await connection.execute(_JOBS, BATCH)
    await connection.execute(_TIMERS, BATCH, NOON)
    await connection.execute(_RUNS, BATCH, NOON)
    await connection.execute("DELETE FROM jobs; DELETE FROM timers; DELETE FROM runs; ANALYZE")


@pytest.fixture
async def loaded(loaded_url: str) -> AsyncIterator[Loaded]:
    """The database with a leader, and some of its runs handed out; what a test does is taken back."""
    connection = await asyncpg.connect(loaded_url, server_settings={"jit": "off", "statement_timeout": "20000"})
    undone = connection.transaction()
    await undone.start()
    taken = await shards.take(connection, "node-1", builders.LONG, SHARDS)
    terms = Terms(list(taken), list(taken.values()))
    ids = [row["id"] for row in await connection.fetch("SELECT id FROM runs ORDER BY random()")]
    claimed = await runs.claim(connection, ids[:BATCH], ["w1"] * BATCH, LEASE, terms)
    running = [runs.Held(*row[:2]) for row in claimed]
    yield Loaded(connection, terms, ids[BATCH : 2 * BATCH], running)
    await undone.rollback()
    await connection.close()


def check(plan: plans.Explained, *, reads: set[str], pages_a_row: int, rows: int = BATCH) -> None:
    """Fail where a statement does more than its rows ask for."""
    told = plan.drawn()
    assert plan.indexes() >= reads, told
    assert not plan.scanned() & {"runs", "timers", "jobs", "history", "history_default"}, told
    # Nothing is sorted but, at most, the batch itself; no id is compared with every row, or with every other id.
    assert [node.kind for node in plan.nodes() if "Sort" in node.kind and node.rows > rows] == [], told
    # Twice the rows, for there may be a dead version of each from the attempt that was rolled back.
    assert max(node.thrown_away for node in plan.nodes()) <= 2 * rows + SHARDS * SHARDS, told
    assert max(node.rows for node in plan.nodes()) <= 2 * rows + SHARDS * SHARDS, told
    assert plan.buffers <= pages_a_row * rows + 200, told
    assert plan.wal_bytes <= WAL_A_ROW * rows, told


@pytest.mark.parametrize("mode", MODES)
async def test_due_timers_come_along_their_index(loaded: Loaded, mode: plans.Mode) -> None:
    cursors = dict.fromkeys(range(SHARDS), NOON)
    limit, horizon = BATCH // SHARDS, NOON + timedelta(minutes=5)

    async def work(connection: Any) -> None:
        due = await timers.select_due(connection, cursors, limit, horizon, loaded.terms)
        assert len(due) == limit * SHARDS

    plan = (await loaded.explain(work, mode))["select_due"]
    check(plan, reads={"timers_due"}, pages_a_row=PAGES_READ)
    assert not [node.kind for node in plan.nodes() if "Sort" in node.kind and node.rows > SHARDS], plan.drawn()


@pytest.mark.parametrize("mode", MODES)
async def test_a_cursor_keeps_the_scan_off_what_lies_before_it(loaded: Loaded, mode: plans.Mode) -> None:
    late = NOON + timedelta(milliseconds=10 * (JOBS - 160))
    work = timers_due_from(loaded, late)
    plan = (await loaded.explain(work, mode))["select_due"]
    check(plan, reads={"timers_due"}, pages_a_row=PAGES_READ, rows=160)


def timers_due_from(loaded: Loaded, cursor: datetime) -> Callable[[Any], Awaitable[Any]]:
    """The last timers that there are."""

    async def work(connection: Any) -> None:
        cursors = dict.fromkeys(range(SHARDS), cursor)
        due = await timers.select_due(connection, cursors, BATCH, NOON + timedelta(hours=1), loaded.terms)
        assert 160 <= len(due) <= 161

    return work


@pytest.mark.parametrize("mode", MODES)
async def test_timers_are_fired_by_key(loaded: Loaded, mode: plans.Mode) -> None:
    rows = await loaded.connection.fetch("SELECT * FROM timers ORDER BY due_at LIMIT $1", BATCH)
    made = [UUID(int=number + 1) for number in range(BATCH)]
    nominal = [row["scheduled_for"] for row in rows]
    following = [at + timedelta(hours=1) for at in nominal]

    async def work(connection: Any) -> None:
        await timers.fire(connection, made, [row["job_id"] for row in rows], nominal, following)

    check((await loaded.explain(work, mode))["fire"], reads={"timers_pkey"}, pages_a_row=PAGES_WRITTEN)


@pytest.mark.parametrize("mode", MODES)
async def test_runs_are_claimed_by_key(loaded: Loaded, mode: plans.Mode) -> None:
    async def work(connection: Any) -> None:
        workers = [f"w{number % 7}" for number in range(BATCH)]
        assert len(await runs.claim(connection, loaded.waiting, workers, LEASE, loaded.terms)) == BATCH

    check((await loaded.explain(work, mode))["claim"], reads={"runs_pkey", "jobs_pkey"}, pages_a_row=PAGES_WRITTEN)


@pytest.mark.parametrize("mode", MODES)
async def test_runs_that_gave_nothing_back_end_by_key(loaded: Loaded, mode: plans.Mode) -> None:
    ids, tokens = [held.id for held in loaded.running], [held.token for held in loaded.running]

    async def work(connection: Any) -> None:
        assert await runs.succeed_plain(connection, ids, tokens) == BATCH

    check((await loaded.explain(work, mode))["succeed_plain"], reads={"runs_pkey"}, pages_a_row=PAGES_WRITTEN)


@pytest.mark.parametrize("mode", MODES)
async def test_runs_with_results_end_by_key(loaded: Loaded, mode: plans.Mode) -> None:
    ids, tokens = [held.id for held in loaded.running], [held.token for held in loaded.running]
    results = [f'{{"n": {number}}}' for number in range(BATCH)]

    async def work(connection: Any) -> None:
        assert len(await runs.succeed(connection, ids, tokens, results, [None] * BATCH)) == BATCH

    check((await loaded.explain(work, mode))["succeed"], reads={"runs_pkey"}, pages_a_row=PAGES_WRITTEN)


@pytest.mark.parametrize("mode", MODES)
async def test_failed_runs_wait_again_by_key(loaded: Loaded, mode: plans.Mode) -> None:
    again = [WaitAgain(held.id, held.token, NOON, 1, 0, '[{"error": "no"}]', False) for held in loaded.running]

    async def work(connection: Any) -> None:
        await runs.wait_again(connection, again)

    check((await loaded.explain(work, mode))["wait_again"], reads={"runs_pkey"}, pages_a_row=PAGES_WRITTEN)


@pytest.mark.parametrize("mode", MODES)
async def test_reports_that_need_a_decision_are_looked_up_by_key(loaded: Loaded, mode: plans.Mode) -> None:
    ids, tokens = [held.id for held in loaded.running], [held.token for held in loaded.running]

    async def work(connection: Any) -> None:
        assert len(await runs.lock_held(connection, ids, tokens, [False] * BATCH, loaded.terms)) == BATCH

    check((await loaded.explain(work, mode))["lock_held"], reads={"runs_pkey", "jobs_pkey"}, pages_a_row=PAGES_WRITTEN)


async def test_a_claim_stays_on_its_page(database_url: str, record_property: Callable[[str, object], None]) -> None:
    """On a fresh table the room that `fillfactor` leaves is enough: no index is touched by a claim (HOT)."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(_STILL.format(table="runs"))
        await connection.execute(_JOBS, WAITING)
        await connection.execute(_RUNS, WAITING, NOON)
        taken = await shards.take(connection, "node-1", builders.LONG, SHARDS)
        terms = Terms(list(taken), list(taken.values()))
        ids = [row["id"] for row in await connection.fetch("SELECT id FROM runs ORDER BY random()")]
        for first in range(0, WAITING, BATCH):
            batch = ids[first : first + BATCH]
            await runs.claim(connection, batch, ["worker-1"] * BATCH, LEASE, terms)
        await connection.execute("SELECT pg_stat_force_next_flush()")
        updated, hot = await connection.fetchrow(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'runs'"
        )
    finally:
        await connection.close()
    record_property("hot_claims", f"{hot} of {updated}")
    assert updated == WAITING
    # All of them where old versions are pruned meanwhile, and 0.889 where a transaction of another test keeps PostgreSQL from it.
    assert hot >= 0.88 * updated, f"{hot} of {updated} claims were HOT"
