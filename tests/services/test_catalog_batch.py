"""Creating many jobs at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from horarium import errors
from horarium.domain import ids, job, job_parsing
from tests.services.catalog_world import NOON, WHO, World, instant, world


@pytest.fixture
async def at_work(emptied_url: str) -> AsyncIterator[World]:
    async with world(emptied_url) as made:
        yield made


def _jobs(results: list[job.Job | errors.HorariumError]) -> list[job.Job]:
    assert all(isinstance(result, job.Job) for result in results), results
    return [result for result in results if isinstance(result, job.Job)]


async def test_a_batch_makes_jobs_timers_and_runs_in_one_go(at_work: World) -> None:
    specs = [
        at_work.spec(name="cron", schedule="*/5 * * * *", timezone="Asia/Kolkata", tags=["a", "b"]),
        at_work.spec(name="every", interval_s=60, jitter_s=10),
        at_work.spec(name=None, run_at="now", payload={"n": 1}),
        at_work.spec(name="later", run_at="2027-01-01T00:00:00Z", target={"command": {"argv": ["true"]}}),
    ]
    made = _jobs(await at_work.catalog.create_many(WHO, specs))
    assert [each.spec for each in made] == specs
    for each in made:
        assert (await at_work.view(each)).job == each
    assert [row["job_id"] for row in await at_work.rows("timers")] == [made[1].id, made[0].id, made[3].id]
    (run,) = await at_work.rows("runs")
    assert run["id"] == ids.tick_run_id(made[2].id, made[2].shard, NOON)
    assert len(at_work.heard.timers) == 3
    assert len(at_work.heard.added) == 1
    (line,) = await at_work.audited()
    assert line[0] == "create_many"
    assert line[3] == {"count": 4, "ids": [str(each.id) for each in made]}


async def test_a_batch_makes_the_very_rows_that_single_creates_make(at_work: World) -> None:
    bodies = [
        {"schedule": "0 2 * * *", "timezone": "America/New_York", "jitter_s": 60, "overlap": "skip", "priority": 7},
        {"interval_s": 90, "start_at": "2027-01-01T00:00:00Z", "retry": {"max_attempts": 1}},
        {"run_at": "2027-07-01T09:00:00", "timezone": "Europe/Riga", "expect": {"within_s": 5}, "queue": "q"},
        {"run_at": "2026-12-01T11:59:00Z", "payload": [1]},
    ]
    for number, body in enumerate(bodies):
        await at_work.create(name=f"single-{number}", **body)
    batch = [at_work.spec(name=f"batch-{number}", **body) for number, body in enumerate(bodies)]
    await at_work.catalog.create_many(WHO, batch)
    drawn = {"id", "job_id", "name", "shard"}
    for table in ("jobs", "timers", "runs"):
        rows = [{name: value for name, value in row.items() if name not in drawn} for row in await at_work.rows(table)]
        for row in rows:
            if row.get("due_at") is not None and row["due_at"] != row["scheduled_for"]:
                row["due_at"] = "delayed"  # by a hash of the id
        assert rows
        assert all(rows.count(row) == 2 for row in rows)


async def test_a_bad_item_does_not_keep_the_others_from_it(at_work: World) -> None:
    await at_work.create(name="taken", schedule="@daily")
    fault = errors.InvalidError([errors.Fault("/schedule", "no")])
    masked = {"http": {"url": "https://example.com", "secret": "***"}}
    results = await at_work.catalog.create_many(
        WHO,
        [
            at_work.spec(name="good", schedule="@daily"),
            fault,
            at_work.spec(name="taken", schedule="@hourly"),
            at_work.spec(name="twice", schedule="@daily", priority=1),
            at_work.spec(name="twice", schedule="@daily", priority=2),
            at_work.spec(name="masked", schedule="@daily", target=masked),
            at_work.spec(name=None, run_at="now"),
        ],
    )
    assert isinstance(results[0], job.Job)
    assert results[1] is fault
    assert isinstance(results[2], errors.ConflictError)
    assert isinstance(results[3], job.Job)
    assert isinstance(results[4], errors.ConflictError)
    assert isinstance(results[5], errors.InvalidError)
    assert isinstance(results[6], job.Job)
    stored = {row["name"]: row["priority"] for row in await at_work.rows("jobs")}
    assert stored == {"taken": 5, "good": 5, "twice": 1, None: 5}
    assert len(await at_work.rows("timers")) == 3


async def test_an_empty_batch_and_one_of_errors_store_nothing(at_work: World) -> None:
    fault = errors.InvalidError([errors.Fault("", "no")])
    assert await at_work.catalog.create_many(WHO, []) == []
    assert await at_work.catalog.create_many(WHO, [fault]) == [fault]
    assert await at_work.audited() == []


async def test_two_batches_with_the_same_names_do_not_lock_each_other_out(at_work: World) -> None:
    names = [f"job-{number}" for number in range(200)]
    forward = [at_work.spec(name=name, schedule="@daily") for name in names]
    results = await asyncio.gather(
        *(at_work.catalog.create_many(WHO, batch) for batch in (forward, forward[::-1], forward, forward[::-1]))
    )
    assert sum(isinstance(each, job.Job) for batch in results for each in batch) == 200
    assert len(await at_work.rows("jobs")) == 200
    assert len(await at_work.rows("timers")) == 200


async def test_ten_thousand_jobs_are_made_in_one_call(at_work: World) -> None:
    raw = json.dumps(
        [
            {
                "name": f"job-{number}",
                "schedule": f"{number % 60} * * * *",
                "target": {"handler": "work"},
                "payload": {"n": number},
            }
            for number in range(job_parsing.MAX_BATCH)
        ]
    ).encode()
    now = at_work.clock.now()
    specs = [job_parsing.parse(body, now=now) for body in job_parsing.read_bodies(raw) if isinstance(body, dict)]
    made = _jobs(await at_work.catalog.create_many(WHO, specs))
    assert len({each.id for each in made}) == job_parsing.MAX_BATCH
    assert len({each.shard for each in made}) == 16
    timers = await at_work.rows("timers")
    assert len(timers) == job_parsing.MAX_BATCH
    assert timers[0]["scheduled_for"] == NOON + timedelta(minutes=1)
    assert timers[-1]["scheduled_for"] == instant("2026-12-01T13:00:00Z")
