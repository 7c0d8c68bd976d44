"""Rows of `timers`: what is due, and the moves that only count from where a timer stood."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from horarium.domain import ids, schedule
from horarium.store import timers
from horarium.store.timers import Move, Recomputed, Terms
from tests import builders
from tests.builders import SHARD, Job

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
FIRST = UUID(int=0)


@pytest.fixture
async def job(connection: asyncpg.Connection) -> Job:
    """A job without a timer."""
    return await a_job(connection)


async def a_job(connection: asyncpg.Connection, shard: int = SHARD) -> Job:
    """Another job without a timer."""
    return await builders.insert_job(connection, schedule.Every(MINUTE, AT), shard=shard)


async def stored(connection: asyncpg.Connection, job: Job) -> asyncpg.Record:
    """The timer of a job."""
    row = await connection.fetchrow("SELECT * FROM timers WHERE job_id = $1", job.id)
    assert row is not None
    return row


async def due(connection: asyncpg.Connection, terms: Terms, limit: int = 100, **more: datetime) -> list[UUID]:
    """The jobs whose timers are due at AT, from a cursor on."""
    cursor, horizon = more.get("cursor", AT - timedelta(days=1)), more.get("horizon", AT)
    cursors = dict.fromkeys(terms.shards, cursor)
    return [row.job_id for row in await timers.select_due(connection, cursors, limit, horizon, terms)]


async def test_what_is_due_comes_in_the_order_of_time(connection: asyncpg.Connection, terms: Terms) -> None:
    late, early, future = [await a_job(connection) for _ in range(3)]
    await timers.upsert(connection, [late.timer(AT), early.timer(AT - MINUTE), future.timer(AT + MINUTE)])
    assert await due(connection, terms) == [early.id, late.id]


async def test_the_scan_begins_at_the_cursor_and_ends_at_the_horizon(
    connection: asyncpg.Connection, terms: Terms
) -> None:
    made = [await a_job(connection) for _ in range(4)]
    await timers.upsert(connection, [job.timer(AT + index * MINUTE) for index, job in enumerate(made)])
    found = await due(connection, terms, cursor=AT + MINUTE, horizon=AT + 2 * MINUTE)
    assert found == [made[1].id, made[2].id]


async def test_due_is_the_time_with_jitter_not_the_nominal_one(
    connection: asyncpg.Connection, terms: Terms, job: Job
) -> None:
    await timers.upsert(connection, [job.timer(AT, due_at=AT + timedelta(seconds=1))])
    assert await due(connection, terms) == []
    assert await due(connection, terms, horizon=AT + timedelta(seconds=1)) == [job.id]


async def test_the_limit_counts_in_each_shard(connection: asyncpg.Connection, terms: Terms) -> None:
    made = [await a_job(connection, shard) for shard in (1, 1, 1, 2, 2)]
    await timers.upsert(connection, [job.timer(AT - index * MINUTE) for index, job in enumerate(made)])
    rows = await timers.select_due(connection, dict.fromkeys((1, 2), AT - 9 * MINUTE), 2, AT, terms)
    assert sorted(row.shard for row in rows) == [1, 1, 2, 2]
    assert made[0].id not in {row.job_id for row in rows}


async def test_an_old_term_gives_nothing(connection: asyncpg.Connection, terms: Terms, job: Job) -> None:
    await timers.upsert(connection, [job.timer(AT)])
    stale = Terms(terms.shards, [term - 1 for term in terms.terms])
    assert await due(connection, stale) == []
    assert await due(connection, terms) == [job.id]


async def test_a_row_comes_back_as_it_was_written(connection: asyncpg.Connection, terms: Terms, job: Job) -> None:
    timer = job.timer(AT, due_at=AT + MINUTE, last=AT - MINUTE, zone="2026a")
    await timers.upsert(connection, [timer])
    (found,) = await timers.select_due(connection, {SHARD: AT}, 1, AT + MINUTE, terms)
    assert found == timer._replace(zone_version="")  # the scan does not fetch it
    assert await timers.lock(connection, [job.id, FIRST]) == {job.id: timer}


async def test_an_edit_under_way_keeps_its_timer_and_holds_nobody_up(
    connection: asyncpg.Connection, other: asyncpg.Connection, terms: Terms
) -> None:
    edited, free = await a_job(connection), await a_job(connection)
    await timers.upsert(connection, [edited.timer(AT), free.timer(AT)])
    async with other.transaction():
        await timers.lock(other, [edited.id])
        assert await due(connection, terms) == [free.id]
    assert set(await due(connection, terms)) == {edited.id, free.id}


async def test_firing_makes_the_run_and_moves_the_timer_on(connection: asyncpg.Connection, job: Job) -> None:
    await timers.upsert(connection, [job.timer(AT)])
    run_id = ids.tick_run_id(job.id, SHARD, AT)
    await timers.fire(connection, [run_id], [job.id], [AT], [AT + MINUTE])
    timer = await stored(connection, job)
    assert (timer["scheduled_for"], timer["due_at"], timer["last_scheduled_for"]) == (AT + MINUTE, AT + MINUTE, AT)
    run = await connection.fetchrow("SELECT * FROM runs")
    assert run is not None
    assert (run["id"], run["job_id"], run["scheduled_for"], run["ready_at"]) == (run_id, job.id, AT, AT)
    assert (run["state"], run["attempt"], run["fencing_token"], run["trigger"]) == ("waiting", 0, 0, "schedule")
    assert (run["shard"], run["tenant_id"], run["queue"], run["target_key"]) == (SHARD, "default", "default", "work")


async def test_a_tick_is_fired_once_by_whoever_comes_first(connection: asyncpg.Connection, job: Job) -> None:
    await timers.upsert(connection, [job.timer(AT)])
    run_id = ids.tick_run_id(job.id, SHARD, AT)
    for _ in range(2):
        await timers.fire(connection, [run_id], [job.id], [AT], [AT + MINUTE])
    assert (await stored(connection, job))["scheduled_for"] == AT + MINUTE
    assert await connection.fetchval("SELECT count(*) FROM runs") == 1


async def test_a_timer_that_was_edited_meanwhile_is_not_fired(connection: asyncpg.Connection, job: Job) -> None:
    await timers.upsert(connection, [job.timer(AT + 5 * MINUTE)])
    await timers.fire(connection, [ids.tick_run_id(job.id, SHARD, AT)], [job.id], [AT], [AT + MINUTE])
    assert (await stored(connection, job))["scheduled_for"] == AT + 5 * MINUTE
    assert await connection.fetchval("SELECT count(*) FROM runs") == 0


async def test_a_tick_whose_run_is_there_already_still_moves_its_timer(
    connection: asyncpg.Connection, job: Job
) -> None:
    await timers.upsert(connection, [job.timer(AT)])
    run_id = ids.tick_run_id(job.id, SHARD, AT)
    await timers.fire(connection, [run_id], [job.id], [AT], [AT + MINUTE])
    await timers.upsert(connection, [job.timer(AT)])
    await timers.fire(connection, [run_id], [job.id], [AT], [AT + MINUTE])
    assert (await stored(connection, job))["scheduled_for"] == AT + MINUTE
    assert await connection.fetchval("SELECT count(*) FROM runs") == 1


async def test_a_move_counts_only_from_where_the_timer_stood(connection: asyncpg.Connection) -> None:
    moved, edited = await a_job(connection), await a_job(connection)
    await timers.upsert(connection, [moved.timer(AT), edited.timer(AT + 9 * MINUTE)])
    moves = [Move(job.id, AT, AT + MINUTE, AT + 2 * MINUTE, AT) for job in (moved, edited)]
    await timers.move(connection, moves)
    timer = await stored(connection, moved)
    assert (timer["scheduled_for"], timer["due_at"], timer["last_scheduled_for"]) == (AT + MINUTE, AT + 2 * MINUTE, AT)
    assert (await stored(connection, edited))["scheduled_for"] == AT + 9 * MINUTE


async def test_an_edit_keeps_the_last_handled_tick(connection: asyncpg.Connection, job: Job) -> None:
    await timers.upsert(connection, [job.timer(AT, last=AT - MINUTE)])
    changed = job.timer(AT + MINUTE)._replace(priority=9, job_version=2, queue="q", target_key="t", schedule_key="s")
    await timers.upsert(connection, [changed])
    assert (await timers.lock(connection, [job.id]))[job.id] == changed._replace(last_scheduled_for=AT - MINUTE)
    await timers.upsert(connection, [job.timer(AT, last=AT)])
    assert (await stored(connection, job))["last_scheduled_for"] == AT


async def test_removing_a_timer_twice_is_no_error(connection: asyncpg.Connection, job: Job) -> None:
    await timers.upsert(connection, [job.timer(AT)])
    for _ in range(2):
        await timers.delete(connection, [job.id])
    assert await connection.fetchval("SELECT count(*) FROM timers") == 0


async def test_nothing_to_write_is_written_without_asking(connection: asyncpg.Connection) -> None:
    await connection.close()
    await timers.fire(connection, [], [], [], [])
    await timers.move(connection, [])
    await timers.delete(connection, [])
    await timers.upsert(connection, [])
    await timers.finish_jobs(connection, [])
    await timers.fail_jobs(connection, {})
    await timers.rearm(connection, {})
    await timers.recompute(connection, [], "2026a")
    await timers.relocate_one_offs(connection, {})


async def status_of(connection: asyncpg.Connection, job: Job) -> tuple[str, str | None]:
    """A job's status and the reason of it."""
    row = await connection.fetchrow("SELECT status, status_reason FROM jobs WHERE id = $1", job.id)
    assert row is not None
    return row["status"], row["status_reason"]


