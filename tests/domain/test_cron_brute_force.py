"""Around changes of clocks, in all zones, the arithmetic agrees with the rules applied to every minute one by one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from horarium.domain import cron
from tests.domain import brute_force

EXPRESSIONS = ["* * * * *", "*/20 * * * *", "0,30 0-3 * * *", "30 2 * * *", "0 0 * * *", "0 0-23 * * *", "15 */2 * * *"]

# Each of these is a kind of change of its own: (zone, the instant of the change).
REMARKABLE = {
    "an hour forward": ("America/New_York", datetime(2026, 3, 8, 7, tzinfo=UTC)),
    "an hour back": ("America/New_York", datetime(2026, 11, 1, 6, tzinfo=UTC)),
    "half an hour forward": ("Australia/Lord_Howe", datetime(2026, 10, 3, 15, 30, tzinfo=UTC)),
    "half an hour back": ("Australia/Lord_Howe", datetime(2026, 4, 4, 15, tzinfo=UTC)),
    "two hours forward": ("Antarctica/Troll", datetime(2026, 3, 29, 1, tzinfo=UTC)),
    "two hours back": ("Antarctica/Troll", datetime(2026, 10, 25, 1, tzinfo=UTC)),
    "a zone with 45 minutes, forward": ("Pacific/Chatham", datetime(2026, 9, 26, 14, tzinfo=UTC)),
    "midnight that does not exist": ("Africa/Cairo", datetime(2026, 4, 23, 22, tzinfo=UTC)),
    "the hour before midnight twice": ("America/Asuncion", datetime(2024, 3, 24, 3, tzinfo=UTC)),
    "a whole day left out": ("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC)),
    "a whole day left out, elsewhere": ("Pacific/Kwajalein", datetime(1993, 8, 21, 12, tzinfo=UTC)),
    "half an hour back, for good": ("Asia/Pyongyang", datetime(2015, 8, 14, 15, tzinfo=UTC)),
    "half an hour forward, for good": ("Asia/Pyongyang", datetime(2018, 5, 4, 15, tzinfo=UTC)),
    "a quarter of an hour forward": ("Asia/Kathmandu", datetime(1985, 12, 31, 18, 30, tzinfo=UTC)),
    "winter time is the daylight time": ("Europe/Dublin", datetime(2026, 10, 25, 1, tzinfo=UTC)),
    "Ramadan": ("Africa/Casablanca", datetime(2025, 2, 23, 2, tzinfo=UTC)),
}


@pytest.mark.parametrize(("zone", "change"), REMARKABLE.values(), ids=REMARKABLE)
def test_around_a_remarkable_change(zone: str, change: datetime) -> None:
    for expression in EXPRESSIONS:
        question = brute_force.Question(
            expression, zone, change - timedelta(hours=5, minutes=10), change + timedelta(hours=27)
        )
        want = brute_force.fires(question)
        assert brute_force.answers(question) == {"forward": want, "backward": want, "count": (len(want), True)}


@pytest.mark.parametrize("seed", range(4))
def test_around_changes_of_all_zones(seed: int) -> None:
    assert brute_force.disagreements(seed, 100) == []


@settings(derandomize=True, max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(REMARKABLE.values())),
    st.sampled_from([*EXPRESSIONS, "*/7 * * * * *", "30 59 1 * * *", "0 0 29 2 *", "0 12 L * *"]),
    st.integers(-100_000_000, 100_000_000),
)
def test_each_fire_lies_strictly_between_its_neighbours(
    change: tuple[str, datetime], expression: str, distance_ms: int
) -> None:
    """From any instant: the next is later, the one before it is not, and going back again comes to the same place."""
    zone, instant = change
    start = instant + timedelta(milliseconds=distance_ms)
    following = cron.next_fire(expression, zone, start)
    assert following is not None and following > start
    assert cron.previous_fire(expression, zone, following + timedelta(microseconds=1)) == following
    before = cron.previous_fire(expression, zone, following)
    assert before is not None and before <= start
    assert cron.next_fire(expression, zone, before) == following
