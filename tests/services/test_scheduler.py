"""Firing on a real database: cursors, pokes, two leaders by mistake, late ticks, and jobs in trouble."""

from __future__ import annotations

import asyncio
import collections
from datetime import datetime, timedelta
from typing import Any

import pytest

from horarium import clock as clocks
from horarium import errors
from horarium.domain import ids, misfire, schedule, states
from horarium.domain.overlap import Overlap
from horarium.domain.ready_set import ReadySet
from horarium.domain.run import Phase
from horarium.events import Events, Name
from horarium.services import scheduler as schedulers
from horarium.services.leader import Leader
from horarium.services.scheduler import Scheduler
from horarium.store import shards, timers
from tests import builders
from tests.builders import Core, Job

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def whole_second(core: Core) -> datetime:
    """The next full second by the core's clock."""
    return core.clock.now().replace(microsecond=0) + SECOND


async def every(core: Core, interval: timedelta, first: datetime, **members: Any) -> Job:
    """A job with an interval, its timer standing at its first occurrence."""
    made = await core.job(schedule.Every(interval, first), **members)
    await core.arm(made.timer(first))
    return made


async def fire(core: Core) -> None:
    """Fire until nothing more is due."""
    while await core.scheduler.run_once() == 0:
        pass


async def nominal_times(core: Core, made: Job) -> list[datetime]:
    rows = await core.fetch("SELECT scheduled_for FROM runs WHERE job_id = $1 ORDER BY 1", made.id)
    return [row[0] for row in rows]


async def timer(core: Core, made: Job) -> dict[str, Any]:
    row = await core.fetchrow("SELECT * FROM timers WHERE job_id = $1", made.id)
    assert row is not None
    return dict(row)


async def test_a_due_timer_becomes_a_run_and_moves_on(core: Core) -> None:
    at = whole_second(core)
    made = await every(core, HOUR, at, priority=7, queue="mail", tenant_id="acme")
    await fire(core)
    run_id = ids.tick_run_id(made.id, made.shard, at)
    row = await core.row(run_id)
    assert row is not None
    assert (row["scheduled_for"], row["ready_at"], row["state"], row["trigger"]) == (at, at, "waiting", "schedule")
    assert (row["priority"], row["queue"], row["tenant_id"], row["target_key"]) == (7, "mail", "acme", "work")
    moved = await timer(core, made)
    assert (moved["scheduled_for"], moved["due_at"], moved["last_scheduled_for"]) == (at + HOUR, at + HOUR, at)
    assert core.leader.ready.runs[run_id].phase is Phase.WHEEL
    assert core.leader.ready.runs[run_id].ready_at == clocks.to_seconds(at)
    assert core.told.total(Name.RUNS_FIRED) == 1


async def test_nothing_beyond_the_look_ahead_is_fired(core: Core) -> None:
    made = await every(core, HOUR, core.clock.now() + builders.LOOKAHEAD + SECOND)
    await fire(core)
    assert await nominal_times(core, made) == []
    core.pass_time(1)
    await fire(core)
    assert len(await nominal_times(core, made)) == 1


async def test_a_job_of_each_second_gets_the_runs_of_the_look_ahead_at_once(core: Core) -> None:
    at = whole_second(core)
    made = await every(core, SECOND, at)
    await fire(core)
    expected = [at + n * SECOND for n in range(10)]
    assert [time for time in await nominal_times(core, made) if time < at + 10 * SECOND] == expected
    before = len(await nominal_times(core, made))
    core.pass_time(5)
    await fire(core)
    assert len(await nominal_times(core, made)) == before + 5
    assert (await timer(core, made))["last_scheduled_for"] == (await nominal_times(core, made))[-1]


async def test_firing_again_makes_nothing_twice(core: Core) -> None:
    made = await every(core, SECOND, whole_second(core))
    await fire(core)
    before = await nominal_times(core, made)
    await core.arm(made.timer(before[0]))  # a timer set back by mistake
    core.leader.rescan()
    await fire(core)
    assert await nominal_times(core, made) == before
    assert len(core.leader.ready) == len(before)


