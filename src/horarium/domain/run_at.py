"""The moment of a one-off: an instant, or wall time in a zone, as its text says (design rules O1 to O3, Z2)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import NoReturn
from zoneinfo import ZoneInfo

from horarium import errors
from horarium.domain import timing, zones

LATEST_YEAR = 2199
TOLERANCE = timedelta(seconds=300)

_FORM = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[Tt ](?P<hour>\d\d):(?P<minute>\d\d)"
    r"(?::(?P<second>\d\d)(?:[.,]\d{1,9})?)?(?P<offset>[Zz]|[+-]\d\d:\d\d)?",
    re.ASCII,
)


def parse_run_at(text: str, timezone: str, fold: timing.Fold | None, now: datetime) -> timing.Once:
    """The one-off of a text: `2027-03-14T02:30:00Z`, `…+01:00`, or with neither, which is wall time in `timezone`.

    A fraction of a second is cut. Up to 300 s before `now` is taken, and runs at once. Raises `InvalidScheduleError`
    with code `invalid_run_at`, `nonexistent_local_time`, `ambiguous_local_time`, `run_at_in_past`, `run_at_too_far` or
    `invalid_timezone`.
    """
    tz = zones.zone(timezone)
    moment = _read(text)
    _check_year(moment, text)
    if moment.tzinfo is not None:
        once = timing.Once(moment.astimezone(UTC), timezone=timezone)
    else:
        _check_exists_once(moment, tz, fold)
        once = timing.Once(_locate(moment, tz, fold), text, timezone, fold)
    _check_reach(once.at, text, now)
    return once


def relocate(once: timing.Once) -> timing.Once:
    """A one-off under the zone data in use now: wall time is looked up anew, an instant never moves (Z2).

    What has come to lie in a gap moves to the first instant after it; what has come to happen twice, to the first pass.
    """
    if once.local is None:
        return once
    at = _locate(_read(once.local), zones.zone(once.timezone), once.fold)
    return timing.Once(at, once.local, once.timezone, once.fold)


def _read(text: str) -> datetime:
    """The moment as written, aware or naive, whole seconds."""
    match = _FORM.fullmatch(text)
    if match is None:
        _refuse(
            f"{text[:40]!r} is not a date and time", "invalid_run_at", "write 2027-01-31T09:00:00Z, or leave out the Z"
        )
    year, month, day, hour, minute, second = (int(match[part] or 0) for part in _FORM.groupindex if part != "offset")
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=_offset(match["offset"]))
    except ValueError as error:
        _refuse(f"{text!r} does not exist: {error}", "invalid_run_at")


def _offset(text: str | None) -> timezone | None:
    if text is None:
        return None
    if text in ("Z", "z"):
        return UTC
    hours, minutes = int(text[1:3]), int(text[4:6])
    if minutes > 59:
        raise ValueError("minutes of the offset must be in 0..59")
    span = timedelta(hours=hours, minutes=minutes)
    return timezone(-span if text[0] == "-" else span)


def _locate(moment: datetime, tz: ZoneInfo, fold: timing.Fold | None) -> datetime:
    shift = zones.shift_at(moment, tz)
    if fold == "second" and shift is not None and not shift.is_gap:
        return zones.last_instant(moment, tz)
    return zones.first_instant(moment, tz)


def _check_exists_once(moment: datetime, tz: ZoneInfo, fold: timing.Fold | None) -> None:
    """O1: wall time that does not exist, or that exists twice without saying which is meant, is refused."""
    shift = zones.shift_at(moment, tz)
    if shift is None:
        return
    written = moment.isoformat()
    if shift.is_gap:
        before, after = (_show(shift.at - zones.SECOND, tz), _show(shift.at, tz))
        _refuse(
            f"{written} does not exist in {tz.key}: clocks go from {before} to {after}",
            "nonexistent_local_time",
            "write one of these, with its offset",
        )
    if fold is None:
        first, second = _show(zones.first_instant(moment, tz), tz), _show(zones.last_instant(moment, tz), tz)
        _refuse(
            f"{written} happens twice in {tz.key}: {first} and {second}",
            "ambiguous_local_time",
            'write one of these, or send "fold": "first" or "second"',
        )


def _check_year(moment: datetime, text: str) -> None:
    """Refuse years near the ends of the calendar before they are moved by an offset."""
    if moment.year > LATEST_YEAR + 1:
        _refuse_far(text)
    if moment.year < 2:
        _refuse_past(text)


def _check_reach(at: datetime, text: str, now: datetime) -> None:
    if at.year > LATEST_YEAR:
        _refuse_far(text)
    if now - at > TOLERANCE:
        _refuse_past(text)


def _refuse_far(text: str) -> NoReturn:
    _refuse(f"{text} is later than the end of {LATEST_YEAR}", "run_at_too_far")


def _refuse_past(text: str) -> NoReturn:
    _refuse(f"{text} is more than {TOLERANCE.seconds} s in the past", "run_at_in_past", "leave run_at out to run now")


def _show(instant: datetime, tz: ZoneInfo) -> str:
    return instant.astimezone(tz).isoformat()


def _refuse(detail: str, code: str, hint: str = "") -> NoReturn:
    raise errors.InvalidScheduleError("run_at", detail, hint, code=code, pointer="/run_at")