async def test_recurring_jobs_finish_and_one_offs_do_not(connection: asyncpg.Connection, job: Job) -> None:
    one_off = await builders.insert_job(connection, builders.once(AT))
    paused = await a_job(connection)
    await connection.execute("UPDATE jobs SET status = 'paused' WHERE id = $1", paused.id)
    await timers.finish_jobs(connection, [job.id, one_off.id, paused.id])
    states = [(await status_of(connection, each))[0] for each in (job, one_off, paused)]
    assert states == ["finished", "active", "paused"]


async def test_a_job_that_cannot_be_planned_is_in_error_and_has_no_timer(
    connection: asyncpg.Connection, job: Job
) -> None:
    good = await a_job(connection)
    await timers.upsert(connection, [job.timer(AT), good.timer(AT)])
    await timers.fail_jobs(connection, {job.id: "no such zone"})
    assert await status_of(connection, job) == ("error", "no such zone")
    assert await status_of(connection, good) == ("active", None)
    assert await connection.fetchval("SELECT array_agg(job_id) FROM timers") == [good.id]


async def test_ticks_handled_ahead_of_a_clock_that_was_set_back_are_found_page_by_page(
    connection: asyncpg.Connection,
) -> None:
    ahead = [await a_job(connection) for _ in range(3)]
    rest = [await a_job(connection), await a_job(connection), await a_job(connection, shard=9)]
    await timers.upsert(connection, [job.timer(AT + MINUTE, last=AT + MINUTE) for job in ahead])
    await timers.upsert(
        connection, [rest[0].timer(AT, last=AT), rest[1].timer(AT), rest[2].timer(AT, last=AT + MINUTE)]
    )
    first = await timers.select_handled_ahead(connection, [SHARD], AT, FIRST, 2)
    second = await timers.select_handled_ahead(connection, [SHARD], AT, first[-1].job_id, 2)
    assert [row.job_id for row in (*first, *second)] == sorted(job.id for job in ahead)
    await timers.rearm(connection, {ahead[0].id: (AT, AT + MINUTE)})
    timer = await stored(connection, ahead[0])
    assert (timer["scheduled_for"], timer["due_at"], timer["last_scheduled_for"]) == (AT, AT + MINUTE, None)


