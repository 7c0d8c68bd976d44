"""`horarium.enqueue`: a run of a handler from SQL, in the transaction of whoever calls it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import UUID

import asyncpg
import pytest

from horarium.domain import ids, schedule
from horarium.store import timers

AT = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


async def rows_of(connection: asyncpg.Connection, job_id: UUID) -> tuple[asyncpg.Record, timers.TimerRow]:
    """The job and its timer."""
    job = await connection.fetchrow("SELECT * FROM jobs WHERE id = $1", job_id)
    found = await timers.lock(connection, [job_id])
    assert job is not None
    return job, found[job_id]


async def test_a_job_and_its_timer_are_made_as_they_are_told(connection: asyncpg.Connection) -> None:
    payload = '{"n": 1.10, "big": 12345678901234567890}'
    query = "SELECT horarium.enqueue($1, $2, $3, queue => 'emails', priority => 9, tenant => 'acme')"
    job_id = await connection.fetchval(query, "email.welcome", payload, AT)
    job, timer = await rows_of(connection, job_id)
    assert json.loads(job["target"]) == {"handler": "email.welcome"}
    names = ("payload", "queue", "priority", "tenant_id", "run_at", "name", "status", "version")
    assert [job[name] for name in names] == [payload, "emails", 9, "acme", AT, None, "active", 1]
    assert job["created_by"].startswith("sql:")
    once = schedule.Schedule(schedule.Once(AT))
    assert timer == timers.TimerRow(
        job_id, job["shard"], AT, AT, None, 9, 1, "acme", "emails", "email.welcome", schedule.encode(once)
    )


async def test_defaults_are_now_and_the_default_queue(connection: asyncpg.Connection) -> None:
    async with connection.transaction():
        now = await connection.fetchval("SELECT now()")
        job_id = await connection.fetchval("SELECT horarium.enqueue('work')")
    job, timer = await rows_of(connection, job_id)
    assert (job["run_at"], timer.due_at, job["payload"], job["queue"], job["priority"]) == (
        now,
        now,
        "{}",
        "default",
        5,
    )
    assert (job["tenant_id"], timer.target_key) == ("default", "work")


async def test_ids_carry_the_time_and_the_shard(connection: asyncpg.Connection) -> None:
    before = await connection.fetchval("SELECT clock_timestamp()")
    rows = await connection.fetch("SELECT horarium.enqueue('work') AS id FROM generate_series(1, 200)")
    after = await connection.fetchval("SELECT clock_timestamp()")
    made = [row["id"] for row in rows]
    assert len(set(made)) == 200
    shards = dict(await connection.fetch("SELECT id, shard FROM jobs"))
    assert {ids.shard_of(job_id) for job_id in made} == set(range(16))
    for job_id in made:
        assert (job_id.version, job_id.variant, ids.is_tick(job_id)) == (7, "specified in RFC 4122", False)
        assert ids.shard_of(job_id) == shards[job_id]
        assert before.timestamp() - 0.002 <= ids.instant_of(job_id).timestamp() <= after.timestamp() + 0.002


async def test_a_transaction_that_rolls_back_queued_nothing(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("SELECT horarium.enqueue('work')")
    assert await other.fetchval("SELECT count(*) FROM jobs") == 0
    await transaction.rollback()
    assert await connection.fetchval("SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM timers)") == 0


async def test_the_callers_search_path_plays_no_part(connection: asyncpg.Connection) -> None:
    await connection.execute("SET search_path = pg_catalog")
    job_id = await connection.fetchval("SELECT horarium.enqueue('work')")
    assert await connection.fetchval("SELECT count(*) FROM horarium.timers WHERE job_id = $1", job_id) == 1


@pytest.mark.parametrize(
    "handler", ["", "x" * 201, "@http", "@command", "-x", "two words", "line\nbreak", 'quo"te', "a;b"]
)
async def test_a_name_that_no_handler_can_have_is_refused(connection: asyncpg.Connection, handler: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match="handler: "):
        await connection.execute("SELECT horarium.enqueue($1)", handler)
    assert await connection.fetchval("SELECT count(*) FROM jobs") == 0


@pytest.mark.parametrize("handler", ["w", "_x", "e-mail.welcome:now/7", "grüße", "x" * 200])
async def test_a_name_that_a_handler_can_have_is_taken(connection: asyncpg.Connection, handler: str) -> None:
    assert await connection.fetchval("SELECT horarium.enqueue($1)", handler) is not None


@pytest.mark.parametrize("queue", ["", "x" * 101, "two words", "b\td", "@x"])
async def test_a_queue_that_no_worker_can_ask_for_is_refused(connection: asyncpg.Connection, queue: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match="queue: "):
        await connection.execute("SELECT horarium.enqueue('work', queue => $1)", queue)


@pytest.mark.parametrize("rest", ["priority => 10", "priority => -1", "run_at => NULL", "payload => NULL"])
async def test_other_values_are_checked_by_the_table(connection: asyncpg.Connection, rest: str) -> None:
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await connection.execute(f"SELECT horarium.enqueue('work', {rest})")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await connection.execute("SELECT horarium.enqueue(NULL)")
