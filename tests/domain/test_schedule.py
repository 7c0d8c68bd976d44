"""Schedules: bounds, listings, jitter, keys, and what is refused at create."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horarium import errors
from horarium.domain import schedule
from horarium.domain.schedule import Cron, Every, Once, Schedule

MICROSECOND = timedelta(microseconds=1)
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
JOB = UUID("0190f5fe-7c00-8000-8000-000000000001")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def hourly(**bounds: datetime | timedelta) -> Schedule:
    return Schedule(Cron("0 * * * *", "UTC"), **bounds)  # type: ignore[arg-type]  # bounds are named by the caller


SCHEDULES = st.one_of(
    st.builds(
        Cron,
        st.sampled_from(["*/10 * * * *", "0 9 * * 1-5", "30 2 * * *", "0\t0 1,15 * *", "@daily", "0 0-23 * * *"]),
        st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe"]),
    ),
    st.builds(
        Every,
        st.timedeltas(timedelta(seconds=1), timedelta(days=3)),
        st.just(NOON).map(lambda noon: noon - timedelta(days=2)),
    ),
    st.builds(
        Once,
        st.integers(-100_000, 100_000).map(lambda seconds: NOON + timedelta(seconds=seconds)),
        st.sampled_from([None, "2026-05-01T12:00", 'quote " and ü']),
        st.sampled_from(["UTC", "Europe/Riga"]),
        st.sampled_from([None, "first", "second"]),
    ),
)
BOUND = st.none() | st.integers(-400_000, 400_000).map(lambda seconds: NOON + timedelta(seconds=seconds))
JITTER = st.sampled_from([timedelta(0), timedelta(seconds=60), timedelta(milliseconds=1500)])
ANY = st.builds(Schedule, SCHEDULES, BOUND, BOUND, JITTER)
INSTANTS = st.integers(-500_000_000, 500_000_000).map(lambda ms: NOON + timedelta(milliseconds=ms))


# Bounds


def test_both_bounds_belong_to_the_schedule() -> None:
    bounded = hourly(start_at=at("2026-05-01T13:00Z"), end_at=at("2026-05-01T15:00Z"))
    assert schedule.fires_between(bounded, NOON, at("2026-06-01T00:00Z"), 10) == [
        at("2026-05-01T13:00Z"),
        at("2026-05-01T14:00Z"),
        at("2026-05-01T15:00Z"),
    ]
    assert schedule.next_fire(bounded, at("2026-05-01T15:00Z")) is None
    assert schedule.previous_fire(bounded, at("2026-06-01T00:00Z")) == at("2026-05-01T15:00Z")
    assert schedule.previous_fire(bounded, at("2026-05-01T13:00Z")) is None


def test_a_start_in_the_near_past_is_a_bound_and_not_a_fire() -> None:
    """celery/django-celery-beat#912"""
    afternoon = Schedule(Cron("0 15 * * *", "UTC"), start_at=at("2026-05-01T13:58Z"))
    assert schedule.next_fire(afternoon, at("2026-05-01T14:00Z")) == at("2026-05-01T15:00Z")


def test_the_start_of_a_daily_job_is_no_carrier_of_its_hour() -> None:
    """quartz-scheduler/quartz#1352"""
    daily = Schedule(Cron("30 2 * * *", "Europe/Amsterdam"), start_at=at("2025-03-01T02:30+01:00"))
    assert schedule.next_fire(daily, at("2025-02-01T00:00Z")) == at("2025-03-01T02:30+01:00")
    assert schedule.next_fire(daily, at("2025-04-01T02:00+02:00")) == at("2025-04-01T02:30+02:00")


def test_bounds_are_tested_after_a_gap_has_moved_the_fire() -> None:
    gap = Cron("30 2 * * *", "America/New_York")
    moved = at("2026-03-08T03:00-04:00")
    assert schedule.next_fire(Schedule(gap, end_at=moved), at("2026-03-08T00:00-05:00")) == moved
    assert schedule.next_fire(Schedule(gap, end_at=moved - MICROSECOND), at("2026-03-08T00:00-05:00")) is None
    assert schedule.next_fire(Schedule(gap, start_at=moved), at("2026-03-01T00:00Z")) == moved


def test_bounds_hold_for_intervals_and_one_offs_too() -> None:
    every = Schedule(
        Every(timedelta(hours=1), NOON), start_at=NOON + timedelta(minutes=1), end_at=NOON + timedelta(hours=2)
    )
    assert schedule.fires_between(every, NOON - timedelta(days=1), NOON + timedelta(days=1), 10) == [
        NOON + timedelta(hours=1),
        NOON + timedelta(hours=2),
    ]
    assert schedule.next_fire(Schedule(Once(NOON), end_at=NOON - MICROSECOND), NOON - timedelta(days=1)) is None