async def test_timers_of_older_zone_data_are_found_and_computed_anew(connection: asyncpg.Connection) -> None:
    old, new, free, moved = [await a_job(connection) for _ in range(4)]
    await timers.upsert(
        connection,
        [old.timer(AT, zone="2025b"), new.timer(AT, zone="2026a"), free.timer(AT), moved.timer(AT, zone="2025b")],
    )
    found = await timers.select_other_zone_version(connection, [SHARD], "2026a", FIRST, 10)
    assert [row.job_id for row in found] == sorted((old.id, moved.id))
    assert {row.zone_version for row in found} == {"2025b"}
    await timers.move(connection, [Move(moved.id, AT, AT + 9 * MINUTE, AT + 9 * MINUTE, AT)])
    anew = [Recomputed(job.id, AT, AT + MINUTE, AT + 2 * MINUTE, "key") for job in (old, moved)]
    await timers.recompute(connection, anew, "2026a")
    timer = await stored(connection, old)
    assert (timer["scheduled_for"], timer["due_at"]) == (AT + MINUTE, AT + 2 * MINUTE)
    assert (timer["schedule_key"], timer["zone_version"]) == ("key", "2026a")
    assert (await stored(connection, moved))["zone_version"] == "2025b"


async def test_only_one_offs_given_as_wall_time_are_relocated(connection: asyncpg.Connection) -> None:
    local = await builders.insert_job(connection, schedule.Once(AT, "2026-03-01T13:00:00", "Europe/Berlin"))
    absolute = await builders.insert_job(connection, builders.once(AT))
    await timers.relocate_one_offs(connection, {local.id: AT + MINUTE, absolute.id: AT + MINUTE})
    rows = await connection.fetch("SELECT id, run_at FROM jobs")
    assert {row["id"]: row["run_at"] for row in rows} == {local.id: AT + MINUTE, absolute.id: AT}


async def test_overdue_timers_are_counted_to_a_bound(connection: asyncpg.Connection) -> None:
    made = [await a_job(connection) for _ in range(3)]
    await timers.upsert(connection, [job.timer(AT - MINUTE) for job in made])
    assert await timers.count_overdue(connection, [SHARD], AT, 10) == 3
    assert await timers.count_overdue(connection, [SHARD], AT, 2) == 2
    assert await timers.count_overdue(connection, [SHARD], AT - MINUTE, 10) == 0
    assert await timers.count_overdue(connection, [SHARD + 1], AT, 10) == 0
