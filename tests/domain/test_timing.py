"""The three ways to say when, in both directions and by number."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horarium import errors
from horarium.domain import timing, zones

ANCHOR = datetime(2026, 1, 1, 2, 2, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
DISTANCE = st.timedeltas(timedelta(days=-40), timedelta(days=40))


def test_intervals_lie_on_anchor_and_steps_whatever_a_run_takes() -> None:
    """rq/rq-scheduler#269"""
    minutely = timing.Every(timedelta(seconds=60), ANCHOR)
    fire = ANCHOR
    for _ in range(60):
        following = timing.next_fire(minutely, fire + timedelta(seconds=1))
        assert following is not None and following - fire == timedelta(seconds=60)
        fire = following
    assert fire.second == 0


def test_the_anchor_is_the_first_fire() -> None:
    daily = timing.Every(timedelta(days=1), ANCHOR)
    assert timing.next_fire(daily, ANCHOR - timedelta(days=900)) == ANCHOR
    assert timing.next_fire(daily, ANCHOR) == ANCHOR + timedelta(days=1)
    assert timing.previous_fire(daily, ANCHOR) is None
    assert timing.previous_fire(daily, ANCHOR + MICROSECOND) == ANCHOR


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.timedeltas(timedelta(seconds=1), timedelta(days=9)), DISTANCE, DISTANCE)
def test_intervals_forward_backward_and_counted(interval: timedelta, one: timedelta, other: timedelta) -> None:
    every = timing.Every(interval, ANCHOR)
    low, high = sorted((ANCHOR + one, ANCHOR + other))
    following = timing.next_fire(every, low)
    assert following is not None and following > low and following >= ANCHOR
    assert (following - ANCHOR) % interval == timedelta(0)
    assert following - interval <= low or following == ANCHOR
    before = timing.previous_fire(every, following)
    assert before == (following - interval if following > ANCHOR else None)
    count, exact = timing.count_between(every, low, high, cap=1)
    assert exact
    last = timing.previous_fire(every, high + MICROSECOND)
    assert count == (0 if last is None or last <= low else (last - following) // interval + 1)


def test_an_interval_ends_with_the_calendar() -> None:
    assert timing.next_fire(timing.Every(timedelta(days=365), ANCHOR), datetime(9999, 12, 30, tzinfo=UTC)) is None


def test_a_one_off_fires_once() -> None:
    once = timing.Once(ANCHOR)
    assert timing.next_fire(once, ANCHOR - MICROSECOND) == ANCHOR
    assert timing.next_fire(once, ANCHOR) is None
    assert timing.previous_fire(once, ANCHOR + MICROSECOND) == ANCHOR
    assert timing.previous_fire(once, ANCHOR) is None
    assert timing.count_between(once, ANCHOR - MICROSECOND, ANCHOR, 10) == (1, True)
    assert timing.count_between(once, ANCHOR, ANCHOR + MICROSECOND, 10) == (0, True)


def test_an_expression_that_fires_no_more_has_no_next_fire() -> None:
    """At create it is refused; one that was taken is not an error later on."""
    assert timing.next_fire(timing.Cron("0 0 */31 * MON#5", "UTC"), ANCHOR) is None
    assert timing.previous_fire(timing.Cron("0 0 */31 * MON#5", "UTC"), ANCHOR) is None


def test_a_zone_that_has_vanished_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """One such job goes to `error`, the others go on (Z3)."""
    gone, staying = timing.Cron("0 9 * * *", "Asia/Seoul"), timing.Cron("0 9 * * *", "Asia/Tokyo")
    monkeypatch.setattr(zones, "known_names", lambda: frozenset({"UTC", "Asia/Tokyo"}))
    zones.zone.cache_clear()
    with pytest.raises(errors.InvalidScheduleError) as caught:
        timing.next_fire(gone, ANCHOR)
    assert caught.value.code == "invalid_timezone"
    assert timing.next_fire(staying, ANCHOR) == datetime(2026, 1, 2, 0, 0, tzinfo=UTC)
