"""Creates that come at one moment share a commit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import asyncpg
import pytest

from horarium import errors
from horarium.domain import job
from horarium.services.creation import Shards
from horarium.services.creator import Creator
from horarium.store import one_offs
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


@pytest.mark.parametrize(
    "members",
    [
        {"run_at": "now"},
        {"run_at": "now", "name": "bill", "priority": 9, "queue": "mail", "payload": {"n": 1}, "timeout_s": 7},
        {"run_in_s": 3600, "retry": {"max_attempts": 3}},
        {"run_at": "2026-12-24T18:00:00Z", "name": "bill", "target": {"http": {"url": "https://example.org"}}},
    ],
)
async def test_a_one_off_by_itself_is_stored_like_one_of_a_batch(
    at_work: World, creator: Creator, members: dict[str, object]
) -> None:
    """They are written by different statements; nobody may see by which."""
    alone = at_work.spec(**members)
    assert one_offs.is_plain(alone)
    first = await creator.create(WHO, alone)
    of_batch = replace(alone, name=None if alone.name is None else "other")
    (second,) = await creator.create_many(WHO, [of_batch])
    assert isinstance(second, job.Job)
    for table, own in (
        ("jobs", {"id", "shard", "name"}),
        ("runs", {"id", "job_id", "shard"}),
        ("timers", {"job_id", "shard"}),
    ):
        key = "id" if table == "jobs" else "job_id"
        rows = {
            row[key]: {name: value for name, value in row.items() if name not in own}
            for row in await _all(at_work, table)
        }
        assert rows.get(first.id) == rows.get(second.id), table
        assert (table != "jobs") <= (len(rows) in (0, 2))
    assert (await at_work.catalog.get(WHO, first.id)).job == first


async def _all(at_work: World, table: str) -> list[asyncpg.Record]:
    async with at_work.database.connection() as connection:
        rows: list[asyncpg.Record] = await connection.fetch(f"SELECT * FROM {table}")
        return rows


async def test_a_one_off_leaves_the_line_in_the_audit_that_any_job_does(at_work: World, creator: Creator) -> None:
    plain, tagged = at_work.spec(run_at="now"), at_work.spec(run_at="now", tags=["a"])
    made = [await creator.create(WHO, spec) for spec in (plain, tagged)]
    first, second = await at_work.rows("audit")
    assert [row["object_id"] for row in (first, second)] == [str(each.id) for each in made]
    columns = ("tenant_id", "actor", "action", "object_type", "before", "remote", "request_id")
    assert [first[name] for name in columns] == [second[name] for name in columns]
    assert json.loads(second["after"]) == {**json.loads(first["after"]), "tags": ["a"]}


async def test_a_name_that_is_taken_refuses_one_and_stores_the_others(at_work: World, creator: Creator) -> None:
    await creator.create(WHO, at_work.spec(name="taken", run_at="now"))
    specs = [at_work.spec(name=name, **when) for name, when in (
        ("free", {"run_at": "now"}), ("taken", {"run_at": "now"}), ("taken", {"run_in_s": 60}), ("later", {"run_in_s": 60}),
    )]  # fmt: skip
    busy = [asyncio.create_task(creator.create(WHO, at_work.spec(run_at="now"))) for _ in range(2)]
    results = await asyncio.gather(*(creator.create(WHO, spec) for spec in specs), return_exceptions=True)
    await asyncio.gather(*busy)
    assert [type(result) for result in results] == [job.Job, errors.ConflictError, errors.ConflictError, job.Job]
    told = {run.job_id for run in at_work.heard.added}
    assert told == {row["job_id"] for row in await _all(at_work, "runs")}
    assert len(at_work.heard.timers) == len(await _all(at_work, "timers")) == 1
    assert len(await at_work.rows("audit")) == len(await at_work.rows("jobs")) == 5


async def test_what_a_one_off_has_beyond_the_plain_is_kept(at_work: World, creator: Creator) -> None:
    spec = at_work.spec(run_at="2026-12-24T18:00:00", timezone="Europe/Paris", tags=["a"], jitter_s=5)
    assert not one_offs.is_plain(spec)
    made = await creator.create(WHO, spec)
    assert (await at_work.catalog.get(WHO, made.id)).job.spec == spec
