"""When a one-off runs: what is taken, what is refused, and what moves when zone data change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from horarium import errors
from horarium.domain import run_at, timing, zones

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def refusal(text: str, timezone: str = "UTC", fold: timing.Fold | None = None) -> errors.InvalidScheduleError:
    with pytest.raises(errors.InvalidScheduleError) as caught:
        run_at.parse_run_at(text, timezone, fold, NOW)
    return caught.value


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("2027-03-14T02:30:00Z", "2027-03-14T02:30:00+00:00"),
        ("2027-03-14t02:30:00z", "2027-03-14T02:30:00+00:00"),
        ("2027-03-14T02:30Z", "2027-03-14T02:30:00+00:00"),
        ("2027-03-14 02:30:00+01:30", "2027-03-14T01:00:00+00:00"),
        ("2027-03-14T02:30:00-05:00", "2027-03-14T07:30:00+00:00"),
        ("2027-03-14T02:30:00.999999Z", "2027-03-14T02:30:00+00:00"),
        ("2027-03-14T02:30:00.5+00:00", "2027-03-14T02:30:00+00:00"),
        ("2199-12-31T23:59:59Z", "2199-12-31T23:59:59+00:00"),
        ("2200-01-01T01:00:00+02:00", "2199-12-31T23:00:00+00:00"),
    ],
)
def test_with_an_offset_it_is_an_instant(text: str, want: str) -> None:
    once = run_at.parse_run_at(text, "America/New_York", None, NOW)
    assert once == timing.Once(at(want), None, "America/New_York", None)
    assert once.at.tzinfo is UTC


def test_without_an_offset_it_is_wall_time_and_keeps_its_text() -> None:
    once = run_at.parse_run_at("2027-07-01T09:00", "Europe/Riga", None, NOW)
    assert once == timing.Once(at("2027-07-01T06:00Z"), "2027-07-01T09:00", "Europe/Riga", None)


@pytest.mark.parametrize(
    ("text", "zone", "before", "after"),
    [
        ("2027-03-14T02:30:00", "America/New_York", "2027-03-14T01:59:59-05:00", "2027-03-14T03:00:00-04:00"),
        ("2027-10-03T02:15:00", "Australia/Lord_Howe", "2027-10-03T01:59:59+10:30", "2027-10-03T02:30:00+11:00"),
    ],
)
def test_wall_time_that_does_not_exist_is_refused_with_both_sides(
    text: str, zone: str, before: str, after: str
) -> None:
    """bytedance/deer-flow#5345"""
    error = refusal(text, zone)
    assert (error.field, error.code, error.faults[0].pointer) == ("run_at", "nonexistent_local_time", "/run_at")
    assert before in error.detail and after in error.detail
    assert refusal(text, zone, "first").code == "nonexistent_local_time"
    offset = before[-6:]
    assert run_at.parse_run_at(text + offset, zone, None, NOW).at == at(text + offset)


def test_wall_time_that_happens_twice_is_refused_unless_one_is_chosen() -> None:
    text, zone = "2027-11-07T01:30:00", "America/New_York"
    first, second = "2027-11-07T01:30:00-04:00", "2027-11-07T01:30:00-05:00"
    error = refusal(text, zone)
    assert error.code == "ambiguous_local_time"
    assert first in error.detail and second in error.detail
    assert "fold" in error.hint
    assert run_at.parse_run_at(text, zone, "first", NOW) == timing.Once(at(first), text, zone, "first")
    assert run_at.parse_run_at(text, zone, "second", NOW) == timing.Once(at(second), text, zone, "second")


def test_a_fold_where_nothing_is_repeated_does_no_harm() -> None:
    for fold in ("first", "second"):
        assert run_at.parse_run_at("2027-07-01T09:00", "Europe/Riga", fold, NOW).at == at("2027-07-01T06:00Z")


@pytest.mark.parametrize("seconds", [0, 30, 300])
def test_the_near_past_runs_at_once(seconds: int) -> None:
    """agronholm/apscheduler#389"""
    past = NOW - timedelta(seconds=seconds)
    assert run_at.parse_run_at(past.isoformat(), "UTC", None, NOW).at == past


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ((NOW - timedelta(seconds=301)).isoformat(), "run_at_in_past"),
        ((NOW - timedelta(hours=1)).isoformat(), "run_at_in_past"),
        ("1970-01-01T00:00:00Z", "run_at_in_past"),
        ("0001-01-01T00:00:00+14:00", "run_at_in_past"),
        ("2200-01-01T00:00:00Z", "run_at_too_far"),
        ("2199-12-31T23:59:59-01:00", "run_at_too_far"),
        ("9999-12-31T23:59:59-14:00", "run_at_too_far"),
        ("9999-12-31T23:59:59", "run_at_too_far"),
    ],
)
def test_past_and_far_future_are_refused(text: str, code: str) -> None:
    """agronholm/apscheduler#389"""
    error = refusal(text)
    assert error.code == code
    assert error.faults[0].pointer == "/run_at"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "2027-03-14",
        "20270314T023000Z",
        "2027-W10-7T02:30:00Z",
        "2027-02-29T00:00:00Z",
        "2027-13-01T00:00:00Z",
        "2027-01-01T24:00:00Z",
        "2027-01-01T00:60:00Z",
        "2016-12-31T23:59:60Z",
        "0000-01-01T00:00:00Z",
        "2027-01-01T00:00:00+1",
        "2027-01-01T00:00:00+24:00",
        "2027-01-01T00:00:00+01:60",
        "2027-01-01T00:00:00Z\n",
        "٢٠٢٧-01-01T00:00:00Z",
        "2027-01-01T00:00:00." + "9" * 100_000,
    ],
)
def test_what_is_no_date_and_time_is_refused(text: str) -> None:
    error = refusal(text)
    assert error.code == "invalid_run_at"
    assert len(str(error)) < 300


def test_an_unknown_zone_is_refused_even_beside_an_offset() -> None:
    assert refusal("2027-03-14T02:30:00Z", "Europe/Rigga").code == "invalid_timezone"


# New zone data (Z2)


def pretend(monkeypatch: pytest.MonkeyPatch, zone: str, other: str) -> None:
    """From now on the zone has the clocks of another one."""
    monkeypatch.setattr(zones, "zone", lambda name: ZoneInfo(other if name == zone else name))


def test_wall_time_moves_with_the_law_and_an_instant_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    local = run_at.parse_run_at("2027-07-01T09:00", "Europe/Riga", None, NOW)
    instant = run_at.parse_run_at("2027-07-01T09:00+03:00", "Europe/Riga", None, NOW)
    assert (run_at.relocate(local), run_at.relocate(instant)) == (local, instant)
    pretend(monkeypatch, "Europe/Riga", "Asia/Tokyo")
    assert run_at.relocate(local) == timing.Once(at("2027-07-01T00:00Z"), local.local, "Europe/Riga", None)
    assert run_at.relocate(instant) == instant


def test_wall_time_that_comes_to_be_missing_or_repeated_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = run_at.parse_run_at("2027-03-14T02:30", "Asia/Tokyo", "second", NOW)
    repeated = run_at.parse_run_at("2027-11-07T01:30", "Asia/Tokyo", None, NOW)
    second = run_at.parse_run_at("2027-11-07T01:30", "Asia/Tokyo", "second", NOW)
    pretend(monkeypatch, "Asia/Tokyo", "America/New_York")
    assert run_at.relocate(missing).at == at("2027-03-14T03:00-04:00")
    assert run_at.relocate(repeated).at == at("2027-11-07T01:30-04:00")
    assert run_at.relocate(second).at == at("2027-11-07T01:30-05:00")
