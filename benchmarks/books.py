"""The books: what the rows say afterwards. A benchmark whose books do not balance has no result."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from horarium.domain import ids

LOOK_EVERY_S = 0.1
PATIENCE_S = 180.0
MOMENT = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Window:
    """The finished runs whose nominal time lies in a window."""

    rows: int
    ids: int
    jobs: int
    succeeded: int
    max_attempt: int
    first_started: datetime | None
    last_started: datetime | None
    last_finished: datetime | None

    def check(self, expected: int) -> None:
        """Every run is there, once, succeeded at its first attempt."""
        assert (self.rows, self.ids, self.succeeded, self.max_attempt) == (expected, expected, expected, 1), self


async def window(connection: asyncpg.Connection, since: datetime, until: datetime, queue: str | None = None) -> Window:
    """What is kept of the runs due from `since` until before `until`. By their ids, which begin with the nominal time."""
    row = await connection.fetchrow(
        """SELECT count(*), count(DISTINCT id), count(DISTINCT job_id), count(*) FILTER (WHERE state = 'succeeded'),
                  coalesce(max(attempt), 0), min(started_at), max(started_at), max(finished_at)
           FROM history WHERE id >= $1 AND id < $2 AND scheduled_for >= $3 AND scheduled_for < $4
                 AND ($5::text IS NULL OR queue = $5)""",
        first_id(since),
        first_id(until, 1),
        since,
        until,
        queue,
    )
    return Window(*row)


async def until_finished(connection: asyncpg.Connection, since: datetime, until: datetime, expected: int) -> None:
    """Wait until so many runs that are due in a window have ended; TimeoutError some minutes after the window."""
    to_come = (until - await now(connection)).total_seconds()
    async with asyncio.timeout(max(0.0, to_come) + PATIENCE_S):
        while True:
            asked_at = time.perf_counter()
            found = await connection.fetchval(
                "SELECT count(*) FROM history WHERE id >= $1 AND id < $2 AND scheduled_for >= $3 AND scheduled_for < $4",
                first_id(since),
                first_id(until, 1),
                since,
                until,
            )
            if found >= expected:
                return
            await asyncio.sleep(max(LOOK_EVERY_S, 10 * (time.perf_counter() - asked_at)))


def whole_second(at: datetime | None) -> datetime:
    """The second in which an instant lies."""
    assert at is not None
    return at.replace(microsecond=0)


async def now(connection: asyncpg.Connection) -> datetime:
    """The database's clock."""
    value: datetime = await connection.fetchval("SELECT clock_timestamp()")
    return value


def first_id(at: datetime, ms_later: int = 0) -> UUID:
    """The smallest id that a run of this instant, or some milliseconds later, can have."""
    return UUID(int=(ids.microseconds(at) // 1000 + ms_later) << 80)


async def pause() -> None:
    """Between two looks at the rows: they cost what is measured."""
    await asyncio.sleep(LOOK_EVERY_S)
