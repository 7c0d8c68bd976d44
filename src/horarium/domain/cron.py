"""When a cron expression fires: pure arithmetic over wall-clock time, in both directions.

`cron_expression` answers for wall times, where no clock is ever changed. What a change of clocks does is decided here,
by the rules T1 to T9 and the kind of job, which is read off the text (T2):

* a *fixed-time* job fires once for each wall time it names: in a gap at the first instant after it, in a repeated
  stretch in the first pass (T3). So the fire of a wall time `w` is the first instant at which the clock shows `w` or
  more, which grows with `w`: walking wall times walks fires, and no fire can come before an earlier one.
* a *wildcard* job fires whenever the clock shows a matching time: never in a gap, in both passes of a repeated stretch
  (T4). Going forward the clock is followed to the end of the first pass and then set back to the start of the second.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from horarium import errors
from horarium.domain import cron_warnings, cron_words, zones
from horarium.domain.cron_expression import Expression, never_fires, parse

__all__ = ["Expression", "explain", "high_water", "is_wildcard", "next_fire", "parse", "previous_fire", "warnings"]

SECOND = timedelta(seconds=1)

# S9: what does not fire within so long never fires. 50 years, with their leap days.
HORIZON = timedelta(days=18263)


def is_wildcard(expression: str) -> bool:
    """True if the expression makes a wildcard job, false if a fixed-time job (T2)."""
    return parse(expression).is_wildcard


def next_fire(expression: str, zone: str, after: datetime) -> datetime | None:
    """The first fire strictly later than an instant, UTC (T6); None where the calendar of Python ends (year 9999).

    Raises `InvalidScheduleError` for an expression or a zone that is refused, and with code `never_fires` if there is
    no fire within 50 years (S9).
    """
    parsed, tz = parse(expression), zones.zone(zone)
    step = _next_wildcard if parsed.is_wildcard else _next_fixed
    try:
        fire = step(parsed, tz, after)
    except OverflowError:
        return None
    if fire - after > HORIZON:
        raise never_fires()
    return fire


def previous_fire(expression: str, zone: str, before: datetime) -> datetime | None:
    """The last fire strictly earlier than an instant, UTC; None if there is none within 50 years before it.

    Raises `InvalidScheduleError` for an expression or a zone that is refused.
    """
    parsed, tz = parse(expression), zones.zone(zone)
    step_back = _previous_wildcard if parsed.is_wildcard else _previous_fixed
    try:
        fire = step_back(parsed, tz, _whole_second_before(before))
    except (OverflowError, errors.InvalidScheduleError):
        return None
    return fire if before - fire <= HORIZON else None


def explain(expression: str, zone: str = "UTC") -> str:
    """An expression in English, with the day rule where both day fields are set. Raises `InvalidScheduleError`."""
    return cron_words.describe(parse(expression), zone)


def warnings(expression: str, zone: str, after: datetime) -> list[str]:
    """What the changes of clocks of the year after an instant do to a job, a sentence each (T3, T4)."""
    return cron_warnings.of_the_year(parse(expression), zones.zone(zone), after)


def high_water(instant: datetime, tz: ZoneInfo) -> datetime:
    """The highest wall time shown up to an instant, in whole seconds: in a second pass, the end of the first."""
    wall = zones.wall(instant, tz)
    repeat = zones.shift_at(wall, tz) if wall.fold else None
    return wall if repeat is None else repeat.wall_before - SECOND


def _next_fixed(parsed: Expression, tz: ZoneInfo, after: datetime) -> datetime:
    return zones.first_instant(parsed.next(high_water(after, tz)), tz)


def _previous_fixed(parsed: Expression, tz: ZoneInfo, latest: datetime) -> datetime:
    return zones.first_instant(parsed.previous(high_water(latest, tz) + SECOND), tz)


def _next_wildcard(parsed: Expression, tz: ZoneInfo, after: datetime) -> datetime:
    wall = zones.wall(after, tz)
    repeat = zones.shift_at(wall, tz)
    if repeat is not None:
        if fire := _next_in_repeat(parsed, repeat, wall):
            return fire
        wall = repeat.wall_before - SECOND
    candidate = parsed.next(wall)
    limit = wall + HORIZON
    while (shift := zones.shift_at(candidate, tz)) and shift.is_gap and candidate < limit:
        candidate = parsed.next(shift.wall_after - SECOND)
    return zones.first_instant(candidate, tz)


def _next_in_repeat(parsed: Expression, repeat: zones.Shift, wall: datetime) -> datetime | None:
    """The next fire after a wall time of a repeated stretch, if it lies there too: in this pass, then in the second."""
    candidate = parsed.next(wall)
    if candidate < repeat.wall_before:
        return _at(candidate, repeat.after if wall.fold else repeat.before)
    if wall.fold:
        return None
    candidate = parsed.next(repeat.wall_after - SECOND)
    return _at(candidate, repeat.after) if candidate < repeat.wall_before else None


def _previous_wildcard(parsed: Expression, tz: ZoneInfo, latest: datetime) -> datetime:
    wall = zones.wall(latest, tz)
    repeat = zones.shift_at(wall, tz)
    candidate = parsed.previous(wall + SECOND)
    if repeat is not None:
        if not wall.fold:
            return zones.first_instant(candidate, tz)
        if candidate >= repeat.wall_after:
            return _at(candidate, repeat.after)
        return zones.first_instant(parsed.previous(repeat.wall_before), tz)
    limit = wall - HORIZON
    while (shift := zones.shift_at(candidate, tz)) and shift.is_gap and candidate > limit:
        candidate = parsed.previous(shift.wall_before)
    return zones.last_instant(candidate, tz)


def _at(wall_time: datetime, offset: timedelta) -> datetime:
    return wall_time.replace(tzinfo=UTC) - offset


def _whole_second_before(instant: datetime) -> datetime:
    whole = instant.replace(microsecond=0)
    return whole if instant.microsecond else whole - SECOND
