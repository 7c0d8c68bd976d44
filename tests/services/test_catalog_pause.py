"""Pause and resume (rules P1 to P4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from horarium import errors
from horarium.domain.states import JobStatus
from horarium.services.resumer import Resumer
from tests.services.catalog_world import NOON, WHO, World, instant, world


@pytest.fixture
async def at_work(emptied_url: str) -> AsyncIterator[World]:
    async with world(emptied_url) as made:
        yield made


async def test_paused_time_is_not_missed_time(at_work: World) -> None:
    """kubernetes/kubernetes#45825: a job paused over a weekend never ran again (P2)."""
    at_work.at("2026-12-04T18:00:30+00:00")
    made = await at_work.create(schedule="*/10 * * * *")
    await at_work.catalog.pause(WHO, made.id)
    at_work.at("2026-12-07T08:03:00+00:00")
    await at_work.fire()
    await at_work.catalog.resume(WHO, made.id)
    assert await at_work.next_time(made) == instant("2026-12-07T08:10:00Z")
    assert await at_work.rows("runs", made) == []
    assert await at_work.skipped(made) == [
        ("paused", instant("2026-12-04T18:10:00Z"), instant("2026-12-07T08:00:00Z"), 372)
    ]


async def test_a_resume_does_not_start_what_the_night_left_over(at_work: World) -> None:
    """vtmocanu/uzi#396: a resume in the afternoon started the run of the night (P2)."""
    at_work.at("2026-12-02T01:00:00+00:00")
    made = await at_work.create(schedule="0 2 * * *")
    await at_work.catalog.pause(WHO, made.id)
    at_work.at("2026-12-02T15:00:00+00:00")
    await at_work.catalog.resume(WHO, made.id)
    assert await at_work.next_time(made) == instant("2026-12-03T02:00:00Z")
    assert await at_work.rows("runs", made) == []


async def test_a_resume_that_is_asked_to_makes_up_for_the_night(at_work: World) -> None:
    """vtmocanu/uzi#396: asking for it is the way to have it."""
    at_work.at("2026-12-02T01:00:00+00:00")
    made = await at_work.create(schedule="0 2 * * *")
    await at_work.catalog.pause(WHO, made.id)
    at_work.at("2026-12-04T15:00:00+00:00")
    await at_work.catalog.resume(WHO, made.id, "run_once")
    (run,) = await at_work.rows("runs", made)
    assert (run["scheduled_for"], run["ready_at"], run["trigger"]) == (
        instant("2026-12-04T02:00:00Z"), at_work.clock.now(), "schedule"
    )  # fmt: skip
    assert [row.id for row in at_work.heard.added] == [run["id"]]
    (skip,) = await at_work.rows("skips", made)
    assert (skip["first"], skip["last"], skip["count"]) == (
        instant("2026-12-02T02:00:00Z"), instant("2026-12-03T02:00:00Z"), 2
    )  # fmt: skip
    assert (skip["reason"], skip["coalesced_into"]) == ("paused", run["id"])
    assert await at_work.next_time(made) == instant("2026-12-05T02:00:00Z")


async def test_run_all_is_bounded_by_number_and_by_window(at_work: World) -> None:
    made = await at_work.create(schedule="* * * * *", max_catch_up=3)
    windowed = await at_work.create(name="w", schedule="* * * * *", catch_up_window_s=125)
    for each in (made, windowed):
        await at_work.catalog.pause(WHO, each.id)
    at_work.later(minutes=10)
    for each in (made, windowed):
        await at_work.catalog.resume(WHO, each.id, "run_all")
    minutes = [NOON + timedelta(minutes=minute) for minute in range(11)]
    assert await at_work.run_times(made) == minutes[8:11]
    assert await at_work.skipped(made) == [("paused", minutes[1], minutes[7], 7)]
    assert await at_work.run_times(windowed) == minutes[8:11]


