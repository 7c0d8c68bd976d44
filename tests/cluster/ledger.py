"""The books of a cluster test: every expected tick is a run or a skip, once; everything acknowledged is there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import asyncpg

# For each every-second job: the ticks from its first to the last one looked at, and what became of each.
BOOKS = """
WITH ticks AS (
    SELECT j.id AS job_id, at
    FROM jobs j
    CROSS JOIN LATERAL generate_series(date_trunc('second', j.created_at), $1::timestamptz, interval '1 second') AS at
    WHERE j.schedule = '* * * * * *' AND at > j.created_at
), ran AS (
    SELECT job_id, scheduled_for AS at, count(*) AS times
    FROM (SELECT job_id, scheduled_for FROM history WHERE trigger = 'schedule'
          UNION ALL SELECT job_id, scheduled_for FROM runs WHERE trigger = 'schedule') AS every
    GROUP BY job_id, scheduled_for
), skipped AS (
    SELECT t.job_id, t.at, count(*) AS times
    FROM ticks t JOIN skips s ON s.job_id = t.job_id AND t.at BETWEEN s.first AND s.last
    GROUP BY t.job_id, t.at
)
SELECT count(*) AS ticks,
       count(*) FILTER (WHERE coalesce(r.times, 0) + coalesce(s.times, 0) = 0) AS missing,
       count(*) FILTER (WHERE coalesce(r.times, 0) + coalesce(s.times, 0) > 1) AS doubled,
       count(*) FILTER (WHERE s.times = 1) AS skipped
FROM ticks t
LEFT JOIN ran r ON r.job_id = t.job_id AND r.at = t.at
LEFT JOIN skipped s ON s.job_id = t.job_id AND s.at = t.at
"""


@dataclass(frozen=True, slots=True)
class Books:
    """How many ticks there should have been, and how many of them have no entry, or more than one."""

    ticks: int
    missing: int
    doubled: int
    skipped: int


async def balance(rows: asyncpg.Connection, until: datetime) -> Books:
    """The books up to and including an instant."""
    return Books(**dict(await rows.fetchrow(BOOKS, until)))
