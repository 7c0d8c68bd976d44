"""Clocks that are wrong: a node's has no effect, and the database's may step (rule M4). libfaketime sets them.

PostgreSQL reads the set clock itself, so `clock_timestamp()` really steps; the monotonic clocks of all processes go on as they
are, as when somebody sets a machine's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from horarium.store import migrator
from tests import postgres
from tests.cluster import load, processes, waiting

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
JOBS = 5


@pytest.mark.cluster
@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
async def test_the_clock_of_a_node_has_no_effect(database_url: str, tmp_path: Path, ahead: timedelta) -> None:
    with postgres.open_folder() as folder:
        clock = postgres.FakeClock(folder)
        clock.set(ahead)
        here = processes.Installation(tmp_path, database_url)
        here.environment = clock.environment
        try:
            await here.start_server()
            async with load.under_load(here, JOBS) as client:
                await load.balanced(here, client)
                assert abs(await skew(here) - ahead.total_seconds()) < 60
                async with here.database() as rows:
                    late = await rows.fetchval(
                        "SELECT max(started_at - scheduled_for) FROM history WHERE trigger = 'schedule'"
                    )
                    early = await rows.fetchval("SELECT min(started_at - scheduled_for) FROM history")
                    assert timedelta(seconds=-1) < early < late < timedelta(seconds=60)
        finally:
            await here.close()


async def skew(here: processes.Installation) -> float:
    """By how many seconds the node's clock is ahead of the database's, as it says itself."""
    lines = (await here.call("GET", "/metrics")).splitlines()
    (found,) = [line.split()[1] for line in lines if line.startswith("horarium_clock_skew_seconds ")]
    return float(found)


@pytest.mark.cluster
async def test_the_clock_of_the_database_steps(tmp_path: Path) -> None:
    """An hour back and forward again (nothing is repeated), a day forward (one misfire), a day back (jobs start anew)."""
    async with started() as (database, clock):
        here = processes.Installation(tmp_path, database.url)
        try:
            server = await here.start_server()
            await here.start_worker()
            await make_jobs(here)
            async with here.database() as rows:
                began = await clock_of(rows)
                await ticks_run(rows, began)

                clock.set(-HOUR)
                await one_off_runs(here, rows)
                assert await rows.fetchval("SELECT min(scheduled_for) FROM timers") > await clock_of(rows) + HOUR / 2
                clock.set(timedelta(0))
                await ticks_run(rows, await clock_of(rows))
                await no_tick_ran_twice(rows)

                clock.set(DAY)
                await ticks_run(rows, began + DAY)
                await the_day_was_skipped(rows, began)

                clock.set(timedelta(0))
                await timers_are_back(rows)
                await ticks_run(rows, await clock_of(rows))
            assert server.is_running
        finally:
            await here.close()


async def make_jobs(here: processes.Installation) -> None:
    body = [{"name": f"tick-{n}", "schedule": "* * * * * *", "target": {"handler": "tick"}} for n in range(JOBS)]
    await here.call("POST", "/v1/jobs:batch", body, expect=200)


async def clock_of(rows: asyncpg.Connection) -> datetime:
    now: datetime = await rows.fetchval("SELECT clock_timestamp()")
    return now


async def ticks_run(rows: asyncpg.Connection, after: datetime) -> None:
    """Every job runs twice or more for times after an instant, within the minute that follows it."""
    query = (
        "SELECT count(*) FROM (SELECT job_id FROM history WHERE trigger = 'schedule' AND state = 'succeeded'"
        " AND scheduled_for > $1 AND scheduled_for < $1 + interval '2 minutes' GROUP BY job_id HAVING count(*) > 1) AS jobs"
    )

    async def all_of_them() -> bool:
        return bool(await rows.fetchval(query, after) == JOBS)

    await waiting.until(all_of_them, f"every job runs after {after}")


async def the_day_was_skipped(rows: asyncpg.Connection, began: datetime) -> None:
    """A jump forward is an ordinary misfire: the newest of the missed ticks runs, the others are written down."""
    query = "SELECT job_id, min(first) AS first, max(last) AS last FROM skips WHERE last > $1 GROUP BY job_id"
    found = await rows.fetch(query, began)
    assert len(found) == JOBS
    assert all(row["first"] < began + HOUR and row["last"] > began + DAY - HOUR for row in found), found


async def timers_are_back(rows: asyncpg.Connection) -> None:
    """A step back of more than three hours: the jobs are armed anew, from now on."""

    async def soon() -> bool:
        return bool(
            await rows.fetchval("SELECT max(scheduled_for) < clock_timestamp() + interval '1 minute' FROM timers")
        )

    await waiting.until(soon, "the timers are armed from now on")


async def one_off_runs(here: processes.Installation, rows: asyncpg.Connection) -> None:
    """What is asked for now runs now, whatever time it is."""
    body = {"run_at": "now", "target": {"handler": "say"}}
    made = await here.call("POST", "/v1/jobs", body, expect=201)

    async def done() -> bool:
        return bool(
            await rows.fetchval("SELECT count(*) FROM history WHERE job_id = $1 AND state = 'succeeded'", made["id"])
        )

    await waiting.until(done, "the one-off has run")


async def no_tick_ran_twice(rows: asyncpg.Connection) -> None:
    query = (
        "SELECT count(*) - count(DISTINCT (job_id, scheduled_for)) FROM"
        " (SELECT job_id, scheduled_for FROM history WHERE trigger = 'schedule' UNION ALL"
        " SELECT job_id, scheduled_for FROM runs WHERE trigger = 'schedule') AS every"
    )
    assert await rows.fetchval(query) == 0


@asynccontextmanager
async def started() -> AsyncIterator[tuple[postgres.Server, postgres.FakeClock]]:
    """A PostgreSQL with the schema, and its clock."""
    with postgres.open_folder() as folder:
        clock = postgres.FakeClock(folder)
        with postgres.Server(folder, environment=clock.environment) as server:
            await asyncio.to_thread(server.create)
            await asyncio.to_thread(server.start)
            connection = await asyncpg.connect(server.url)
            await migrator.migrate(connection)
            await connection.close()
            yield server, clock
