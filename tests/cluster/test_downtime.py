"""An hour of downtime: each job's misfire policy, to the letter (rules M1 to M3). libfaketime moves the database's clock on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from horarium.store import migrator
from tests import postgres
from tests.cluster import load, processes, waiting

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
EVERY_FIVE = {"schedule": "*/5 * * * *"}
POLICIES: dict[str, dict[str, Any]] = {
    "skip": {"misfire": "skip"},
    "run_once": {"misfire": "run_once"},
    "run_all": {"misfire": "run_all"},
    "at most three": {"misfire": "run_all", "max_catch_up": 3},
    "of the last twenty minutes": {"misfire": "run_all", "catch_up_window_s": 1200},
    "late is no misfire": {"misfire": "skip", "misfire_grace_s": 7200},
}


@pytest.mark.cluster
async def test_what_was_due_in_an_hour_of_downtime_is_dealt_with_as_each_job_says(tmp_path: Path) -> None:
    start = datetime(2031, 5, 6, 10, 1, tzinfo=UTC)
    async with clocked(start) as (database, clock, ahead):
        here = processes.Installation(tmp_path, database.url)
        try:
            server = await here.start_server()
            await here.start_worker()
            await here.call("POST", "/v1/jobs:batch", jobs(start), expect=200)
            assert await server.stop() == 0
            clock.set(ahead + HOUR)
            await here.start_server()
            async with here.database() as rows:
                await everything_is_settled(rows, start + HOUR)
                assert await ran(rows) == expected_runs(start)
                assert await skipped(rows) == expected_skips(start)
            assert await load.audited(here, start - HOUR) == []
        finally:
            await here.close()


def jobs(start: datetime) -> list[dict[str, Any]]:
    """A schedule for each policy, and one-offs in the middle of the hour."""
    target = {"target": {"handler": "tick"}, "overlap": "allow"}
    half_past = {"run_at": (start + 29 * MINUTE).isoformat()}
    return [
        *({"name": name, **EVERY_FIVE, **policy, **target} for name, policy in POLICIES.items()),
        {"name": "one-off", **half_past, **target},
        {"name": "one-off, skip", **half_past, "misfire": "skip", **target},
    ]


def expected_runs(start: datetime) -> dict[str, list[datetime]]:
    """The nominal times that run; the hour from 10:01 on has twelve of them."""
    ticks = [start.replace(minute=0) + 5 * number * MINUTE for number in range(1, 13)]
    return {
        "run_once": ticks[-1:],
        "run_all": ticks,
        "at most three": ticks[-3:],
        "of the last twenty minutes": ticks[-4:],
        "late is no misfire": ticks,
        "one-off": [start + 29 * MINUTE],
    }


def expected_skips(start: datetime) -> dict[str, tuple[datetime, datetime, int, str, bool]]:
    """What is written down of the others: first, last, how many, why, and whether another time runs for them."""
    first, last = start.replace(minute=5), start + 59 * MINUTE
    half_past = start + 29 * MINUTE
    return {
        "skip": (first, last, 12, "misfire", False),
        "run_once": (first, last - 5 * MINUTE, 11, "coalesced", True),
        "at most three": (first, last - 15 * MINUTE, 9, "misfire", False),
        "of the last twenty minutes": (first, last - 20 * MINUTE, 8, "misfire", False),
        "one-off, skip": (half_past, half_past, 1, "misfire", False),
    }


async def everything_is_settled(rows: asyncpg.Connection, now: datetime) -> None:
    async def look() -> bool:
        query = "SELECT (SELECT count(*) FROM timers WHERE scheduled_for <= $1) + (SELECT count(*) FROM runs)"
        return bool(await rows.fetchval(query, now) == 0)

    await waiting.until(look, "what was due has run or was skipped")


async def ran(rows: asyncpg.Connection) -> dict[str, list[datetime]]:
    query = """SELECT j.name, array_agg(h.scheduled_for ORDER BY h.scheduled_for) AS times
               FROM history h JOIN jobs j ON j.id = h.job_id WHERE h.state = 'succeeded' GROUP BY j.name"""
    return {row["name"]: row["times"] for row in await rows.fetch(query)}


async def skipped(rows: asyncpg.Connection) -> dict[str, tuple[datetime, datetime, int, str, bool]]:
    query = """SELECT j.name, s.first, s.last, s.count, s.reason, s.coalesced_into IS NOT NULL AS into
               FROM skips s JOIN jobs j ON j.id = s.job_id WHERE s.exact"""
    found = await rows.fetch(query)
    assert len({row["name"] for row in found}) == len(found), "one row for each job"
    return {row["name"]: tuple(row)[1:] for row in found}


@asynccontextmanager
async def clocked(at: datetime) -> AsyncIterator[tuple[postgres.Server, postgres.FakeClock, timedelta]]:
    """A PostgreSQL with the schema, whose clock stands at an instant now; and how far that is ahead of the machine's."""
    with postgres.open_folder() as folder:
        clock = postgres.FakeClock(folder)
        ahead = at - datetime.now(UTC)
        with postgres.Server(folder, environment=clock.environment) as server:
            await asyncio.to_thread(server.create)
            clock.set(ahead)
            await asyncio.to_thread(server.start)
            connection = await asyncpg.connect(server.url)
            await migrator.migrate(connection)
            await connection.close()
            yield server, clock, ahead