def test_an_interval_fires_at_its_anchor_only_where_that_was_asked_for() -> None:
    """An interval set at 12:00 runs at 13:00, also when a database's clock is set back to 08:00 in between."""
    hour = timedelta(hours=1)
    unasked, asked = Schedule(Every(hour, NOON)), Schedule(Every(hour, NOON), start_at=NOON)
    earlier, later = NOON - 4 * hour, NOON + hour
    assert schedule.next_fire(unasked, earlier) == schedule.next_fire(unasked, NOON) == later
    assert schedule.next_fire(asked, earlier) == NOON
    assert schedule.previous_fire(unasked, later) is None
    assert schedule.previous_fire(asked, later) == NOON
    assert schedule.previous_fire(unasked, later + MICROSECOND) == later
    assert schedule.count_between(unasked, earlier, later) == (1, True)
    assert schedule.count_between(asked, earlier, later) == (2, True)


# Listings


@settings(derandomize=True, max_examples=200, deadline=None)
@given(ANY, INSTANTS, INSTANTS, st.integers(1, 40))
def test_listings_agree_with_each_other(any_schedule: Schedule, one: datetime, other: datetime, limit: int) -> None:
    low, high = min(one, other), min(max(one, other), min(one, other) + timedelta(hours=30))
    all_fires = schedule.fires_between(any_schedule, low, high, 200_000)
    assert all_fires == sorted(set(all_fires))
    assert all(low < fire <= high for fire in all_fires)
    assert schedule.fires_between(any_schedule, low, high, limit) == all_fires[:limit]
    assert schedule.latest_fires(any_schedule, low, high, limit) == all_fires[-limit:]
    assert schedule.count_between(any_schedule, low, high, 200_000) == (len(all_fires), True)
    start, end = any_schedule.start_at, any_schedule.end_at
    assert all((start is None or fire >= start) and (end is None or fire <= end) for fire in all_fires)


def test_no_limit_means_no_listing() -> None:
    assert schedule.fires_between(hourly(), NOON, NOON + timedelta(days=1), 0) == []
    assert schedule.latest_fires(hourly(), NOON, NOON + timedelta(days=1), 0) == []


def test_an_edit_makes_no_times_of_the_past() -> None:
    """kubernetes/kubernetes#63371, csi-addons/kubernetes-csi-addons#374"""
    edited = at("2026-05-01T10:30Z")
    assert schedule.next_fire(Schedule(Cron("0 9 * * *", "UTC")), edited) == at("2026-05-02T09:00Z")
    assert schedule.next_fire(Schedule(Cron("* * * * *", "UTC")), edited) == at("2026-05-01T10:31Z")


def test_after_a_pause_the_next_time_is_the_next_one_from_now() -> None:
    """kubernetes/kubernetes#45825, vtmocanu/uzi#396"""
    assert schedule.next_fire(Schedule(Cron("*/10 * * * *", "UTC")), at("2026-05-04T08:03Z")) == at("2026-05-04T08:10Z")
    assert schedule.next_fire(Schedule(Cron("0 2 * * *", "UTC")), at("2026-05-01T15:00Z")) == at("2026-05-02T02:00Z")


# Jitter


@settings(derandomize=True, max_examples=200, deadline=None)
@given(SCHEDULES, INSTANTS, st.timedeltas(timedelta(seconds=1), timedelta(days=1)), st.uuids())
def test_due_times_keep_the_order_and_never_reach_the_next(
    when: schedule.Timing, start: datetime, spread: timedelta, job_id: UUID
) -> None:
    spread_out = Schedule(when, jitter=spread)
    nominal = schedule.next_fire(spread_out, start)
    for _ in range(5):
        if nominal is None:
            return
        following = schedule.next_fire(spread_out, nominal)
        due = schedule.due_time(job_id, nominal, spread_out, following)
        assert nominal <= due < nominal + spread
        assert following is None or due < following
        nominal = following


def test_without_jitter_a_run_is_due_at_its_nominal_time() -> None:
    assert schedule.due_time(JOB, NOON, hourly(), NOON + timedelta(hours=1)) == NOON


def test_bounds_are_not_tested_against_jitter() -> None:
    last = hourly(end_at=NOON, jitter=timedelta(minutes=10))
    assert schedule.next_fire(last, NOON - timedelta(minutes=1)) == NOON
    assert schedule.due_time(JOB, NOON, last, None) > NOON


# Refused at create


