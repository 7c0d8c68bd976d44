from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("15s", timedelta(seconds=15)),
        ("100ms", timedelta(milliseconds=100)),
        ("250us", timedelta(microseconds=250)),
        ("5m", timedelta(minutes=5)),
        ("2h", timedelta(hours=2)),
        ("1d", timedelta(days=1)),
        ("1w", timedelta(weeks=1)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5h", timedelta(minutes=90)),
        ("0.1s", timedelta(milliseconds=100)),
        (" 10s ", timedelta(seconds=10)),
        ("0s", timedelta(0)),
    ],
)
def test_what_people_write(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("15", "write 15s"),
        ("1.5", "write 1.5s"),
        ("", "not a duration"),
        ("-5s", "not a duration"),
        ("5 s", "not a duration"),
        ("5S", "not a duration"),
        ("٣s", "not a duration"),
        ("s", "not a duration"),
        ("1m1h", "like 1h30m"),
        ("1s1s", "like 1h30m"),
        ("9" * 5000 + "s", "not a duration"),
    ],
)
def test_what_is_refused_says_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        parse_duration(text)


def test_the_shortest_text() -> None:
    assert format_duration(timedelta(minutes=90)) == "1h30m"
    assert format_duration(timedelta(days=8)) == "8d"
    assert format_duration(timedelta(0)) == "0s"
    with pytest.raises(ValueError, match="negative"):
        format_duration(timedelta(seconds=-1))


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=9999)))
def test_what_is_written_reads_back(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration
