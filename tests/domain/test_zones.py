"""Names and data of time zones, and the changes of their clocks."""

from __future__ import annotations

import sys
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from horarium import errors
from horarium.domain import zones

HOUR = timedelta(hours=1)


def refusal(name: str) -> errors.InvalidScheduleError:
    with pytest.raises(errors.InvalidScheduleError) as caught:
        zones.zone(name)
    return caught.value


def wall(text: str) -> datetime:
    return datetime.fromisoformat(text)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


# Data


@pytest.fixture
def no_names_known() -> Iterator[None]:
    """Names are read anew in the test, and again after it."""
    zones.known_names.cache_clear()
    yield
    zones.known_names.cache_clear()


def test_data_come_from_the_package_and_not_from_the_host() -> None:
    """digitalocean/DOKS#32"""
    assert zoneinfo.TZPATH == ()
    zones.check_zone_data()
    assert zones.zone("Asia/Singapore").key == "Asia/Singapore"


def test_the_version_is_that_of_the_database() -> None:
    version = zones.data_version()
    assert version[:4].isdigit() and version[4:].isalpha()


@pytest.mark.usefixtures("no_names_known")
def test_a_missing_package_is_told_at_start_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zones, "PACKAGE", "no_such_zone_data")
    with pytest.raises(errors.ConfigurationError, match=r"no_such_zone_data.*reinstall"):
        zones.check_zone_data()


