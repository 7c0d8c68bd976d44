"""Creates that come at one moment share a commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from horarium import errors
from horarium.domain import job
from horarium.services.creation import Shards
from horarium.services.creator import Creator
from horarium.store.database import Database
from tests.services.catalog_world import NOON, SHARDS, WHO, HandClock, Heard, World, world


@pytest.fixture
async def at_work(emptied_url: str) -> AsyncIterator[World]:
    async with world(emptied_url) as made:
        yield made


@pytest.fixture
def creator(at_work: World) -> Creator:
    return Creator(at_work.database, at_work.clock, at_work.heard, lambda: Shards(SHARDS, range(SHARDS)))


async def test_each_caller_gets_its_own_job_and_line(at_work: World, creator: Creator) -> None:
    actors = [
        replace(WHO, tenant_id=f"t{number % 3}", name=f"n{number}", request_id=f"r{number}") for number in range(40)
    ]
    specs = [at_work.spec(name=f"job-{number}", schedule="@daily", priority=number % 10) for number in range(40)]
    made = await asyncio.gather(*(creator.create(who, spec) for who, spec in zip(actors, specs, strict=True)))
    assert [each.spec for each in made] == specs
    assert [(each.tenant_id, each.created_by) for each in made] == [(who.tenant_id, who.name) for who in actors]
    for each, who in zip(made, actors, strict=True):
        assert (await at_work.catalog.get(who, each.id)).job == each
    lines = {
        row["object_id"]: (row["tenant_id"], row["actor"], row["request_id"]) for row in await at_work.rows("audit")
    }
    assert lines == {
        str(each.id): (who.tenant_id, who.name, who.request_id) for each, who in zip(made, actors, strict=True)
    }
    assert len(at_work.heard.timers) == 40
    transactions = {row["xmin"] for row in await _transactions(at_work.database)}
    assert len(transactions) < 10


async def _transactions(database: Database) -> list[dict[str, str]]:
    async with database.connection() as connection:
        return [dict(row) for row in await connection.fetch("SELECT xmin::text FROM jobs")]


async def test_of_callers_with_one_name_one_is_answered(at_work: World, creator: Creator) -> None:
    spec = at_work.spec(name="same", run_at="now")
    results = await asyncio.gather(*(creator.create(WHO, spec) for _ in range(9)), return_exceptions=True)
    made = [result for result in results if isinstance(result, job.Job)]
    assert len(made) == 1
    assert all(isinstance(result, job.Job | errors.ConflictError) for result in results)
    assert [row["id"] for row in await at_work.rows("jobs")] == [made[0].id]
    assert len(await at_work.rows("runs")) == len(await at_work.audited()) == 1


async def test_one_that_the_database_refuses_does_not_keep_the_others_from_it(at_work: World, creator: Creator) -> None:
    good = at_work.spec(name=None, run_at="now")
    bad = replace(good, payload="{")
    results = await asyncio.gather(
        *(creator.create(WHO, spec) for spec in (good, good, good, bad, good)), return_exceptions=True
    )
    assert [type(result) for result in results] == [job.Job, job.Job, job.Job, errors.InvalidError, job.Job]
    assert len(await at_work.rows("jobs")) == 4


async def test_one_caller_who_goes_away_leaves_the_others_alone(at_work: World, creator: Creator) -> None:
    calls = [asyncio.create_task(creator.create(WHO, at_work.spec(name=None, run_at="now"))) for _ in range(6)]
    await asyncio.sleep(0)
    calls[4].cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(result, job.Job) for result in results] == [True, True, True, True, False, True]


async def test_every_caller_is_told_that_the_database_is_gone() -> None:
    creator = Creator(
        Database("postgresql://127.0.0.1:1/none"), HandClock(NOON), Heard(), lambda: Shards(SHARDS, range(SHARDS))
    )
    spec = job.JobSpec(target={"handler": "h"}, run_at=NOON)
    results = await asyncio.gather(*(creator.create(WHO, spec) for _ in range(5)), return_exceptions=True)
    assert [type(result) for result in results] == [errors.UnavailableError] * 5
