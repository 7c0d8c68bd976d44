"""One-offs that are stored by one statement."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from horarium.domain import ids, job, schedule
from horarium.domain.overlap import Overlap
from horarium.domain.retry import RetryPolicy
from horarium.store import jobs, one_offs

NOW = datetime(2026, 12, 1, 12, 0, 0, 123456, UTC)
WHO = job.Actor("default", "ada", "editor", "127.0.0.1", "req-1")
PLAIN = job.JobSpec(target={"handler": "h"}, run_at=NOW)
FULL = job.JobSpec(
    target={"http": {"url": "https://example.com"}},
    name="full",
    payload='{"b": 1.10, "a": 12345678901234567890, "c": "\\u00fc"}',
    queue="q",
    priority=0,
    run_at=NOW + timedelta(hours=1),
    retry=RetryPolicy(max_attempts=1, backoff="linear", retry_window_s=9),
    timeout_s=1,
)


def one_off(spec: job.JobSpec, number: int = 0) -> tuple[job.Job, one_offs.OneOff]:
    """A job and its row: a run when it is due now, else a timer."""
    assert spec.run_at is not None
    job_id = ids.fresh_id(3, NOW, number)
    made = job.Job(job_id, 3, "default", spec, NOW, NOW, "ada", NOW, "ada")
    run_id = ids.tick_run_id(job_id, 3, spec.run_at) if spec.run_at <= NOW else None
    key = schedule.encode(job.schedule_of(spec, NOW))
    return made, one_offs.row_of(WHO, made, run_id, key, "{}")


@pytest.mark.parametrize("spec", [PLAIN, FULL, replace(PLAIN, payload="null"), replace(PLAIN, run_at=NOW, priority=9)])
async def test_a_plain_one_off_is_read_as_it_was_stored(connection: asyncpg.Connection, spec: job.JobSpec) -> None:
    assert one_offs.is_plain(spec)
    made, row = one_off(spec)
    assert await one_offs.insert(connection, [row], NOW) == {made.id}
    assert await jobs.find(connection, "default", made.id) == made


@pytest.mark.parametrize(
    "more",
    [
        {"description": "d"},
        {"tags": ("a",)},
        {"owner": "o"},
        {"managed_by": "m"},
        {"run_at_local": "2026-12-01T12:00:00", "timezone": "Europe/Riga"},
        {"timezone": "Europe/Riga"},
        {"jitter_s": 1},
        {"overlap": Overlap.SKIP},
        {"misfire_grace_s": 1},
        {"expect": {"within_s": 1}},
        {"run_at": None, "schedule": "@daily"},
    ],
)
def test_whatever_the_statement_does_not_write_is_not_plain(more: dict[str, object]) -> None:
    assert not one_offs.is_plain(replace(PLAIN, **more))  # type: ignore[arg-type]


async def test_everything_is_written_by_one_transaction(connection: asyncpg.Connection) -> None:
    rows = [one_off(PLAIN, 11)[1], one_off(FULL, 12)[1]]
    await one_offs.insert(connection, rows, NOW)
    found = await connection.fetch(
        """SELECT 'jobs' AS name, xmin::text FROM jobs UNION ALL SELECT 'runs', xmin::text FROM runs
           UNION ALL SELECT 'timers', xmin::text FROM timers
           UNION ALL SELECT 'audit', xmin::text FROM audit WHERE object_id = ANY($1)""",
        [str(row.id) for row in rows],
    )
    assert sorted(row["name"] for row in found) == ["audit", "audit", "jobs", "jobs", "runs", "timers"]
    assert len({row["xmin"] for row in found}) == 1


async def test_a_name_that_is_borne_leaves_nothing_of_its_job(connection: asyncpg.Connection) -> None:
    first, row = one_off(replace(PLAIN, name="same"), 21)
    assert await one_offs.insert(connection, [row], NOW) == {first.id}
    other, free = one_off(replace(PLAIN, name="same"), 22), one_off(PLAIN, 23)
    assert await one_offs.insert(connection, [other[1], free[1]], NOW) == {free[0].id}
    stored: set[UUID] = {first.id, free[0].id}
    assert {row["id"] for row in await connection.fetch("SELECT id FROM jobs")} == stored
    assert {row["job_id"] for row in await connection.fetch("SELECT job_id FROM runs")} == stored
    lines = {row["object_id"] for row in await connection.fetch("SELECT object_id FROM audit")}
    assert {str(each) for each in stored} <= lines
    assert str(other[0].id) not in lines
