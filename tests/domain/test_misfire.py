"""What runs of the times that were missed, and what is written down: nothing disappears in silence."""

from __future__ import annotations

import time
import tracemalloc
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horarium.domain import misfire
from horarium.domain.misfire import Misfire, MisfirePolicy, Missed
from horarium.domain.schedule import Cron, Every, Once, Schedule, fires_between

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTELY = Schedule(Cron("* * * * *", "UTC"))


def minutes(*numbers: float) -> list[datetime]:
    return [NOON + timedelta(minutes=number) for number in numbers]


def settle(
    schedule: Schedule, policy: MisfirePolicy, first: datetime, now: datetime
) -> tuple[list[datetime], list[Missed]]:
    return misfire.settle(schedule, policy, first, now)


# The examples of the design


@pytest.mark.parametrize("policy", Misfire)
def test_lateness_within_the_grace_is_no_misfire(policy: Misfire) -> None:
    """agronholm/apscheduler#292"""
    job = Schedule(Cron("30 0 */3 * *", "UTC"))
    (nominal,) = fires_between(job, NOON, NOON + timedelta(days=9), 1)
    assert settle(job, MisfirePolicy(policy), nominal, nominal + 5 * SECOND) == ([nominal], [])


def test_several_times_within_the_grace_all_run() -> None:
    every = Schedule(Every(10 * SECOND, NOON))
    runs, missed = settle(every, MisfirePolicy(Misfire.SKIP), NOON, NOON + 45 * SECOND)
    assert runs == [NOON + n * 10 * SECOND for n in range(5)]
    assert missed == []


@pytest.mark.parametrize(("late", "runs"), [(59.999, 1), (60, 0), (61, 0)])
def test_the_grace_ends_where_it_says(late: float, runs: int) -> None:
    daily = Schedule(Cron("0 12 * * *", "UTC"))
    assert len(settle(daily, MisfirePolicy(Misfire.SKIP), NOON, NOON + timedelta(seconds=late))[0]) == runs


def test_skip_means_skip() -> None:
    """sidekiq/sidekiq#4893"""
    first, last = minutes(1, 4)
    runs, missed = settle(MINUTELY, MisfirePolicy(Misfire.SKIP), first, last + 30 * SECOND)
    assert runs == []
    assert missed == [Missed(first, last, 4, True, "misfire")]


def test_a_yearly_job_whose_slot_fell_into_a_restart_runs_this_year() -> None:
    """HangfireIO/Hangfire#546"""
    yearly = Schedule(Cron("10 9 1 1 *", "UTC"))
    slot = datetime(2026, 1, 1, 9, 10, tzinfo=UTC)
    assert settle(yearly, MisfirePolicy(), slot, slot + timedelta(minutes=10)) == ([slot], [])


def test_a_schedule_fires_though_no_process_was_up_in_its_minute() -> None:
    """timgit/pg-boss#557"""
    daily = Schedule(Cron("30 4 * * *", "UTC"))
    slot = datetime(2026, 5, 1, 4, 30, tzinfo=UTC)
    assert settle(daily, MisfirePolicy(), slot, slot + timedelta(minutes=10)) == ([slot], [])


def test_an_overdue_interval_runs_at_once_and_stays_on_its_anchor() -> None:
    """sibson/redbeat#281"""
    daily = Schedule(Every(timedelta(days=1), NOON))
    assert settle(daily, MisfirePolicy(), NOON, NOON + timedelta(hours=1)) == ([NOON], [])


def test_run_once_runs_the_latest_for_all_of_them() -> None:
    first, last = minutes(1, 7)
    runs, missed = settle(MINUTELY, MisfirePolicy(), first, last + 5 * SECOND)
    assert runs == [last]
    assert missed == [Missed(first, last - timedelta(minutes=1), 6, True, "coalesced", last)]


def test_run_all_makes_up_for_the_window_only() -> None:
    """treasure-data/digdag#536"""
    policy = MisfirePolicy(Misfire.RUN_ALL, catch_up_window=180 * SECOND)
    for late in (0, 5):
        runs, missed = settle(MINUTELY, policy, minutes(1)[0], minutes(7)[0] + late * SECOND)
        assert runs == minutes(5, 6, 7)
        assert missed == [Missed(minutes(1)[0], minutes(4)[0], 4, True, "misfire")]


def test_two_weeks_of_five_seconds_are_settled_at_once() -> None:
    """riverqueue/river#1035"""
    tick, away = Schedule(Every(5 * SECOND, NOON)), timedelta(days=14)
    now = NOON + away + 2 * SECOND
    policies = {
        1: MisfirePolicy(Misfire.RUN_ONCE),
        100: MisfirePolicy(Misfire.RUN_ALL, catch_up_window=timedelta(hours=1), max_catch_up=100),
    }
    tracemalloc.start()
    started = time.perf_counter()
    for count, policy in policies.items():
        runs, (row,) = settle(tick, policy, NOON, now)
        assert runs == [NOON + away - n * 5 * SECOND for n in reversed(range(count))]
        assert (row.first, row.last) == (NOON, runs[0] - 5 * SECOND)
        assert (row.count, row.exact) == (14 * 17_280 + 1 - count, True)
    elapsed, peak = time.perf_counter() - started, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert elapsed < 0.5
    assert peak < 200_000