async def test_jitter_delays_the_start_and_not_the_nominal_time(core: Core) -> None:
    at = whole_second(core)
    made = await core.job(schedule.Every(MINUTE, at), jitter=timedelta(seconds=50))
    due = schedule.due_time(made.id, at, made.schedule, at + MINUTE)
    await core.arm(made.timer(at, due_at=due))
    core.pass_time(60)
    await fire(core)
    first = await core.fetchrow("SELECT scheduled_for, ready_at FROM runs ORDER BY id LIMIT 1")
    assert first is not None
    assert tuple(first) == (at, due)
    assert at < due < at + MINUTE
    assert (await timer(core, made))["scheduled_for"] > at


async def test_the_cursor_passes_over_what_was_seen(core: Core) -> None:
    await every(core, HOUR, whole_second(core))
    await fire(core)
    horizon = core.clock.now() + builders.LOOKAHEAD
    assert set(core.leader.cursors.values()) == {horizon}


async def test_a_timer_behind_the_cursor_is_found_by_the_slow_scan(core: Core) -> None:
    await fire(core)
    made = await every(core, HOUR, whole_second(core))  # nobody told the leader
    await fire(core)
    assert await nominal_times(core, made) == []
    core.pass_time(schedulers.SLOW_SCAN_S)
    await fire(core)
    assert len(await nominal_times(core, made)) == 1


