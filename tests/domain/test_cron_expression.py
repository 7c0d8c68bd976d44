"""The wall-clock engine reads the fields as our grammar does, in both directions."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from horarium import errors
from horarium.domain import cron_expression, cron_syntax

START = datetime.fromisoformat("2026-02-27T13:05:07")


def spans(kind: cron_syntax.Kind) -> st.SearchStrategy[str]:
    number = st.integers(kind.low, kind.top)
    ends = st.tuples(number, number).map(sorted)
    base = st.one_of(st.just("*"), number.map(str), ends.map(lambda pair: f"{pair[0]}-{pair[1]}"))
    stepped = st.tuples(base, st.integers(1, kind.top)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    return st.lists(st.one_of(base, stepped), min_size=1, max_size=3).map(",".join)


def walked(text: str) -> tuple[cron_expression.Expression, datetime] | errors.InvalidScheduleError:
    """The parsed text and its next time, or how it was refused."""
    try:
        parsed = cron_expression.parse(text)
        return parsed, parsed.next(START)
    except errors.InvalidScheduleError as error:
        return error


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.tuples(*(spans(kind) for kind in cron_syntax.KINDS)).map(" ".join))
def test_times_found_are_times_of_the_fields(text: str) -> None:
    assume(len(text) <= cron_syntax.MAX_LENGTH)
    found = walked(text)
    if isinstance(found, errors.InvalidScheduleError):
        assert found.code == "never_fires"
        return
    parsed, wall = found
    seconds, minutes, hours, days, months, weekdays = (set(field.values()) for field in parsed.fields)
    assert wall.second in seconds and wall.minute in minutes and wall.hour in hours and wall.month in months
    on_day, on_weekday = wall.day in days, bool({wall.isoweekday(), wall.isoweekday() % 7} & weekdays)
    assert (on_day and on_weekday) if parsed.needs_both_days else (on_day or on_weekday)
    assert parsed.matches_day(wall)
    assert parsed.previous(wall + timedelta(seconds=1)) == wall
    assert parsed.previous(wall) <= START


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("0 0 L * *", "2026-02-28"),
        ("0 0 LW * *", "2026-02-27"),
        ("0 0 * * 5L", "2026-02-27"),
        ("0 0 * * 7L", "2026-02-22"),
        ("0 0 * * MON#4", "2026-02-23"),
        ("0 0 L * MON#4", "2026-02-23"),
    ],
)
def test_days_that_a_month_decides(expression: str, want: str) -> None:
    assert cron_expression.parse(expression).next(datetime.fromisoformat("2026-02-15")) == datetime.fromisoformat(want)


def test_an_expression_is_parsed_once() -> None:
    assert cron_expression.parse("7 7 * * *") is cron_expression.parse("7 7 * * *")


def test_walking_leaves_no_trace() -> None:
    parsed = cron_expression.parse("*/5 * * * *")
    first = parsed.next(START)
    parsed.previous(START)
    assert parsed.next(START) == first
