"""Counting agrees with walking, and costs nothing however many there are."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horarium.domain import cron, cron_count

NEW_YORK = "America/New_York"
WINTER = datetime(2026, 2, 20, tzinfo=UTC)


def walked(expression: str, zone: str, after: datetime, until: datetime) -> int:
    count, fire = 0, cron.next_fire(expression, zone, after)
    while fire is not None and fire <= until:
        count, fire = count + 1, cron.next_fire(expression, zone, fire)
    return count


@settings(derandomize=True, max_examples=120, deadline=None)
@given(
    st.sampled_from(
        ["*/10 * * * *", "0 0-23 * * *", "30 2 * * *", "7,9 */5 1,L * *", "0 0 13 * 5", "30 */11 4-9 * * *"]
    ),
    st.sampled_from([NEW_YORK, "Australia/Lord_Howe", "Africa/Cairo", "UTC"]),
    st.integers(0, 23_500_000).map(lambda seconds: WINTER + timedelta(seconds=seconds)),
    st.timedeltas(timedelta(0), timedelta(days=20)),
)
def test_counting_agrees_with_walking(expression: str, zone: str, after: datetime, span: timedelta) -> None:
    want = walked(expression, zone, after, after + span)
    assert cron_count.count(expression, zone, after, after + span, 100_000) == (want, True)


def test_both_ends_are_where_they_should_be() -> None:
    ten, eleven = datetime(2026, 1, 1, 10, tzinfo=UTC), datetime(2026, 1, 1, 11, tzinfo=UTC)
    assert cron_count.count("0 * * * *", "UTC", ten, eleven, 100) == (1, True)
    assert cron_count.count("0 * * * *", "UTC", ten - timedelta(microseconds=1), eleven, 100) == (2, True)
    assert cron_count.count("0 * * * *", "UTC", ten, ten, 100) == (0, True)
    assert cron_count.count("0 * * * *", "UTC", eleven, ten, 100) == (0, True)


@pytest.mark.parametrize(("cap", "want"), [(60, (60, True)), (59, (59, False)), (1, (1, False))])
def test_beyond_the_cap_the_count_is_a_lower_bound(cap: int, want: tuple[int, bool]) -> None:
    hour = datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert cron_count.count("* * * * *", "UTC", hour, hour + timedelta(hours=1), cap) == want


def test_years_of_seconds_are_counted_at_once() -> None:
    start = datetime(2016, 1, 1, tzinfo=UTC)
    started = time.perf_counter()
    assert cron_count.count("* * * * * *", NEW_YORK, start, start + timedelta(days=3653), 10_000) == (10_000, False)
    assert cron_count.count("* * * * * *", "UTC", start, start + timedelta(days=20), 10**9) == (20 * 86_400, True)
    assert time.perf_counter() - started < 0.5