def test_a_window_that_holds_nothing_runs_nothing() -> None:
    daily = Schedule(Cron("0 12 * * *", "UTC"))
    policy = MisfirePolicy(Misfire.RUN_ALL, catch_up_window=timedelta(hours=1))
    assert settle(daily, policy, NOON, NOON + timedelta(hours=2)) == ([], [Missed(NOON, NOON, 1, True, "misfire")])


# One-offs


@pytest.mark.parametrize("policy", [Misfire.RUN_ONCE, Misfire.RUN_ALL])
def test_a_late_one_off_runs_however_late(policy: Misfire) -> None:
    assert settle(Schedule(Once(NOON)), MisfirePolicy(policy), NOON, NOON + timedelta(days=30)) == ([NOON], [])


def test_a_late_one_off_is_skipped_if_it_says_so() -> None:
    runs, missed = settle(Schedule(Once(NOON)), MisfirePolicy(Misfire.SKIP), NOON, NOON + timedelta(hours=1))
    assert (runs, missed) == ([], [Missed(NOON, NOON, 1, True, "misfire")])


# Bounds on what is listed and counted


def test_beyond_ten_thousand_the_count_is_a_lower_bound() -> None:
    now = NOON + timedelta(days=14)
    _, (row,) = settle(MINUTELY, MisfirePolicy(Misfire.SKIP), NOON, now)
    assert (row.count, row.exact, row.first, row.last) == (10_000, False, NOON, now)
    _, (row,) = settle(MINUTELY, MisfirePolicy(Misfire.SKIP), NOON, NOON + timedelta(minutes=9_999))
    assert (row.count, row.exact) == (10_000, True)


def test_a_grace_of_hours_does_not_list_without_end() -> None:
    every_second = Schedule(Every(SECOND, NOON))
    runs, (row,) = settle(every_second, MisfirePolicy(grace=timedelta(hours=9)), NOON, NOON + timedelta(hours=8))
    assert len(runs) == misfire.MAX_LATE
    assert runs[-1] == NOON + timedelta(hours=8)
    assert row == Missed(NOON, runs[0] - SECOND, 8 * 3600 + 1 - misfire.MAX_LATE, True, "misfire")


def test_a_time_that_the_schedule_no_longer_has_is_settled_too() -> None:
    """After an edit, or under new zone data, the timer's time may stand beside the schedule."""
    odd = NOON + timedelta(minutes=1, seconds=17)
    assert settle(MINUTELY, MisfirePolicy(), odd, odd + SECOND) == ([odd], [])
    runs, missed = settle(MINUTELY, MisfirePolicy(), odd, minutes(4)[0])
    assert runs == minutes(4)
    assert missed == [Missed(odd, minutes(3)[0], 3, True, "coalesced", minutes(4)[0])]


# Any policy


@settings(derandomize=True, max_examples=400, deadline=None)
@given(
    st.sampled_from([MINUTELY, Schedule(Every(7 * SECOND, NOON)), Schedule(Cron("*/20 2 * * *", "Europe/Riga"))]),
    st.builds(
        MisfirePolicy,
        st.sampled_from(Misfire),
        st.sampled_from([timedelta(0), timedelta(seconds=60), timedelta(minutes=30)]),
        st.sampled_from([timedelta(seconds=90), timedelta(minutes=20), timedelta(days=1)]),
        st.sampled_from([1, 5, 100]),
    ),
    st.integers(0, 5_000_000),
    st.integers(0, 200_000),
)
def test_what_runs_and_what_is_written_down_are_all_that_was_missed(
    schedule: Schedule, policy: MisfirePolicy, start_s: int, late_s: int
) -> None:
    (first,) = fires_between(schedule, NOON + timedelta(seconds=start_s), NOON + timedelta(days=90), 1)
    now = first + timedelta(seconds=late_s)
    overdue = [first, *fires_between(schedule, first, now, 100_000)]
    runs, missed = settle(schedule, policy, first, now)

    assert runs == overdue[len(overdue) - len(runs) :]
    rest = overdue[: len(overdue) - len(runs)]
    assert len(missed) == bool(rest)
    for row in missed:
        assert (row.first, row.last) == (rest[0], rest[-1])
        assert row.count == len(rest) if row.exact else row.count <= len(rest)
        assert (row.coalesced_into, row.reason) in {(None, "misfire"), (overdue[-1], "coalesced")}
    if now - first < policy.grace:
        assert runs == overdue
    elif policy.misfire is Misfire.SKIP:
        assert runs == []
    elif policy.misfire is Misfire.RUN_ONCE:
        assert runs == overdue[-1:]
    else:
        assert runs == [fire for fire in overdue if fire > now - policy.catch_up_window][-policy.max_catch_up :]
