"""Every-second jobs for a while: none missing, none doubled, by the rows."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from tests.cluster import processes, waiting

JOBS = int(os.environ.get("HORARIUM_TEST_EVERY_SECOND_JOBS", "200"))
SECONDS = int(os.environ.get("HORARIUM_TEST_EVERY_SECOND_SECONDS", "8"))

TICKS = """
SELECT count(*) AS ticks, count(DISTINCT (job_id, scheduled_for)) AS different,
       count(*) FILTER (WHERE state <> 'succeeded') AS failed, count(*) FILTER (WHERE attempt <> 1) AS repeated
FROM history WHERE scheduled_for >= $1 AND scheduled_for < $2
"""
LAG = """
SELECT percentile_cont(array[0.5, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM started_at - scheduled_for) * 1000)
FROM history WHERE scheduled_for >= $1 AND scheduled_for < $2
"""


@pytest.mark.cluster
async def test_every_tick_of_every_job_runs_exactly_once(database_url: str, tmp_path: Path) -> None:
    async with processes.installation(tmp_path, database_url) as here:
        await here.start_worker()
        body = [{"name": f"tick-{n}", "schedule": "* * * * * *", "target": {"handler": "tick"}} for n in range(JOBS)]
        made = await here.call("POST", "/v1/jobs:batch", body, expect=200)
        assert made["created"] == JOBS
        async with here.database() as rows:
            first = await first_whole_second(rows)
            last = first + timedelta(seconds=SECONDS)

            async def over() -> bool:
                done: int = await rows.fetchval("SELECT count(*) FROM history WHERE scheduled_for = $1", last)
                return done == JOBS

            await waiting.until(over, f"every job has run for {last}")
            row = await rows.fetchrow(TICKS, first, last)
            p50, p99 = await rows.fetchval(LAG, first, last)
            print(f"{row['ticks']} runs; start lag p50 {p50:.1f} ms, p99 {p99:.1f} ms")
            assert dict(row) == {"ticks": JOBS * SECONDS, "different": JOBS * SECONDS, "failed": 0, "repeated": 0}
            assert await rows.fetchval("SELECT count(*) FROM skips") == 0


async def first_whole_second(rows: asyncpg.Connection) -> datetime:
    """The first second at which every job was planned already."""
    found: datetime = await rows.fetchval(
        "SELECT date_trunc('second', max(created_at)) + interval '2 seconds' FROM jobs"
    )
    return found
