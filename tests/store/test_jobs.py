"""Rows of `jobs`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from horarium import errors
from horarium.domain import ids, job
from horarium.domain.misfire import Misfire
from horarium.domain.overlap import Overlap
from horarium.domain.retry import RetryPolicy
from horarium.domain.states import JobStatus
from horarium.store import bulk, jobs, runs, skips, timers
from horarium.store.database import Database

NOW = datetime(2026, 12, 1, 12, 0, 0, 123456, UTC)
PLAIN = job.JobSpec(target={"handler": "h"}, schedule="@daily", name="plain")
FULL = job.JobSpec(
    target={"http": {"url": "https://example.com", "headers": {"a": "b"}}},
    name="full",
    description="d\ne",
    owner="o",
    tags=("a", "ü b", 'quo"te', "back\\slash"),
    managed_by="m",
    payload='{"b": 1.10, "a": 12345678901234567890}',
    queue="q",
    priority=0,
    run_at=NOW,
    run_at_local="2026-12-01T12:00:00",
    run_at_fold="second",
    timezone="Europe/Riga",
    start_at=NOW - timedelta(days=1),
    end_at=NOW + timedelta(days=1),
    jitter_s=1,
    misfire=Misfire.RUN_ALL,
    misfire_grace_s=0,
    catch_up_window_s=1,
    max_catch_up=0,
    overlap=Overlap.CANCEL_RUNNING,
    retry=RetryPolicy(max_attempts=1, backoff="linear", base_s=0.5, retry_window_s=9),
    timeout_s=1,
    expect={"within_s": 1},
)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = Database(database_url, pool_size=4)
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close()


def made(spec: job.JobSpec, number: int = 1) -> job.Job:
    return job.Job(
        id=ids.fresh_id(3, NOW, number),
        shard=3,
        tenant_id="default",
        spec=spec,
        anchor_at=NOW,
        created_at=NOW,
        created_by="ada",
        updated_at=NOW,
        updated_by="ada",
    )


async def test_one_insert_and_a_copy_store_the_same(database: Database) -> None:
    one, other = made(FULL), made(replace(FULL, name="copied"), 2)
    plain, other_plain = made(PLAIN, 3), made(replace(PLAIN, name="copied plain"), 4)
    async with database.transaction() as connection:
        assert await jobs.insert(connection, one)
        assert await jobs.insert(connection, plain)
        assert await jobs.insert_many(connection, [other, other_plain]) == {other.id, other_plain.id}
        for each in (one, other, plain, other_plain):
            assert await jobs.find(connection, "default", each.id) == each
            assert await jobs.find(connection, "default", each.spec.name or "") == each
            assert await jobs.find(connection, "other", each.id) is None
        raw = await connection.fetchval("SELECT payload FROM jobs WHERE id = $1", other.id)
    assert raw == FULL.payload


async def test_a_taken_name_leaves_its_row_out(database: Database) -> None:
    async with database.transaction() as connection:
        await jobs.insert(connection, made(PLAIN))
        assert not await jobs.insert(connection, made(PLAIN, 2))
        nameless = replace(PLAIN, name=None, schedule=None, run_at=NOW)
        batch = [made(PLAIN, 3), made(nameless, 4), made(nameless, 5), made(replace(PLAIN, name="b"), 6)]
        assert await jobs.insert_many(connection, batch) == {each.id for each in batch[1:]}


async def test_a_name_that_is_taken_in_between_is_told(database: Database) -> None:
    async with database.transaction() as connection:
        await jobs.insert(connection, made(PLAIN))
    with pytest.raises(asyncpg.UniqueViolationError):
        async with database.transaction() as connection:
            await jobs.insert_many(
                connection, [made(replace(PLAIN, name="twice"), 2), made(replace(PLAIN, name="twice"), 3)]
            )


async def test_an_update_writes_everything_but_the_birth(database: Database) -> None:
    async with database.transaction() as connection:
        await jobs.insert(connection, made(PLAIN))
        later = NOW + timedelta(hours=1)
        changed = replace(
            made(replace(FULL, schedule=None)),
            version=2,
            anchor_at=later,
            updated_at=later,
            updated_by="bob",
            status=JobStatus.PAUSED,
            status_reason="why",
            pause=job.Pause(later, "bob", "why", later, NOW, (NOW, later)),
        )
        await jobs.update(connection, changed)
        assert await jobs.find(connection, "default", changed.id) == changed
        await jobs.update(connection, replace(changed, version=9, updated_by="late"))
        assert await jobs.find(connection, "default", changed.id) == changed


async def test_a_rename_to_a_taken_name_is_a_conflict(database: Database) -> None:
    async with database.transaction() as connection:
        await jobs.insert(connection, made(PLAIN))
        await jobs.insert(connection, made(replace(PLAIN, name="b"), 2))
    with pytest.raises(errors.ConflictError):
        async with database.transaction() as connection:
            await jobs.update(connection, replace(made(PLAIN, 2), version=2))


async def test_first_timers_and_runs_are_copied_as_they_would_be_written(database: Database) -> None:
    async with database.transaction() as connection:
        job_ids = [ids.fresh_id(3, NOW, number) for number in range(4)]
        timer = timers.TimerRow(job_ids[0], 3, NOW, NOW, None, 5, 1, "t", "q", "h", "key", "o=skip", "2026f")
        await timers.upsert(connection, [timer])
        await bulk.copy_timers(connection, [timer._replace(job_id=job_ids[1])])
        await bulk.copy_timers(connection, [])
        run = runs.RunRow(job_ids[2], job_ids[0], 3, "t", "q", "h", 5, NOW, NOW, 1)
        await runs.insert(connection, [run])
        await bulk.copy_runs(connection, [run._replace(id=job_ids[3])])
        await bulk.copy_runs(connection, [])
        for table, key in (("timers", "job_id"), ("runs", "id")):
            first, second = await connection.fetch(f"SELECT * FROM {table}")
            assert {**first, key: None} == {**second, key: None}


async def test_lapsed_pauses_come_in_order_and_the_next_one_is_known(database: Database) -> None:
    async with database.transaction() as connection:
        untils = [NOW + timedelta(minutes=minutes) for minutes in (5, 1, 9)] + [None]
        for number, until in enumerate(untils, 1):
            each = made(replace(PLAIN, name=f"n{number}"), number)
            await jobs.insert(connection, each)
            paused = replace(each, version=2, status=JobStatus.PAUSED, pause=job.Pause(NOW, "ada", None, until))
            await jobs.update(connection, paused)
        lapsed = await jobs.lapsed_pauses(connection, NOW + timedelta(minutes=6), 10)
        assert [job_id.int & 0xFF for _, job_id in lapsed] == [2, 1]
        assert await jobs.lapsed_pauses(connection, NOW, 10) == []
        assert await jobs.next_lapse(connection, NOW + timedelta(minutes=6)) == untils[2]
        assert await jobs.next_lapse(connection, NOW + timedelta(minutes=9)) is None


async def test_outlooks_are_answered_for_each_job_that_is_there(database: Database) -> None:
    async with database.transaction() as connection:
        await jobs.insert(connection, made(PLAIN))
        found = await jobs.outlooks(connection, [made(PLAIN).id, UUID(int=0)], NOW)
        assert found == {made(PLAIN).id: jobs.Outlook()}


async def test_a_tick_that_was_skipped_while_its_caller_waited_is_handled(database: Database) -> None:
    """An edit that waits for the lock of a skip knows an old now: the tick that came meanwhile is not made again."""
    async with database.connection() as connection:
        held = made(job.JobSpec(target={"handler": "work"}, name="n", schedule="* * * * * *"))
        await jobs.insert_many(connection, [held])
        now = (await connection.fetchval("SELECT now()")).replace(microsecond=0)
        before, meanwhile, ahead = (now + timedelta(seconds=seconds) for seconds in (-30, -20, 3600))
        for last in (before, meanwhile, ahead):
            line = skips.SkipRow(held.id, held.tenant_id, held.shard, last, last, 1, True, "overlap")
            await skips.insert(connection, [line])
        assert await jobs.handled_ahead(connection, held.id, before) == meanwhile
        assert await jobs.handled_ahead(connection, held.id, meanwhile) is None
