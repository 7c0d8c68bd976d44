"""Time zones: names, pinned data, and what a change of clocks does to a wall-clock time.

The data come from the `tzdata` package alone; importing this module turns the host's own zone files off for the whole
process, so every node answers alike (design rule Z0).

Two words are used throughout. An *instant* is an aware UTC datetime. A *wall* time is a naive datetime, what a clock on
the wall of that zone shows; its `fold` tells the two passes of a repeated stretch apart (PEP 495).
"""

from __future__ import annotations

import difflib
import functools
import importlib
import re
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import resources
from zoneinfo import ZoneInfo

from horarium import errors

PACKAGE = "tzdata"
SECOND = timedelta(seconds=1)

# Changes of one zone lie weeks apart, so looking at two points of each half day misses none.
_PROBE = timedelta(hours=12)

_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?([0-5]\d))?", re.IGNORECASE)
_LONGEST_NAME = 64

# Abbreviations that people write and that are no zones, as each names several places or half a year.
_ABBREVIATIONS = {
    "AEDT": "Australia/Sydney",
    "AEST": "Australia/Sydney",
    "AKST": "America/Anchorage",
    "BST": "Europe/London",
    "CDT": "America/Chicago",
    "CEST": "Europe/Paris",
    "CST": "America/Chicago",
    "EDT": "America/New_York",
    "EEST": "Europe/Helsinki",
    "JST": "Asia/Tokyo",
    "MDT": "America/Denver",
    "MSK": "Europe/Moscow",
    "PDT": "America/Los_Angeles",
    "PST": "America/Los_Angeles",
    "Z": "UTC",
}

zoneinfo.reset_tzpath(to=[])


@dataclass(frozen=True, slots=True)
class Shift:
    """One change of clocks: at the instant `at` the offset from UTC goes from `before` to `after`.

    Forward (`is_gap`): the wall times from `wall_before` up to, not including, `wall_after` do not exist.
    Back: the wall times from `wall_after` up to, not including, `wall_before` happen twice.
    """

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def is_gap(self) -> bool:
        """True when clocks go forward."""
        return self.after > self.before

    @property
    def wall_before(self) -> datetime:
        """What the clock would have shown at `at`, had it not been changed."""
        return _naive(self.at) + self.before

    @property
    def wall_after(self) -> datetime:
        """What the clock shows at `at`."""
        return _naive(self.at) + self.after