async def test_a_pause_stops_what_waits_and_not_what_runs(at_work: World) -> None:
    made = await at_work.create(interval_s=4)
    await at_work.fire()
    at_work.later(seconds=8)
    first, second = await at_work.rows("runs", made)
    await at_work.start(first["id"])
    by_hand = await at_work.manual.run_now(WHO, made.id)
    await at_work.catalog.pause(WHO, made.id, "deploy")
    assert {row["id"] for row in await at_work.rows("runs", made)} == {first["id"], by_hand}
    assert at_work.heard.removed == [second["id"]]
    assert await at_work.timer(made) is None
    assert await at_work.skipped(made) == [("paused", second["scheduled_for"], second["scheduled_for"], 1)]
    view = await at_work.view(made)
    assert (view.status, view.job.status_reason, view.next_run_at) == (JobStatus.PAUSED, "deploy", None)
    assert view.job.pause is not None
    assert (view.job.pause.at, view.job.pause.by, view.job.pause.reason) == (at_work.clock.now(), "ada", "deploy")


async def test_a_catch_up_brings_back_what_the_pause_stopped(at_work: World) -> None:
    made = await at_work.create(schedule="0 2 * * *")
    at_work.at("2026-12-02T02:00:00+00:00")
    await at_work.fire()
    at_work.later(minutes=30)
    await at_work.catalog.pause(WHO, made.id)
    assert await at_work.skipped(made) != []
    at_work.later(minutes=30)
    await at_work.catalog.resume(WHO, made.id, "run_once")
    assert await at_work.run_times(made) == [instant("2026-12-02T02:00:00Z")]
    assert await at_work.skipped(made) == []


async def test_stopped_and_fallen_ticks_are_accounted_for_together(at_work: World) -> None:
    made = await at_work.create(schedule="* * * * *", max_catch_up=4)
    minutes = [NOON + timedelta(minutes=minute) for minute in range(9)]
    for _ in range(3):
        at_work.later(minutes=1)
        await at_work.fire()
    at_work.later(minutes=2)
    await at_work.catalog.pause(WHO, made.id)
    assert await at_work.skipped(made) == [("paused", minutes[1], minutes[5], 5)]
    at_work.later(minutes=2)
    await at_work.catalog.resume(WHO, made.id, "run_all")
    assert await at_work.run_times(made) == minutes[4:8]
    assert await at_work.skipped(made) == [("paused", minutes[1], minutes[3], 3)]


@pytest.mark.parametrize("catch_up", [None, "skip"])
async def test_without_a_catch_up_what_was_stopped_stays_skipped(at_work: World, catch_up: str | None) -> None:
    made = await at_work.create(schedule="* * * * *")
    at_work.later(minutes=1)
    await at_work.fire()
    await at_work.catalog.pause(WHO, made.id)
    at_work.later(minutes=2)
    await at_work.catalog.resume(WHO, made.id, catch_up)
    minutes = [NOON + timedelta(minutes=minute) for minute in range(4)]
    assert await at_work.skipped(made) == [("paused", minutes[1], minutes[1], 1), ("paused", minutes[2], minutes[3], 2)]
    assert await at_work.rows("runs", made) == []


async def test_a_long_outage_before_a_pause_is_counted_and_not_listed(at_work: World) -> None:
    made = await at_work.create(schedule="* * * * *")
    at_work.later(minutes=1500)
    await at_work.catalog.pause(WHO, made.id)
    skips = await at_work.skipped(made)
    assert sum(count for _, _, _, count in skips) == 1500
    assert {reason for reason, *_ in skips} == {"paused"}
    assert await at_work.rows("runs", made) == []
    at_work.later(minutes=1)
    await at_work.catalog.resume(WHO, made.id, "run_all")
    runs, skips = await at_work.run_times(made), await at_work.skipped(made)
    assert len(runs) == 100
    assert sum(count for _, _, _, count in skips) + len(runs) == 1501