@pytest.mark.usefixtures("no_names_known")
@pytest.mark.parametrize(
    ("init", "names"),
    [
        ("", "UTC\n"),
        ("IANA_VERSION = '2026f'\n", None),
        ("IANA_VERSION = '2026f'\n", ""),
        ("IANA_VERSION = ''\n", "UTC\n"),
    ],
    ids=["no version", "no list of names", "an empty list of names", "an empty version"],
)
def test_a_broken_package_is_told_at_start_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, init: str, names: str | None
) -> None:
    package = tmp_path / "broken_zone_data"
    package.mkdir()
    (package / "__init__.py").write_text(init, "utf-8")
    if names is not None:
        (package / "zones").write_text(names, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(zones, "PACKAGE", package.name)
    with pytest.raises(errors.ConfigurationError, match="broken_zone_data"):
        zones.check_zone_data()
    del sys.modules[package.name]


# Names


@pytest.mark.parametrize(
    "name",
    ["UTC", "Europe/Riga", "US/Pacific", "Asia/Calcutta", "Europe/Kiev", "Etc/GMT+5", "EST", "America/Indianapolis"],
)
def test_names_and_aliases_are_taken_as_they_are_written(name: str) -> None:
    """tzinfo/tzinfo#163"""
    assert zones.zone(name).key == name


@pytest.mark.parametrize(
    ("name", "detail", "hint"),
    [
        ("Europe/Rigga", "not a time zone of the IANA database", "did you mean Europe/Riga?"),
        ("europe/riga", "not a time zone", "did you mean Europe/Riga?"),
        ("America/New York", "not a time zone", "did you mean America/New_York?"),
        ("Singapor", "not a time zone", "did you mean Singapore?"),
        ("Honululu", "not a time zone", "did you mean Pacific/Honolulu?"),
        ("utc", "not a time zone", "did you mean UTC?"),
        ("PST", "an abbreviation", "America/Los_Angeles"),
        ("CEST", "an abbreviation", "Europe/Paris"),
        ("+02:00", "an offset, not a time zone", "name a place, such as Europe/Riga; Etc/GMT-2 is always at +02:00"),
        ("UTC-5", "an offset, not a time zone", "Etc/GMT+5 is always at -05:00"),
        ("+05:30", "an offset, not a time zone", "name a place, such as Europe/Riga"),
        ("GMT+23", "an offset, not a time zone", "name a place, such as Europe/Riga"),
        ("/etc/localtime", "not a time zone", ""),
        ("../../etc/passwd", "not a time zone", ""),
        ("/usr/share/zoneinfo/UTC", "not a time zone", ""),
        ("", "'' is not a time zone", "write a name such as UTC"),
        ("Europe/Riga\x00", "not a time zone", ""),
        ("x" * 100_000, "not a time zone", "write a name such as UTC"),
    ],
)
def test_anything_else_is_refused_with_what_was_probably_meant(name: str, detail: str, hint: str) -> None:
    error = refusal(name)
    assert (error.field, error.code, error.faults[0].pointer) == ("timezone", "invalid_timezone", "/timezone")
    assert detail in error.detail
    assert hint in error.hint
    assert len(str(error)) < 300


def test_every_name_of_the_database_can_be_loaded() -> None:
    for name in zones.known_names():
        assert zones.zone(name).utcoffset(datetime(2026, 1, 1, tzinfo=UTC)) is not None


# Changes of clocks


def test_a_wall_time_in_a_gap_is_known_as_missing() -> None:
    tz = zones.zone("America/New_York")
    shift = zones.shift_at(wall("2026-03-08T02:30"), tz)
    assert shift == zones.Shift(at("2026-03-08T07:00Z"), -5 * HOUR, -4 * HOUR)
    assert shift.is_gap
    assert (shift.wall_before, shift.wall_after) == (wall("2026-03-08T02:00"), wall("2026-03-08T03:00"))
    assert zones.first_instant(wall("2026-03-08T02:30"), tz) == shift.at


def test_a_wall_time_of_a_repeated_stretch_has_two_instants() -> None:
    tz = zones.zone("America/New_York")
    shift = zones.shift_at(wall("2026-11-01T01:30"), tz)
    assert shift == zones.Shift(at("2026-11-01T06:00Z"), -4 * HOUR, -5 * HOUR)
    assert not shift.is_gap
    assert (shift.wall_before, shift.wall_after) == (wall("2026-11-01T02:00"), wall("2026-11-01T01:00"))
    assert zones.first_instant(wall("2026-11-01T01:30"), tz) == at("2026-11-01T01:30-04:00")
    assert zones.last_instant(wall("2026-11-01T01:30"), tz) == at("2026-11-01T01:30-05:00")
    assert zones.wall(at("2026-11-01T01:30-04:00"), tz).fold == 0
    assert zones.wall(at("2026-11-01T01:30-05:00"), tz).fold == 1


@pytest.mark.parametrize("text", ["2026-03-08T01:59:59", "2026-03-08T03:00", "2026-11-01T00:59:59", "2026-11-01T02:00"])
def test_a_wall_time_beside_a_change_happens_once(text: str) -> None:
    tz = zones.zone("America/New_York")
    assert zones.shift_at(wall(text), tz) is None
    assert zones.first_instant(wall(text), tz) == zones.last_instant(wall(text), tz)
    assert zones.wall(zones.first_instant(wall(text), tz), tz) == wall(text)


def test_a_whole_day_may_be_missing() -> None:
    shift = zones.shift_at(wall("2011-12-30T12:00"), zones.zone("Pacific/Apia"))
    assert shift == zones.Shift(at("2011-12-30T10:00Z"), -10 * HOUR, 14 * HOUR)


def test_changes_are_listed_in_order_with_open_and_closed_end() -> None:
    tz = zones.zone("Europe/Riga")
    spring, autumn = at("2026-03-29T01:00Z"), at("2026-10-25T01:00Z")
    assert [shift.at for shift in zones.shifts(tz, at("2026-01-01T00:00Z"), at("2027-01-01T00:00Z"))] == [
        spring,
        autumn,
    ]
    assert [shift.at for shift in zones.shifts(tz, spring, autumn)] == [autumn]
    assert [shift.at for shift in zones.shifts(tz, spring - zones.SECOND / 3, autumn - zones.SECOND / 3)] == [spring]
    assert list(zones.shifts(tz, autumn, spring)) == []


@pytest.mark.parametrize("fraction", [1, 300_000, 999_999])
def test_instants_with_a_fraction_of_a_second_find_the_same_change(fraction: int) -> None:
    tz = zones.zone("Europe/Riga")
    spring = at("2026-03-29T01:00Z")
    for distance in (0, 1, 2, 3, 3600):
        low = spring - timedelta(seconds=distance, microseconds=fraction)
        high = spring + timedelta(seconds=distance, microseconds=fraction)
        assert [shift.at for shift in zones.shifts(tz, low, high)] == [spring]