@pytest.mark.parametrize(
    ("refused", "code", "pointer"),
    [
        (Schedule(Cron("61 * * * *", "UTC")), "invalid_schedule", "/schedule"),
        (Schedule(Cron("0 9 * * *", "Europe/Rigga")), "invalid_timezone", "/timezone"),
        (Schedule(Cron("0 0 30 2 *", "UTC")), "never_fires", "/schedule"),
        (Schedule(Cron("0 0 */31 * MON#5", "UTC")), "never_fires", "/schedule"),
        (Schedule(Cron("0 0 1 1 *", "UTC"), end_at=NOON - timedelta(days=1)), "never_fires", "/schedule"),
        (Schedule(Cron("0 0 1 1 *", "UTC"), NOON, NOON + timedelta(days=1)), "never_fires", "/schedule"),
        (Schedule(Every(timedelta(hours=1), NOON), end_at=NOON - timedelta(days=1)), "never_fires", "/interval_s"),
        (Schedule(Every(timedelta(0), NOON)), "invalid_schedule", "/interval_s"),
        (Schedule(Every(timedelta(seconds=-1), NOON)), "invalid_schedule", "/interval_s"),
        (Schedule(Once(NOON), start_at=NOON + timedelta(days=1)), "never_fires", "/run_at"),
        (hourly(start_at=NOON, end_at=NOON), "invalid_schedule", "/end_at"),
        (hourly(start_at=NOON, end_at=NOON - timedelta(days=1)), "invalid_schedule", "/end_at"),
        (hourly(jitter=timedelta(seconds=-1)), "invalid_schedule", "/jitter_s"),
    ],
)
def test_what_cannot_be_is_refused(refused: Schedule, code: str, pointer: str) -> None:
    """agronholm/apscheduler#389"""
    with pytest.raises(errors.InvalidScheduleError) as caught:
        schedule.check(refused, NOON)
    assert (caught.value.code, caught.value.faults[0].pointer) == (code, pointer)


@pytest.mark.parametrize(
    "taken",
    [
        Schedule(Cron("0 0 29 2 *", "UTC")),
        Schedule(Cron("29 5 2 23 2 *", "Africa/Casablanca")),
        Schedule(Cron("0 9 * * *", "UTC"), start_at=NOON + timedelta(days=30_000)),
        Schedule(Every(timedelta(days=1), NOON - timedelta(days=9))),
        Schedule(Once(NOON - timedelta(seconds=30))),
        hourly(start_at=NOON, end_at=NOON + timedelta(hours=1), jitter=timedelta(seconds=5)),
    ],
)
def test_what_can_be_is_taken(taken: Schedule) -> None:
    schedule.check(taken, NOON)


# Keys


@settings(derandomize=True, max_examples=400, deadline=None)
@given(ANY, ANY)
def test_a_key_holds_all_of_a_schedule(one: Schedule, other: Schedule) -> None:
    key = schedule.encode(one)
    assert key.isascii() and key.isprintable() and len(key) < 250
    assert schedule.decode(key) == one
    assert (key == schedule.encode(other)) == (one == other)


def test_equal_schedules_have_equal_keys_in_any_zone() -> None:
    here = hourly(start_at=datetime.fromisoformat("2026-05-01T14:00+02:00"))
    assert here == hourly(start_at=NOON)
    assert schedule.encode(here) == schedule.encode(hourly(start_at=NOON))


def test_a_key_is_short_and_can_be_read() -> None:
    assert schedule.encode(Schedule(Cron("*/5 * * * *", "Europe/Riga"))) == '["cron","*/5 * * * *","Europe/Riga"]'


def test_a_schedule_is_decoded_once() -> None:
    key = schedule.encode(hourly())
    assert schedule.decode(key) is schedule.decode(key)


@pytest.mark.parametrize("key", ["", "x", "[]", '["cron"]', '["cron",1,2]', '["every","1",2]', '["twice",1]', "{}"])
def test_another_text_is_no_key(key: str) -> None:
    with pytest.raises(ValueError):
        schedule.decode(key)


# The memo


def test_the_memo_answers_like_the_schedule_and_asks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    memo, key = schedule.NextFireMemo(), schedule.encode(hourly(end_at=NOON))
    assert memo.next(key, NOON - timedelta(minutes=90)) == NOON - timedelta(hours=1)
    assert memo.next(key, NOON) is None
    monkeypatch.setattr(schedule, "next_fire", pytest.fail)
    assert memo.next(key, NOON - timedelta(minutes=90)) == NOON - timedelta(hours=1)
    assert memo.next(key, NOON) is None


def test_the_memo_is_bounded() -> None:
    memo, key = schedule.NextFireMemo(capacity=3), schedule.encode(hourly())
    for minute in range(50):
        assert memo.next(key, NOON + timedelta(minutes=minute)) == NOON + timedelta(hours=1)
        assert len(memo._known) <= 3