async def test_both_calls_may_be_repeated(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    await at_work.catalog.resume(WHO, made.id)
    await at_work.catalog.pause(WHO, made.id, "first")
    paused = (await at_work.view(made)).job
    at_work.later(hours=1)
    await at_work.catalog.pause(WHO, made.id)
    await at_work.catalog.pause(WHO, made.id, "first")
    assert (await at_work.view(made)).job == paused
    await at_work.catalog.pause(WHO, made.id, "second", until=instant("2026-12-02T00:00:00Z"))
    pause = (await at_work.view(made)).job.pause
    assert pause is not None
    assert (pause.at, pause.reason, pause.until) == (NOON, "second", instant("2026-12-02T00:00:00Z"))
    await at_work.catalog.resume(WHO, made.id)
    await at_work.catalog.resume(WHO, made.id, "run_once")
    assert (await at_work.view(made)).status is JobStatus.ACTIVE
    assert [line[0] for line in await at_work.audited()] == ["create", "pause", "pause", "resume"]


async def test_a_one_off_whose_time_passed_in_the_pause_runs_on_resume(at_work: World) -> None:
    made = await at_work.create(run_in_s=60)
    await at_work.catalog.pause(WHO, made.id)
    at_work.later(hours=1)
    await at_work.catalog.resume(WHO, made.id)
    (run,) = await at_work.rows("runs", made)
    assert (run["scheduled_for"], run["ready_at"]) == (NOON + timedelta(seconds=60), at_work.clock.now())
    assert await at_work.skipped(made) == []
    await at_work.catalog.resume(WHO, made.id)
    assert len(await at_work.rows("runs", made)) == 1


async def test_a_one_off_that_waited_when_the_pause_began_runs_on_resume(at_work: World) -> None:
    made = await at_work.create(run_at="now")
    await at_work.catalog.pause(WHO, made.id)
    assert await at_work.rows("runs", made) == []
    assert await at_work.skipped(made) == []
    at_work.later(hours=1)
    await at_work.catalog.resume(WHO, made.id, "run_all")
    assert await at_work.run_times(made) == [NOON]


async def test_a_one_off_can_be_ended_as_skipped(at_work: World) -> None:
    made = await at_work.create(run_in_s=60)
    await at_work.catalog.pause(WHO, made.id)
    at_work.later(hours=1)
    for code in ("skipped", "job_finished"):
        with pytest.raises(errors.ConflictError) as raised:
            await at_work.catalog.resume(WHO, made.id, "skip")
        assert raised.value.code == code
    view = await at_work.view(made)
    assert view.status is JobStatus.FINISHED
    assert view.job.status_reason == "skipped: its time passed while it was paused"
    nominal = NOON + timedelta(seconds=60)
    assert await at_work.skipped(made) == [("paused", nominal, nominal, 1)]
    assert await at_work.rows("runs", made) == []


async def test_a_one_off_whose_time_has_not_come_goes_on_waiting(at_work: World) -> None:
    made = await at_work.create(run_in_s=7200)
    await at_work.catalog.pause(WHO, made.id)
    at_work.later(hours=1)
    await at_work.catalog.resume(WHO, made.id, "skip")
    assert await at_work.next_time(made) == NOON + timedelta(hours=2)


async def test_a_one_off_that_was_cancelled_ahead_of_its_time_does_not_come_back(at_work: World) -> None:
    """Found by the simulation (rule I1). That it can be paused at all takes another run of it, made by hand."""
    made = await at_work.create(run_in_s=8)
    await at_work.fire()
    (tick,) = await at_work.rows("runs", made)
    await at_work.manual.run_now(WHO, made.id)
    await at_work.canceller.cancel(WHO, tick["id"])
    await at_work.catalog.pause(WHO, made.id)
    await at_work.catalog.resume(WHO, made.id)
    assert await at_work.timer(made) is None
    assert tick["id"] not in [run["id"] for run in await at_work.rows("runs", made)]


async def test_a_pause_of_a_one_off_accounts_for_the_ticks_of_its_schedule_before(at_work: World) -> None:
    """Found by the simulation: ticks that waited, an edit that made the job a one-off, a pause; then they were nowhere."""
    made = await at_work.create(interval_s=60)
    at_work.later(minutes=2, seconds=1)
    await at_work.fire()
    waiting = await at_work.run_times(made)
    assert len(waiting) >= 1
    run_at = NOON + timedelta(hours=1)
    await at_work.patch(made, interval_s=None, run_at=run_at.isoformat())
    await at_work.catalog.pause(WHO, made.id)
    assert await at_work.run_times(made) == []
    stopped = [line for line in await at_work.skipped(made) if line[0] == "paused"]
    assert stopped == [("paused", waiting[0], waiting[-1], len(waiting))]
    await at_work.catalog.resume(WHO, made.id)
    assert await at_work.next_time(made) == run_at
    assert await at_work.run_times(made) == []


async def test_a_one_off_that_ran_before_the_resume_does_not_run_again(at_work: World) -> None:
    made = await at_work.create(run_at="now")
    (run,) = await at_work.rows("runs", made)
    await at_work.start(run["id"])
    await at_work.catalog.pause(WHO, made.id)
    await at_work.end(run["id"])
    at_work.later(hours=1)
    await at_work.patch(made, end_at="2027-01-01T00:00:00Z")
    await at_work.catalog.resume(WHO, made.id)
    assert await at_work.rows("runs", made) == []
    assert (await at_work.view(made)).status is JobStatus.FINISHED


async def test_what_is_over_cannot_be_paused(at_work: World) -> None:
    once = await at_work.create(name=None, run_at="now")
    (run,) = await at_work.rows("runs", once)
    await at_work.end(run["id"])
    ended = await at_work.create(schedule="* * * * *", end_at="2026-12-01T12:01:00Z")
    at_work.later(minutes=1)
    await at_work.fire()
    failed = await at_work.create(name="failed", schedule="* * * * *")
    await at_work.execute("UPDATE jobs SET status = 'error', status_reason = 'bad zone' WHERE id = $1", failed.id)
    at_work.cook_the_books()  # the scheduler would have taken the timer away
    for over in (once, ended, failed):
        with pytest.raises(errors.ConflictError):
            await at_work.catalog.pause(WHO, over.id)


async def test_a_job_in_error_is_tried_again_by_a_resume(at_work: World) -> None:
    made = await at_work.create(schedule="0 2 * * *")
    await at_work.execute("UPDATE jobs SET status = 'error', status_reason = 'bad zone' WHERE id = $1", made.id)
    await at_work.execute("DELETE FROM timers")
    await at_work.catalog.resume(WHO, made.id)
    assert (await at_work.view(made)).status is JobStatus.ACTIVE
    assert await at_work.next_time(made) == instant("2026-12-02T02:00:00Z")


async def test_a_job_whose_end_came_in_the_pause_is_finished(at_work: World) -> None:
    made = await at_work.create(schedule="* * * * *", end_at="2026-12-01T12:05:00Z")
    await at_work.catalog.pause(WHO, made.id)
    at_work.later(hours=1)
    await at_work.catalog.resume(WHO, made.id)
    assert (await at_work.view(made)).status is JobStatus.FINISHED
    assert [count for _, _, _, count in await at_work.skipped(made)] == [5]


async def test_a_new_schedule_in_a_pause_parts_it(at_work: World) -> None:
    made = await at_work.create(schedule="* * * * *")
    await at_work.catalog.pause(WHO, made.id)
    at_work.later(minutes=5)
    await at_work.patch(made, schedule="*/10 * * * *")
    assert await at_work.timer(made) is None
    at_work.later(minutes=20)
    await at_work.catalog.resume(WHO, made.id)
    assert [count for _, _, _, count in await at_work.skipped(made)] == [5, 2]
    assert await at_work.next_time(made) == NOON + timedelta(minutes=30)


async def test_a_new_schedule_in_a_pause_leaves_a_tick_that_was_cancelled_ahead_alone(at_work: World) -> None:
    """Found by the simulation: the books called the cancelled tick one that nobody had asked for."""
    made = await at_work.create(schedule="*/5 * * * * *")
    await at_work.fire()
    await at_work.canceller.cancel(WHO, (await at_work.rows("runs", made))[-1]["id"])
    await at_work.catalog.pause(WHO, made.id)
    await at_work.patch(made, schedule="*/7 * * * *")
    at_work.later(minutes=1)
    await at_work.catalog.resume(WHO, made.id)


async def test_ticks_that_a_pause_stopped_ahead_are_not_counted_again_after_a_new_schedule(at_work: World) -> None:
    """A tick ahead was cancelled, so the pause accounted for all before it; then the job was given an end, and resumed."""
    held = await at_work.create(interval_s=1)
    await at_work.fire()
    times = await at_work.run_times(held)
    at_work.later(seconds=2.5)
    cancelled = (await at_work.rows("runs", held))[6]
    await at_work.canceller.cancel(WHO, cancelled["id"])
    await at_work.catalog.pause(WHO, held.id)
    assert await at_work.skipped(held) == [("paused", times[0], times[5], 6)]
    at_work.later(seconds=0.5)
    await at_work.patch(held, end_at=(times[8] + timedelta(milliseconds=200)).isoformat())
    at_work.later(seconds=1)
    await at_work.catalog.resume(WHO, held.id, "run_once")
    assert await at_work.run_times(held) == [times[3]]
    assert await at_work.skipped(held) == [("paused", times[0], times[5], 5)]
    assert await at_work.next_time(held) == times[7]


async def test_ticks_written_down_before_the_clock_was_set_back_do_not_run_after_all(at_work: World) -> None:
    """Found by the simulation (rule M4): a tick was a skip of the pause, and a run."""
    made = await at_work.create(schedule="* * * * *")
    at_work.later(minutes=10)
    await at_work.catalog.pause(WHO, made.id)
    at_work.later(minutes=-8)
    await at_work.catalog.resume(WHO, made.id)
    assert await at_work.next_time(made) == NOON + timedelta(minutes=11)


async def test_a_pause_from_before_the_clock_was_set_back_by_days_is_not_waited_for(at_work: World) -> None:
    at_work.later(days=5)
    made = await at_work.create(schedule="* * * * *")
    await at_work.catalog.pause(WHO, made.id)
    at_work.later(days=-5)
    await at_work.catalog.resume(WHO, made.id)
    assert await at_work.next_time(made) == NOON + timedelta(minutes=1)


async def test_a_one_off_that_is_moved_in_a_pause_waits_for_the_resume(at_work: World) -> None:
    made = await at_work.create(run_in_s=60)
    await at_work.catalog.pause(WHO, made.id)
    at_work.later(hours=1)
    await at_work.patch(made, run_at="now")
    assert await at_work.rows("runs", made) == []
    await at_work.catalog.resume(WHO, made.id)
    assert await at_work.run_times(made) == [NOON + timedelta(hours=1)]


@pytest.mark.parametrize(("catch_up", "ran"), [("run_once", [4]), ("run_all", [1, 2, 3, 4]), (None, [])])
async def test_a_catch_up_brings_back_no_tick_before_its_time(
    at_work: World, catch_up: str | None, ran: list[int]
) -> None:
    """A tick ahead was cancelled, so that those before it had been written down as stopped though they were to come."""
    made = await at_work.create(schedule="* * * * * *")
    await at_work.fire()
    ahead = await at_work.rows("runs", made)
    await at_work.canceller.cancel(WHO, ahead[7]["id"])
    at_work.later(seconds=4)
    await at_work.catalog.pause(WHO, made.id)
    await at_work.catalog.resume(WHO, made.id, catch_up)
    assert await at_work.run_times(made) == [NOON + timedelta(seconds=each) for each in ran]
    next_time = await at_work.next_time(made)
    assert next_time == NOON + timedelta(seconds=9), "the cancelled one stands for those before it"


@pytest.mark.parametrize("fate", ["ran", "was stopped by the pause"])
async def test_a_one_off_at_the_time_of_a_tick_from_before_the_edit_does_not_run_on_resume(
    at_work: World, fate: str
) -> None:
    """Found by the simulation (rule I1): the tick had run, or stood in the books as skipped, and ran all the same."""
    made = await at_work.create(schedule="*/5 * * * * *")
    await at_work.fire()
    ticks = await at_work.rows("runs", made)
    for tick in ticks if fate == "ran" else ():
        await at_work.end(tick["id"])
    at_work.later(seconds=12)
    await at_work.catalog.pause(WHO, made.id)
    await at_work.patch(made, schedule=None, run_at=ticks[0]["scheduled_for"].isoformat())
    at_work.later(seconds=1)
    await at_work.catalog.resume(WHO, made.id)
    assert await at_work.rows("runs", made) == []
    assert await at_work.timer(made) is None


async def test_a_one_off_for_a_moment_before_its_edit_is_in_the_books_when_it_gets_a_schedule_in_a_pause(
    at_work: World,
) -> None:
    """Found by the simulation: its run lay before the time for which it was a one-off, and the audit called it unexpected."""
    made = await at_work.create(schedule="0 3 * * *")
    at_work.later(minutes=30)
    await at_work.patch(made, schedule=None, run_at=(at_work.clock.now() - timedelta(seconds=5)).isoformat())
    (run,) = await at_work.rows("runs", made)
    await at_work.start(run["id"])
    await at_work.catalog.pause(WHO, made.id)
    await at_work.end(run["id"])
    at_work.later(seconds=10)
    await at_work.patch(made, run_at=None, schedule="0 4 * * *")
    await at_work.catalog.resume(WHO, made.id)
    assert await at_work.faults() == []


async def test_a_paused_job_that_is_deleted_accounts_for_its_pause(at_work: World) -> None:
    made = await at_work.create(schedule="* * * * *")
    once = await at_work.create(name=None, run_in_s=60)
    for each in (made, once):
        await at_work.catalog.pause(WHO, each.id)
    at_work.later(minutes=5)
    for each in (made, once):
        await at_work.catalog.delete(WHO, each.id)
    assert [count for _, _, _, count in await at_work.skipped(made)] == [5]
    assert [reason for reason, *_ in await at_work.skipped(once)] == ["paused"]


async def test_an_end_in_the_past_and_an_unknown_word_are_refused(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    with pytest.raises(errors.InvalidError):
        await at_work.catalog.pause(WHO, made.id, until=NOON)
    with pytest.raises(errors.InvalidError):
        await at_work.catalog.resume(WHO, made.id, "everything")


async def test_a_pause_with_an_end_ends_by_itself(at_work: World) -> None:
    resumer = Resumer(at_work.database, at_work.clock, at_work.catalog)
    made = await at_work.create(schedule="*/10 * * * *")
    other = await at_work.create(name="other", schedule="*/10 * * * *")
    await at_work.catalog.pause(WHO, made.id, "deploy", NOON + timedelta(minutes=25))
    await at_work.catalog.pause(WHO, other.id)
    assert await resumer.run_once() == 10.0
    at_work.at(NOON + timedelta(minutes=24, seconds=57))
    assert await resumer.run_once() == 3.0
    assert await at_work.timer(made) is None
    at_work.later(seconds=3)
    await resumer.run_once()
    assert await at_work.next_time(made) == NOON + timedelta(minutes=30)
    assert (await at_work.view(made)).status is JobStatus.ACTIVE
    assert (await at_work.view(other)).status is JobStatus.PAUSED
    (line,) = [row for row in await at_work.rows("audit") if row["action"] == "resume"]
    assert (line["actor"], line["object_id"]) == ("resumer", str(made.id))


async def test_a_pause_that_was_prolonged_meanwhile_goes_on(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    await at_work.catalog.pause(WHO, made.id, until=NOON + timedelta(minutes=1))
    await at_work.catalog.pause(WHO, made.id, until=NOON + timedelta(minutes=9))
    at_work.later(minutes=5)
    await at_work.catalog.end_lapsed_pause(WHO, made.id)
    assert (await at_work.view(made)).status is JobStatus.PAUSED


async def test_a_job_that_cannot_be_resumed_stands_in_nobodys_way(at_work: World) -> None:
    broken = await at_work.create(name="broken", schedule="@daily", timezone="Europe/Riga")
    sound = await at_work.create(name="sound", schedule="@daily")
    for each in (broken, sound):
        await at_work.catalog.pause(WHO, each.id, until=NOON + timedelta(minutes=1))
    await at_work.execute("UPDATE jobs SET timezone = 'Europe/Nowhere' WHERE id = $1", broken.id)
    at_work.cook_the_books()
    at_work.later(minutes=2)
    resumer = Resumer(at_work.database, at_work.clock, at_work.catalog)
    await resumer.run_once()
    assert (await at_work.view(sound)).status is JobStatus.ACTIVE
    async with at_work.database.connection() as connection:
        row = await connection.fetchrow("SELECT status, status_reason, pause FROM jobs WHERE id = $1", broken.id)
    assert row is not None
    assert row["status"] == "paused"
    assert "Europe/Nowhere" in row["status_reason"]
    assert '"until"' not in row["pause"]


async def test_ticks_that_obey_an_overlap_rule_are_left_to_the_look_at_the_edited_job(at_work: World) -> None:
    made = await at_work.create(schedule="* * * * *", overlap="queue_all")
    await at_work.catalog.pause(WHO, made.id)
    at_work.later(minutes=3)
    await at_work.catalog.resume(WHO, made.id, "run_all")
    assert len(await at_work.rows("runs", made)) == 3
    assert at_work.heard.added == []
    assert at_work.heard.edited == [made.id, made.id]