def check_zone_data() -> None:
    """Raise `ConfigurationError` unless the packaged zone data are there and can be read; called at start-up (Z0)."""
    try:
        version, names = data_version(), known_names()
        ZoneInfo.no_cache("America/New_York")
    except (ImportError, OSError, AttributeError, zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
        raise errors.ConfigurationError(
            f"the zone data of the Python package {PACKAGE!r} are missing or cannot be read ({error}): reinstall it"
        ) from error
    if not version or "UTC" not in names:
        raise errors.ConfigurationError(f"the Python package {PACKAGE!r} holds no zone data: reinstall it")


def data_version() -> str:
    """The release of the IANA database in use, such as `2026f`."""
    return str(importlib.import_module(PACKAGE).IANA_VERSION)


@functools.cache
def known_names() -> frozenset[str]:
    """All names of the packaged database, aliases too."""
    return frozenset(resources.files(PACKAGE).joinpath("zones").read_text(encoding="ascii").split())


@functools.cache
def zone(name: str) -> ZoneInfo:
    """The zone of an IANA name, spelled exactly as in the database.

    Raises `InvalidScheduleError` (code `invalid_timezone`) for anything else, with the name that was probably meant.
    """
    if name not in known_names():
        raise errors.InvalidScheduleError(
            "timezone", _complaint(name), _suggestion(name), code="invalid_timezone", pointer="/timezone"
        )
    return ZoneInfo(name)


def wall(instant: datetime, tz: ZoneInfo) -> datetime:
    """What the clock shows at an instant, naive, with `fold` set in the second pass of a repeated stretch."""
    return instant.astimezone(tz).replace(tzinfo=None)


def shift_at(wall_time: datetime, tz: ZoneInfo) -> Shift | None:
    """The change of clocks that makes a wall time missing or repeated; None when it happens exactly once."""
    before = _offset(wall_time, tz, fold=0)
    after = _offset(wall_time, tz, fold=1)
    if before == after:
        return None
    one, other = _instant(wall_time, before), _instant(wall_time, after)
    return _bisect(tz, min(one, other), max(one, other))


def first_instant(wall_time: datetime, tz: ZoneInfo) -> datetime:
    """The instant of a wall time: its first pass when it happens twice, the first instant after the gap if never."""
    shift = shift_at(wall_time, tz)
    if shift is not None and shift.is_gap:
        return shift.at
    return _instant(wall_time, _offset(wall_time, tz, fold=0))


def last_instant(wall_time: datetime, tz: ZoneInfo) -> datetime:
    """The instant of a wall time that exists: its second pass when it happens twice."""
    return _instant(wall_time, _offset(wall_time, tz, fold=1))


def shifts(tz: ZoneInfo, after: datetime, until: datetime) -> Iterator[Shift]:
    """The changes of clocks with after < `at` <= until, oldest first."""
    low, before = after, _offset_at(after, tz)
    while low < until:
        high = min(low + _PROBE, until)
        offset = _offset_at(high, tz)
        if offset != before:
            yield _bisect(tz, low, high)
        low, before = high, offset


def _bisect(tz: ZoneInfo, low: datetime, high: datetime) -> Shift:
    """The one change of clocks with low < `at` <= high. Changes fall on whole seconds, so fractions may be cut."""
    low, high = low.replace(microsecond=0), high.replace(microsecond=0)
    before, after = _offset_at(low, tz), _offset_at(high, tz)
    while high - low > SECOND:
        middle = (low + (high - low) / 2).replace(microsecond=0)
        if _offset_at(middle, tz) == before:
            low = middle
        else:
            high = middle
    return Shift(high, before, after)


def _offset(wall_time: datetime, tz: ZoneInfo, fold: int) -> timedelta:
    offset = wall_time.replace(tzinfo=tz, fold=fold).utcoffset()
    assert offset is not None  # noqa: S101 - ZoneInfo gives None only for None
    return offset


def _offset_at(instant: datetime, tz: ZoneInfo) -> timedelta:
    offset = instant.astimezone(tz).utcoffset()
    assert offset is not None  # noqa: S101 - ZoneInfo gives None only for None
    return offset


def _instant(wall_time: datetime, offset: timedelta) -> datetime:
    return wall_time.replace(tzinfo=UTC, fold=0) - offset


def _naive(instant: datetime) -> datetime:
    return instant.replace(tzinfo=None)


def _complaint(name: str) -> str:
    if _OFFSET.fullmatch(name):
        return f"{name!r} is an offset, not a time zone"
    if name.upper() in _ABBREVIATIONS:
        return f"{name!r} is an abbreviation, not the name of a time zone"
    return f"{name[:_LONGEST_NAME]!r} is not a time zone of the IANA database ({data_version()})"


def _suggestion(name: str) -> str:
    if match := _OFFSET.fullmatch(name):
        return f"name a place, such as Europe/Riga{_fixed_zone(match)}"
    if place := _ABBREVIATIONS.get(name.upper()):
        return f"name a place, such as {place}"
    if nearest := _nearest(name[:_LONGEST_NAME]):
        return f"did you mean {nearest}?"
    return "write a name such as UTC, Europe/Riga or America/New_York"


def _fixed_zone(offset: re.Match[str]) -> str:
    """The zone of a whole-hour offset in words; the database's Etc names have the sign turned round."""
    sign, hours, minutes = offset.groups()
    name = f"Etc/GMT{'-' if sign == '+' else '+'}{int(hours)}"
    if name not in known_names() or int(minutes or 0):
        return ""
    return f"; {name} is always at {sign}{int(hours):02}:00"


def _nearest(name: str) -> str | None:
    by_lower = {known.lower(): known for known in sorted(known_names())}
    wanted = name.strip().lower().replace(" ", "_")
    if wanted in by_lower:
        return by_lower[wanted]
    by_city = {known.rpartition("/")[2]: known for known in by_lower}
    for candidates in (by_lower, by_city):
        if found := difflib.get_close_matches(wanted, candidates, n=1, cutoff=0.75):
            return by_lower.get(found[0]) or by_lower[by_city[found[0]]]
    return None