async def test_a_database_that_stood_still_does_not_put_the_next_slow_scan_off_for_long(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulation: a timer behind the cursor waited for twenty times the length of a stall."""
    select_due = timers.select_due

    async def stalled(*arguments: Any) -> list[timers.TimerRow]:
        core.clock.advance(60)
        return await select_due(*arguments)

    with monkeypatch.context() as during:
        during.setattr(timers, "select_due", stalled)
        await fire(core)
    made = await every(core, HOUR, whole_second(core))  # nobody told the leader
    core.pass_time(schedulers.SLOW_SCAN_AT_LEAST_EVERY_S)
    await fire(core)
    assert len(await nominal_times(core, made)) == 1


async def test_a_timer_behind_the_cursor_is_found_after_a_poke(core: Core) -> None:
    await fire(core)
    at = whole_second(core)
    made = await every(core, HOUR, at)
    woken: list[bool] = []
    core.leader.on_timers = lambda: woken.append(True)
    core.leader.timers_changed([(made.shard, at)])
    assert woken == [True]
    await fire(core)
    assert await nominal_times(core, made) == [at]


@pytest.mark.parametrize("slow", [False, True])
async def test_a_poke_during_a_scan_is_not_overwritten(core: Core, monkeypatch: pytest.MonkeyPatch, slow: bool) -> None:
    """The timer is committed after the scan has read, and before its transaction ends."""
    await fire(core)
    at = whole_second(core)
    made: list[Job] = []
    select_due = timers.select_due

    async def selecting(*arguments: Any) -> Any:
        due = await select_due(*arguments)
        if not made:
            made.append(await every(core, HOUR, at))
            core.leader.timers_changed([(made[0].shard, at)])
        return due

    monkeypatch.setattr(timers, "select_due", selecting)
    if slow:
        core.pass_time(schedulers.SLOW_SCAN_S)
    await core.scheduler.run_once()
    assert await nominal_times(core, made[0]) == []
    await core.scheduler.run_once()
    assert await nominal_times(core, made[0]) == [at]


async def test_a_poke_during_a_scan_counts_ahead_of_the_cursor_too(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later than where the scan began and earlier than where it ends: the scan has passed over it all the same."""
    await fire(core)
    at = max(core.leader.cursors.values()) + timedelta(milliseconds=500)
    core.pass_time(1)
    made: list[Job] = []
    select_due = timers.select_due

    async def selecting(*arguments: Any) -> Any:
        due = await select_due(*arguments)
        if not made:
            made.append(await every(core, HOUR, at))
            core.leader.timers_changed([(made[0].shard, at)])
        return due

    monkeypatch.setattr(timers, "select_due", selecting)
    await core.scheduler.run_once()
    await core.scheduler.run_once()
    assert await nominal_times(core, made[0]) == [at]


async def test_a_timer_that_is_being_edited_is_passed_over(core: Core) -> None:
    at = whole_second(core)
    edited, other = await every(core, HOUR, at), await every(core, HOUR, at)
    async with core.database.transaction() as connection:
        held = await timers.lock(connection, [edited.id])
        assert held[edited.id].scheduled_for == at
        await fire(core)
        assert await nominal_times(core, other) == [at]
        await timers.delete(connection, [edited.id])
    core.pass_time(schedulers.SLOW_SCAN_S)
    await fire(core)
    assert await nominal_times(core, edited) == []


async def test_many_timers_are_fired_batch_by_batch(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedulers, "TIMERS_AT_ONCE", 16 * 3)  # three of each of the sixteen shards
    at = whole_second(core)
    made = [await core.job(schedule.Every(HOUR, at)) for _ in range(10)]
    await core.arm(*(job.timer(at + n * timedelta(milliseconds=1)) for n, job in enumerate(made)))
    looks = 1
    while await core.scheduler.run_once() == 0:
        looks += 1
    assert looks == 4
    assert await core.fetchval("SELECT count(*) FROM runs") == 10


async def test_every_shard_is_scanned(core: Core) -> None:
    at = whole_second(core)
    for shard in range(16):
        await every(core, HOUR, at, shard=shard)
    await fire(core)
    assert await core.fetchval("SELECT count(DISTINCT shard) FROM runs") == 16
    assert {ids.shard_of(row["id"]) for row in await core.fetch("SELECT id FROM runs")} == set(range(16))


async def test_two_schedulers_under_the_same_terms_make_nothing_twice(core: Core) -> None:
    """Two leaders by mistake: the occurrence has one identity, the timer moves only by compare-and-set."""
    at = whole_second(core)
    jobs = [await core.job(schedule.Every(SECOND, at), shard=n % 16) for n in range(40)]
    await core.arm(*(made.timer(at) for made in jobs))
    other = second_scheduler(core)
    for _ in range(6):
        await asyncio.gather(core.scheduler.run_once(), other.run_once(), core.scheduler.run_once())
        core.clock.advance(3)
    await fire(core)
    for made in jobs:
        times = await nominal_times(core, made)
        assert times == [at + n * SECOND for n in range(len(times))]
        assert (await timer(core, made))["scheduled_for"] == times[-1] + SECOND
    assert await core.fetchval("SELECT count(*) FROM skips") == 0


def second_scheduler(core: Core) -> Scheduler:
    """Another node's scheduler that names the same terms."""
    leader = Leader(core.clock, ReadySet(lease_s=15))
    leader.take_shards(dict(core.leader.terms))
    leader.loaded(core.leader.terms)
    return Scheduler(core.database, leader, Events(), builders.LOOKAHEAD)


async def test_a_leader_of_the_past_fires_nothing(core: Core) -> None:
    made = await every(core, HOUR, whole_second(core))
    await core.fetch("UPDATE shards SET term = term + 1")
    await fire(core)
    assert await nominal_times(core, made) == []
    assert (await timer(core, made))["last_scheduled_for"] is None


async def test_only_the_shards_whose_term_is_ours_are_fired(core: Core) -> None:
    at = whole_second(core)
    kept, lost = await every(core, HOUR, at, shard=1), await every(core, HOUR, at, shard=2)
    await core.fetch("UPDATE shards SET term = term + 1 WHERE shard = 2")
    await fire(core)
    assert await nominal_times(core, kept) == [at]
    assert await nominal_times(core, lost) == []


async def test_a_shard_that_is_lost_while_it_fires_leaves_nothing_in_memory(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    await every(core, HOUR, whole_second(core))
    finish_jobs = timers.finish_jobs

    async def lose(*arguments: Any) -> None:
        await finish_jobs(*arguments)
        core.leader.drop_shards(list(core.leader.terms))

    monkeypatch.setattr(timers, "finish_jobs", lose)
    await core.scheduler.run_once()
    assert len(core.leader.ready) == 0


async def test_a_shard_that_is_not_loaded_yet_is_not_fired(core: Core) -> None:
    """Its live runs are not known, so the overlap rule cannot be judged."""
    made = await every(core, HOUR, whole_second(core))
    terms = dict(core.leader.terms)
    core.leader.drop_shards(terms)
    core.leader.take_shards(terms)
    assert await core.scheduler.run_once() == schedulers.SCAN_EVERY_S
    assert await nominal_times(core, made) == []
    core.leader.loaded(terms)
    await fire(core)
    assert len(await nominal_times(core, made)) == 1


@pytest.mark.parametrize("broken", ['["cron","0 9 * * *","Mars/Olympus"]', "nonsense", '["every",0,0]', "[]"])
async def test_a_schedule_that_cannot_be_planned_is_one_jobs_trouble(core: Core, broken: str) -> None:
    at = whole_second(core)
    good, bad = await every(core, HOUR, at), await core.job(schedule.Every(HOUR, at))
    await core.arm(bad.timer(at)._replace(schedule_key=broken))
    await fire(core)
    assert await nominal_times(core, good) == [at]
    assert await nominal_times(core, bad) == []
    row = await core.fetchrow("SELECT status, status_reason FROM jobs WHERE id = $1", bad.id)
    assert row is not None
    assert row["status"] == states.JobStatus.ERROR
    assert row["status_reason"]
    assert await core.fetchrow("SELECT FROM timers WHERE job_id = $1", bad.id) is None
    (event,) = core.told.named(Name.JOB_IN_ERROR)
    assert event.fields["job_id"] == bad.id


async def test_a_job_whose_end_is_reached_is_finished(core: Core) -> None:
    at = whole_second(core)
    made = await core.job(schedule.Every(SECOND, at), end_at=at + 2 * SECOND)
    await core.arm(made.timer(at))
    await fire(core)
    assert await nominal_times(core, made) == [at, at + SECOND, at + 2 * SECOND]
    assert await core.fetchrow("SELECT FROM timers WHERE job_id = $1", made.id) is None
    assert await core.fetchval("SELECT status FROM jobs WHERE id = $1", made.id) == "finished"


async def test_a_one_off_is_fired_once_and_its_job_row_is_not_written(core: Core) -> None:
    at = whole_second(core)
    made = await core.job(schedule.Once(at))
    await core.arm(made.timer(at))
    await fire(core)
    assert await nominal_times(core, made) == [at]
    assert await core.fetchrow("SELECT FROM timers WHERE job_id = $1", made.id) is None
    assert await core.fetchval("SELECT status FROM jobs WHERE id = $1", made.id) == "active"


async def test_ticks_missed_by_more_than_the_grace_are_made_up_for_by_one(core: Core) -> None:
    at = whole_second(core)
    made = await every(core, MINUTE, at)
    core.pass_time(630)
    await fire(core)
    times = await nominal_times(core, made)
    assert len(times) == 1
    (skip,) = await core.fetch("SELECT * FROM skips")
    into = ids.tick_run_id(made.id, made.shard, times[0])
    assert (skip["first"], skip["last"], skip["reason"], skip["coalesced_into"]) == (
        at,
        times[0] - MINUTE,
        "coalesced",
        into,
    )
    assert skip["count"] == (times[0] - at) // MINUTE
    assert (await timer(core, made))["scheduled_for"] == times[0] + MINUTE
    assert (await timer(core, made))["last_scheduled_for"] == times[0]
    (event,) = core.told.named(Name.TICKS_SKIPPED)
    assert event.fields["count"] == skip["count"]


async def test_ticks_missed_under_skip_are_written_down(core: Core) -> None:
    at = whole_second(core)
    made = await every(core, MINUTE, at, late=misfire.MisfirePolicy(misfire.Misfire.SKIP))
    core.pass_time(630)
    await fire(core)
    assert await nominal_times(core, made) == []
    (skip,) = await core.fetch("SELECT first, count, reason FROM skips")
    assert (skip["first"], skip["reason"]) == (at, "misfire")
    assert (await timer(core, made))["scheduled_for"] == at + skip["count"] * MINUTE


async def test_ticks_missed_under_run_all_run_each(core: Core) -> None:
    at = whole_second(core)
    made = await every(core, MINUTE, at, late=misfire.MisfirePolicy(misfire.Misfire.RUN_ALL))
    core.pass_time(630)
    await fire(core)
    times = await nominal_times(core, made)
    assert times == [at + n * MINUTE for n in range(len(times))]
    assert len(times) == 11
    assert await core.fetchval("SELECT count(*) FROM skips") == 0


async def test_every_nominal_time_is_a_run_or_a_skip(core: Core) -> None:
    """Looks at random moments, over an outage too: the books balance."""
    at = whole_second(core)
    made = await every(core, SECOND, at, late=misfire.MisfirePolicy(grace=timedelta(seconds=5)))
    for pause in (1, 0.3, 7, 2.5, 1, 40, 3, 1, 9.9, 61.1, 1):
        core.clock.advance(pause)
        await fire(core)
    ran = await nominal_times(core, made)
    skipped = [
        row["first"] + n * SECOND for row in await core.fetch("SELECT * FROM skips") for n in range(row["count"])
    ]
    nominal = collections.Counter([*ran, *skipped])
    assert set(nominal.values()) == {1}
    assert sorted(nominal) == [at + n * SECOND for n in range(len(nominal))]
    assert (await timer(core, made))["scheduled_for"] == max(nominal) + SECOND
    assert len(skipped) > 0


async def test_the_overlap_rule_goes_with_the_run(core: Core) -> None:
    made = await every(core, HOUR, whole_second(core), overlap=Overlap.SKIP)
    await fire(core)
    (run,) = core.leader.ready.runs.values()
    assert (run.job_id, run.overlap) == (made.id, Overlap.SKIP)


async def test_an_enqueue_from_sql_is_fired(core: Core) -> None:
    job_id = await core.fetchval("SELECT enqueue('hello', '{\"a\": 1}', tenant => 'acme')")
    core.pass_time(30)  # the database's clock went on
    await fire(core)
    (lease,) = await core.lease()
    assert (lease["job_id"], lease["target"], lease["payload"]) == (str(job_id), {"handler": "hello"}, {"a": 1})
    assert await core.fetchval("SELECT tenant_id FROM runs") == "acme"
    assert ids.shard_of(job_id) == await core.fetchval("SELECT shard FROM jobs")


async def test_a_database_that_cannot_be_asked_moves_no_cursor(core: Core) -> None:
    made = await every(core, HOUR, whole_second(core))
    await core.database.close()
    with pytest.raises(errors.UnavailableError):
        await core.scheduler.run_once()
    assert set(core.leader.cursors.values()) == {clocks.EPOCH}
    await core.database.open()
    await fire(core)
    assert len(await nominal_times(core, made)) == 1


async def test_a_fault_in_the_middle_leaves_nothing_half_done(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    late, punctual = await every(core, MINUTE, core.clock.now() - HOUR), await every(core, HOUR, whole_second(core))

    async def failing(*arguments: Any) -> None:
        raise RuntimeError("a fault of ours")

    with monkeypatch.context() as patched:
        patched.setattr(timers, "finish_jobs", failing)
        with pytest.raises(RuntimeError):
            await core.scheduler.run_once()
    assert await core.fetchval("SELECT count(*) FROM runs") + await core.fetchval("SELECT count(*) FROM skips") == 0
    await fire(core)
    assert len(await nominal_times(core, late)) == len(await nominal_times(core, punctual)) == 1


async def test_without_shards_nothing_is_asked(core: Core) -> None:
    core.leader.drop_shards(list(core.leader.terms))
    await core.database.close()
    assert await core.scheduler.run_once() == schedulers.SCAN_EVERY_S
    await core.database.open()


async def test_a_take_over_looks_at_all_timers(core: Core) -> None:
    await fire(core)
    made = await every(core, HOUR, core.clock.now() - SECOND)
    taken = list(core.leader.terms)
    core.leader.drop_shards(taken)
    await core.fetch("UPDATE shards SET lease_expires_at = now() - interval '1 second'")
    async with core.database.connection() as connection:
        terms = await shards.take(connection, "node-2", builders.LONG, 4096)
    core.leader.take_shards(terms)
    core.leader.loaded(terms)
    await fire(core)
    assert len(await nominal_times(core, made)) == 1
