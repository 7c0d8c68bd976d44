"""The auditor: clean systems are clean, and each kind of fault, made by hand in the rows, is found and named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from horarium.domain import job
from horarium.domain.faults import Kind
from horarium.services import auditor
from tests.services.catalog_world import NOON, WHO, World, instant, world

DAY = timedelta(days=1)


@pytest.fixture
async def at_work(emptied_url: str) -> AsyncIterator[World]:
    async with world(emptied_url) as made:
        yield made


async def fired_for(at_work: World, *, hours: int, step: int = 1) -> None:
    """Let time pass, with a look of the scheduler every `step` hours: what is due runs, by its misfire policy."""
    for _ in range(0, hours, step):
        at_work.later(hours=step)
        await at_work.fire()


async def busy(at_work: World, **members: Any) -> job.Job:
    """An hourly job that has run for ten hours."""
    made = await at_work.create(schedule="0 * * * *", **members)
    await fired_for(at_work, hours=10)
    for run in await at_work.rows("runs", made):
        await at_work.end(run["id"])
    return made


async def kinds(at_work: World) -> list[Kind]:
    """The kinds of faults that are found."""
    return [fault.kind for fault in await at_work.faults()]


async def told(at_work: World) -> str:
    """What is said of the one fault that there is."""
    (fault,) = await at_work.faults()
    return fault.text


@pytest.mark.parametrize("misfire", ["skip", "run_once", "run_all"])
@pytest.mark.parametrize(
    "members",
    [
        {"schedule": "30 1 * * *", "timezone": "America/New_York"},
        {"schedule": "0 * * * *", "timezone": "America/New_York"},
        {"schedule": "*/15 2 * * *", "timezone": "Australia/Lord_Howe"},
        {"interval_s": 1000},
        {"schedule": "*/5 * * * *", "jitter_s": 200},
        {"schedule": "* * * * *", "end_at": "2026-11-01T12:00:00Z"},
        {"run_at": "2026-11-01T06:00:00Z"},
    ],
)
async def test_schedules_of_all_kinds_through_changes_of_clocks(
    at_work: World, members: dict[str, Any], misfire: str
) -> None:
    """Over the nights of the changes, with looks every five hours: so most ticks are missed, each as its policy says."""
    at_work.at("2026-10-02T20:00:10+00:00" if "Lord_Howe" in str(members) else "2026-10-31T12:00:10+00:00")
    await at_work.create(misfire=misfire, max_catch_up=7, **members)
    await fired_for(at_work, hours=50, step=5)
    assert await at_work.faults() == []


async def test_changes_in_a_row(at_work: World) -> None:
    """Pauses, resumes with and without amends, other schedules, and again: the books balance after each."""
    made = await at_work.create(schedule="*/7 * * * *")
    for number in range(30):
        at_work.later(minutes=11, seconds=number)
        await at_work.fire()
        match number % 6:
            case 1:
                await at_work.catalog.pause(WHO, made.id)
            case 3:
                await at_work.patch(made, schedule=f"*/{number % 5 + 2} * * * *", interval_s=None)
            case 4:
                await at_work.catalog.resume(WHO, made.id, ["skip", "run_once", "run_all"][number % 3])
            case 5:
                await at_work.patch(made, interval_s=60 + number, schedule=None)
        assert await at_work.faults() == [], number


async def test_a_tick_that_began_early_is_not_paused_too(at_work: World) -> None:
    """A run that a worker was given some milliseconds ahead of its time goes on when the job is paused: it is no skip."""
    made = await at_work.create(schedule="* * * * * *")
    await at_work.fire()
    ahead = await at_work.rows("runs", made)
    await at_work.start(ahead[2]["id"])
    await at_work.catalog.pause(WHO, made.id)
    at_work.later(seconds=20)
    await at_work.catalog.resume(WHO, made.id)
    assert [reason for reason, *_ in await at_work.skipped(made)] == ["paused", "paused"]
    assert await at_work.run_times(made) == [ahead[2]["scheduled_for"]]


async def test_a_tick_that_began_early_survives_an_edit(at_work: World) -> None:
    made = await at_work.create(schedule="* * * * * *")
    await at_work.fire()
    await at_work.start((await at_work.rows("runs", made))[2]["id"])
    await at_work.patch(made, schedule="*/2 * * * * *")
    at_work.later(seconds=9)
    await at_work.fire()
    assert len(await at_work.run_times(made)) > 4


async def test_lost_ticks(at_work: World) -> None:
    made = await busy(at_work)
    at_work.cook_the_books()
    await at_work.execute("DELETE FROM history WHERE scheduled_for IN ('2026-12-01T15:00Z', '2026-12-01T16:00Z')")
    (fault,) = await at_work.faults()
    assert (fault.kind, fault.job_id, fault.number) == (Kind.MISSING_TICKS, made.id, 2)
    assert (fault.first, fault.last) == (instant("2026-12-01T15:00:00Z"), instant("2026-12-01T16:00:00Z"))
    assert fault.text == "2 ticks from 2026-12-01T15:00:00Z to 2026-12-01T16:00:00Z are neither runs nor skips"


async def test_lost_ticks_of_a_timer_that_was_moved_on(at_work: World) -> None:
    await busy(at_work)
    at_work.cook_the_books()
    await at_work.execute("UPDATE timers SET scheduled_for = scheduled_for + '3 hours', due_at = due_at + '3 hours'")
    assert "3 ticks from 2026-12-01T23:00:00Z" in await told(at_work)


async def test_ticks_that_stand_for_each_other(at_work: World) -> None:
    """One is lost and another one is doubled: their number is right, and it is found all the same."""
    await busy(at_work)
    at_work.cook_the_books()
    await at_work.execute(
        "UPDATE history SET scheduled_for = '2026-12-01T15:00Z' WHERE scheduled_for = '2026-12-01T17:00Z'"
    )
    assert await kinds(at_work) == [Kind.DOUBLED_TICKS, Kind.MISSING_TICKS]


async def test_a_doubled_run_and_a_run_that_was_skipped_too(at_work: World) -> None:
    made = await busy(at_work)
    at_work.cook_the_books()
    await at_work.execute("INSERT INTO history SELECT * FROM history WHERE scheduled_for = '2026-12-01T15:00Z'")
    assert await told(at_work) == "tick 2026-12-01T15:00:00Z is accounted for twice"
    await at_work.execute("DELETE FROM history WHERE scheduled_for = '2026-12-01T15:00Z'")
    await at_work.execute(
        "INSERT INTO skips (job_id, tenant_id, shard, first, last, count, reason)"
        " VALUES ($1, 'default', $2, '2026-12-01T15:00Z', '2026-12-01T16:00Z', 2, 'misfire')",
        made.id,
        made.shard,
    )
    assert await kinds(at_work) == [Kind.DOUBLED_TICKS]


async def test_a_run_at_a_time_that_the_schedule_does_not_name(at_work: World) -> None:
    made = await busy(at_work)
    at_work.cook_the_books()
    await at_work.execute(
        "UPDATE history SET scheduled_for = scheduled_for + '1 minute' WHERE scheduled_for = '2026-12-01T15:00Z'"
    )
    faults = await at_work.faults()
    assert [(fault.kind, fault.job_id) for fault in faults] == [
        (Kind.MISSING_TICKS, made.id),
        (Kind.UNEXPECTED_TICKS, made.id),
    ]


async def test_a_job_without_its_timer(at_work: World) -> None:
    made = await busy(at_work)
    at_work.cook_the_books()
    await at_work.execute("DELETE FROM timers")
    at_work.later(hours=2, minutes=30)
    (fault,) = await at_work.faults()
    assert (fault.kind, fault.job_id, fault.first) == (Kind.MISSING_TIMER, made.id, instant("2026-12-01T23:00:00Z"))
    assert fault.number == 2


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_one_off_without_timer_and_run(at_work: World, hours: int) -> None:
    made = await at_work.create(run_at=(NOON + timedelta(hours=2)).isoformat())
    at_work.cook_the_books()
    await at_work.execute("DELETE FROM timers")
    at_work.later(hours=2 + hours)
    (fault,) = await at_work.faults()
    assert (fault.kind, fault.job_id, fault.first) == (Kind.MISSING_TIMER, made.id, NOON + timedelta(hours=2))


async def test_a_one_off_made_for_a_moment_that_has_passed(at_work: World) -> None:
    made = await at_work.create(run_at=(NOON - timedelta(minutes=3)).isoformat())
    assert len(await at_work.rows("runs", made)) == 1
    assert await at_work.faults() == []


async def test_timers_that_should_not_be(at_work: World) -> None:
    paused = await at_work.create(name="paused", schedule="0 0 * * *")
    await at_work.catalog.pause(WHO, paused.id)
    gone = await at_work.create(name="gone", schedule="0 0 * * *")
    at_work.cook_the_books()
    await at_work.execute("INSERT INTO timers SELECT $1, * FROM (SELECT scheduled_for, due_at, last_scheduled_for, shard,"
                          " priority, job_version, tenant_id, queue, target_key, schedule_key, policy_key, zone_version"
                          " FROM timers) AS t", paused.id)  # fmt: skip
    await at_work.execute("DELETE FROM jobs WHERE id = $1", gone.id)
    assert {(fault.kind, fault.job_id, fault.text) for fault in await at_work.faults()} == {
        (Kind.STRAY_TIMER, paused.id, "it has a timer and is paused"),
        (Kind.STRAY_TIMER, gone.id, "it has a timer and is gone"),
    }


async def test_runs_without_jobs_and_runs_that_ended_and_live(at_work: World) -> None:
    orphan = await at_work.create(name=None, run_at="now")
    ended = await at_work.create(name=None, run_at="now")
    (run,) = await at_work.rows("runs", ended)
    at_work.cook_the_books()
    await at_work.end(run["id"])
    await at_work.execute(
        "INSERT INTO runs (id, job_id, scheduled_for, ready_at, job_version, shard, priority, tenant_id, queue, target_key)"
        " SELECT id, job_id, scheduled_for, ready_at, job_version, shard, priority, tenant_id, queue, target_key FROM history"
    )
    await at_work.execute("DELETE FROM jobs WHERE id = $1", orphan.id)
    faults = await at_work.faults()
    assert [(fault.kind, fault.text) for fault in faults] == [
        (Kind.RUN_WITHOUT_JOB, "a waiting run of a job that is gone"),
        (Kind.LIVE_AND_ENDED, "it has ended, and is waiting all the same"),
        (Kind.DOUBLED_TICKS, "tick 2026-12-01T12:00:00Z is accounted for twice"),
    ]
    assert faults[1].run_id == run["id"]


async def test_leases_that_nobody_takes_back(at_work: World) -> None:
    made = await at_work.create(name=None, run_at="now")
    (run,) = await at_work.rows("runs", made)
    await at_work.start(run["id"])
    await at_work.execute("UPDATE runs SET lease_expires_at = $1", at_work.clock.now())
    at_work.later(hours=1)
    at_work.cook_the_books()
    assert await kinds(at_work) == []  # nobody leads the shard: whoever takes it gives the run a fresh lease
    await at_work.execute("UPDATE shards SET leader = 'n', lease_expires_at = $1", at_work.clock.now() + DAY)
    assert await kinds(at_work) == [Kind.STUCK_LEASE]
    assert "its lease by w1 ended 2026-12-01T12:00:00Z" in await told(at_work)


async def test_dead_letters_without_their_runs(at_work: World) -> None:
    made = await busy(at_work)
    at_work.cook_the_books()
    await at_work.execute(
        "INSERT INTO dead_letters (run_id, job_id, tenant_id, queue, shard, fingerprint, attempts)"
        " VALUES (gen_random_uuid(), $1, 'default', 'default', $2, 'f', 3)",
        made.id,
        made.shard,
    )
    assert await kinds(at_work) == [Kind.LETTER_WITHOUT_RUN]


async def test_shards_and_timers_that_nobody_cares_for(at_work: World) -> None:
    made = await at_work.create(schedule="0 * * * *")
    at_work.later(hours=1, minutes=2)
    faults = await auditor.audit(at_work.database, NOON, at_work.clock.now())
    assert [fault.kind for fault in faults] == [*[Kind.SHARD_WITHOUT_LEADER] * 16, Kind.OVERDUE_TIMER]
    assert (faults[-1].job_id, faults[-1].first) == (made.id, instant("2026-12-01T13:00:00Z"))
    await at_work.execute("UPDATE shards SET leader = 'n', lease_expires_at = $1", at_work.clock.now() + DAY)
    await at_work.fire()
    assert await auditor.audit(at_work.database, NOON, at_work.clock.now()) == []


async def test_a_schedule_that_cannot_be_told(at_work: World) -> None:
    made = await at_work.create(schedule="0 * * * *", timezone="Europe/Riga")
    await at_work.create(name="sound", schedule="0 * * * *")
    at_work.cook_the_books()
    await at_work.execute("UPDATE jobs SET timezone = 'Europe/Nowhere' WHERE id = $1", made.id)
    await fired_for(at_work, hours=3)
    assert Kind.UNPLANNABLE in await kinds(at_work)


async def test_only_the_time_asked_for_is_judged(at_work: World) -> None:
    await busy(at_work)
    at_work.cook_the_books()
    await at_work.execute("DELETE FROM history WHERE scheduled_for = '2026-12-01T13:00Z'")
    assert await kinds(at_work) == [Kind.MISSING_TICKS]
    await at_work.execute("UPDATE shards SET leader = 'n', lease_expires_at = $1", at_work.clock.now() + DAY)
    assert await auditor.audit(at_work.database, instant("2026-12-01T13:00:00Z"), at_work.clock.now()) == []


async def test_shards_that_live_elsewhere_are_left_out(at_work: World) -> None:
    made = await busy(at_work)
    at_work.cook_the_books()
    await at_work.execute("DELETE FROM history")
    await at_work.execute("UPDATE shards SET state = 'gone' WHERE shard = $1", made.shard)
    try:
        assert await kinds(at_work) == []
    finally:
        await at_work.execute("UPDATE shards SET state = 'here'")
