"""What is forgotten: whole days, and rows that nothing refers to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from horarium.domain import ids, schedule
from horarium.store import dead_letters, retention, runs, timers
from tests import builders
from tests.builders import SHARD, Job

DAY = timedelta(days=1)
FAR = date(2031, 5, 6)
NOON = datetime(2031, 5, 6, 12, tzinfo=UTC)
END = datetime(9999, 1, 1, tzinfo=UTC)

_HISTORY = """
INSERT INTO history (id, job_id, scheduled_for, ready_at, finished_at, fencing_token, job_version, shard, priority, attempt,
                     state, trigger, tenant_id, queue, target_key)
VALUES ($1, $1, $2, $2, $2, 1, 1, 3, 5, 1, 'succeeded', 'schedule', 'default', 'default', 'work')
"""
_LOG = "INSERT INTO run_logs (run_id, at, seq, attempt, message) VALUES ($1, $2, 1, 1, 'line')"
_AUDIT = """
INSERT INTO audit (at, tenant_id, actor, action, object_type, object_id)
VALUES ($2, 'default', 'ann', 'create', 'job', $1::uuid::text)
"""


@pytest.fixture
async def scratch(connection: asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    """A connection whose partitions come and go with the test."""
    transaction = connection.transaction()
    await transaction.start()
    yield connection
    await transaction.rollback()


async def ended(connection: asyncpg.Connection, *instants: datetime) -> list[UUID]:
    """A run that ended, a line of its log and an audit entry at each of these instants."""
    made = [UUID(int=number) for number, _ in enumerate(instants, 1)]
    for identifier, at in zip(made, instants, strict=True):
        for query in (_HISTORY, _LOG, _AUDIT):
            await connection.execute(query, identifier, at)
    return made


async def places(connection: asyncpg.Connection, table: str, key: str = "id") -> list[str]:
    """The partition of each row, in the order of keys."""
    rows = await connection.fetch(f"SELECT tableoid::regclass::text AS place FROM {table} ORDER BY {key}")
    return [row["place"] for row in rows]


async def test_partitions_are_made_once(scratch: asyncpg.Connection) -> None:
    assert await retention.make_partitions(scratch, FAR, FAR + 2 * DAY) == 3 + 3 + 1
    assert await retention.make_partitions(scratch, FAR, FAR + 3 * DAY) == 1 + 1
    assert await retention.make_partitions(scratch, FAR, FAR + 3 * DAY) == 0


async def test_a_range_over_the_end_of_a_month_makes_both_months_of_audit(scratch: asyncpg.Connection) -> None:
    await retention.make_partitions(scratch, date(2031, 12, 31), date(2032, 1, 1))
    await ended(scratch, datetime(2031, 12, 31, 23, 59, tzinfo=UTC), datetime(2032, 1, 1, tzinfo=UTC))
    assert await places(scratch, "audit") == ["audit_203112", "audit_203201"]
    assert await places(scratch, "history") == ["history_20311231", "history_20320101"]


async def test_rows_that_came_before_their_partition_are_moved_into_it(scratch: asyncpg.Connection) -> None:
    start = datetime(2031, 5, 6, tzinfo=UTC)
    instants = [start - timedelta(microseconds=1), start, start + DAY - timedelta(microseconds=1), start + DAY]
    await ended(scratch, *instants)
    assert await places(scratch, "history") == ["history_default"] * 4
    await retention.make_partitions(scratch, FAR, FAR)
    inside, outside = ["20310506"] * 2, ["default"]
    assert await places(scratch, "history") == [f"history_{name}" for name in (*outside, *inside, *outside)]
    assert await places(scratch, "run_logs", "run_id") == [f"run_logs_{name}" for name in (*outside, *inside, *outside)]
    assert await places(scratch, "audit") == ["audit_203105"] * 4
    assert [
        row["finished_at"] for row in await scratch.fetch("SELECT finished_at FROM history ORDER BY id")
    ] == instants


async def test_days_are_days_of_utc_whatever_the_session_says(scratch: asyncpg.Connection) -> None:
    await scratch.execute("SET timezone = 'Asia/Tokyo'")
    await retention.make_partitions(scratch, FAR, FAR)
    await ended(scratch, datetime(2031, 5, 6, tzinfo=UTC), datetime(2031, 5, 6, 23, 59, tzinfo=UTC))
    assert await places(scratch, "history") == ["history_20310506"] * 2


async def test_a_partition_has_the_indexes_and_checks_of_its_table(scratch: asyncpg.Connection) -> None:
    await retention.make_partitions(scratch, FAR, FAR)
    query = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'horarium' AND tablename = $1"
    for parent, child in (("history", "history_20310506"), ("audit", "audit_203105")):
        assert await scratch.fetchval(query, child) == await scratch.fetchval(query, parent)
    await ended(scratch, NOON)
    with pytest.raises(asyncpg.CheckViolationError):
        await scratch.execute("UPDATE history SET state = 'odd'")


async def test_days_before_the_bound_go_and_the_bound_itself_stays(scratch: asyncpg.Connection) -> None:
    await retention.make_partitions(scratch, FAR - 2 * DAY, FAR)
    dropped = await retention.drop_partitions(scratch, FAR - DAY, date(2000, 1, 1))
    names = {name for name in dropped if "_2031" in name}
    assert names == {"history_20310504", "run_logs_20310504"}
    assert await scratch.fetchval("SELECT to_regclass('horarium.history_20310505') IS NOT NULL")
    assert await retention.drop_partitions(scratch, FAR - DAY, date(2000, 1, 1)) == []


async def test_a_month_of_audit_goes_when_all_of_it_is_old(scratch: asyncpg.Connection) -> None:
    await retention.make_partitions(scratch, FAR, FAR)
    still = await retention.drop_partitions(scratch, date(2000, 1, 1), date(2031, 5, 31))
    assert "audit_203105" not in still
    assert await retention.drop_partitions(scratch, date(2000, 1, 1), date(2031, 6, 1)) == ["audit_203105"]


async def test_default_partitions_are_never_dropped(scratch: asyncpg.Connection) -> None:
    await ended(scratch, NOON)
    await retention.drop_partitions(scratch, date(9999, 1, 1), date(9999, 1, 1))
    assert await places(scratch, "history") == ["history_default"]
    await retention.delete_default_history(scratch, NOON)
    assert len(await places(scratch, "history")) == 1
    await retention.delete_default_history(scratch, NOON + timedelta(microseconds=1))
    assert await places(scratch, "history") == []


async def test_a_table_in_use_is_not_waited_for_without_end(
    scratch: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    async with other.transaction():
        await other.fetch("SELECT count(*) FROM history")
        await scratch.execute("ALTER FUNCTION horarium.drop_partitions SET lock_timeout = '50ms'")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await retention.drop_partitions(scratch, date(9999, 1, 1), date(2000, 1, 1))


async def test_kept_answers_are_forgotten_after_their_time(connection: asyncpg.Connection) -> None:
    await connection.execute("DELETE FROM idempotency_keys")
    columns = "(tenant_id, key, shard, request_hash, created_at)"
    query = f"INSERT INTO idempotency_keys {columns} VALUES ('default', $1, 0, '', $2)"
    await connection.execute(query, "old", NOON - timedelta(microseconds=1))
    await connection.execute(query, "new", NOON)
    await retention.prune_idempotency_keys(connection, NOON)
    assert await connection.fetchval("SELECT array_agg(key) FROM idempotency_keys") == ["new"]


async def a_job(connection: asyncpg.Connection, **columns: Any) -> Job:
    """A one-off of long ago, with some columns set."""
    made = await builders.insert_job(connection, builders.once(NOON - 9 * DAY))
    for name, value in columns.items():
        await connection.execute(f"UPDATE jobs SET {name} = $2 WHERE id = $1", made.id, value)
    return made


async def prune(connection: asyncpg.Connection, limit: int = 100) -> int:
    """Forget what is older than NOON."""
    return await retention.prune_jobs(connection, ids.fresh_id(0, END, 0), NOON, limit)


async def test_a_definition_is_kept_while_anything_refers_to_it(connection: asyncpg.Connection) -> None:
    gone, armed, live, dead = [await a_job(connection) for _ in range(4)]
    paused = await a_job(connection, status="paused")
    recent = await a_job(connection, run_at=NOON)
    await timers.upsert(connection, [armed.timer(NOON)])
    await runs.insert(connection, [live.tick(NOON)])
    letter = dead_letters.DeadLetter(UUID(int=1), dead.id, "default", "default", SHARD, "mark", "", 1)
    await dead_letters.insert(connection, [letter])
    assert await prune(connection) == 1
    left = {row["id"] for row in await connection.fetch("SELECT id FROM jobs")}
    assert left == {job.id for job in (armed, live, dead, paused, recent)}
    assert gone.id not in left


async def test_recurring_jobs_stay_until_they_are_deleted(connection: asyncpg.Connection) -> None:
    daily = schedule.Every(DAY, NOON)
    made, deleted, just = [await builders.insert_job(connection, daily) for _ in range(3)]
    query = "UPDATE jobs SET status = 'cancelled', deleted_at = $2 WHERE id = $1"
    await connection.execute(query, deleted.id, NOON - DAY)
    await connection.execute(query, just.id, NOON)
    await connection.execute("UPDATE jobs SET status = 'finished' WHERE id = $1", made.id)
    assert await prune(connection) == 1
    left = {row["id"] for row in await connection.fetch("SELECT id FROM jobs")}
    assert left == {made.id, just.id}


async def test_definitions_go_oldest_first_in_bites(connection: asyncpg.Connection) -> None:
    made = sorted([(await a_job(connection)).id for _ in range(5)])
    assert await retention.prune_jobs(connection, made[0], NOON, 100) == 0
    assert await prune(connection, 2) == 2
    assert [row["id"] for row in await connection.fetch("SELECT id FROM jobs ORDER BY id")] == made[2:]
    assert [await prune(connection, 2) for _ in range(3)] == [2, 1, 0]
