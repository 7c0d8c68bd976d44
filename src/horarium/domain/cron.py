"""When a cron expression fires: pure arithmetic over wall-clock time, in both directions.

cronsim answers for *naive* wall times, where no clock is ever changed; what a change of clocks does is decided here, by
the rules T1 to T9 and the kind of job, which is read off the text (T2):

* a *fixed-time* job fires once for each wall time it names: in a gap at the first instant after it, in a repeated
  stretch in the first pass (T3). So the fire of a wall time `w` is the first instant at which the clock shows `w` or
  more, which grows with `w`: walking wall times walks fires, and no fire can come before an earlier one.
* a *wildcard* job fires whenever the clock shows a matching time: never in a gap, in both passes of a repeated stretch
  (T4). Going forward the clock is followed to the end of the first pass and then set back to the start of the second.
"""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import cronsim

from horarium import errors
from horarium.domain import cron_syntax, zones

SECOND = timedelta(seconds=1)

# S9: what does not fire within so long never fires. 50 years, with their leap days.
HORIZON = timedelta(days=18263)


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression. It knows wall time only: no zone, no change of clocks."""

    text: str
    fields: tuple[cron_syntax.Field, ...]
    _engine: cronsim.CronSim = field(repr=False, compare=False)

    @property
    def is_wildcard(self) -> bool:
        """True if the seconds, minute or hour field starts with `*` (T2)."""
        return any(each.starts_with_star for each in self.fields[:3])

    @property
    def needs_both_days(self) -> bool:
        """True if a day must match both day fields, since one starts with `*`; else either will do (S8)."""
        return self.fields[3].starts_with_star or self.fields[5].starts_with_star

    def matches_day(self, day: date) -> bool:
        """True if the month and the day fields match a date."""
        return day.month in self._engine.months and self._engine.match_day(day)

    def next(self, wall_time: datetime) -> datetime:
        """The first matching wall time strictly after one. Raises `InvalidScheduleError` if none comes."""
        return self._walk(wall_time, 1)

    def previous(self, wall_time: datetime) -> datetime:
        """The last matching wall time strictly before one, given in whole seconds. Raises like `next`."""
        return self._walk(wall_time, -1)

    def _walk(self, wall_time: datetime, direction: int) -> datetime:
        # The engine is an iterator: each walk takes a copy, which costs a tenth of parsing the text again.
        engine = copy.copy(self._engine)
        engine.dt = wall_time.replace(microsecond=0, fold=0)
        engine.tick_direction = direction
        try:
            return next(engine)
        except StopIteration:
            raise _never_fires() from None


@functools.lru_cache(maxsize=16_384)
def parse(expression: str) -> Expression:
    """The parsed form of an expression.

    Raises `InvalidScheduleError`, with code `never_fires` if it names only days that no month has (`0 0 30 2 *`).
    """
    fields = cron_syntax.read(expression)
    try:
        engine = cronsim.CronSim(" ".join(_for_engine(each) for each in fields), datetime(2000, 1, 1))  # noqa: DTZ001
    except cronsim.CronSimError:
        # The text has passed our own grammar, so all that is left is a day of month that its months do not have.
        raise _never_fires() from None
    return Expression(expression, fields, engine)


def is_wildcard(expression: str) -> bool:
    """True if the expression makes a wildcard job, false if a fixed-time job (T2)."""
    return parse(expression).is_wildcard


def next_fire(expression: str, zone: str, after: datetime) -> datetime | None:
    """The first fire strictly later than an instant, UTC (T6); None where the calendar of Python ends (year 9999).

    Raises `InvalidScheduleError` for an expression or a zone that is refused, and with code `never_fires` if there is
    no fire within 50 years (S9).
    """
    parsed, tz = parse(expression), zones.zone(zone)
    try:
        fire = _next_wildcard(parsed, tz, after) if parsed.is_wildcard else _next_fixed(parsed, tz, after)
    except OverflowError:
        return None
    if fire - after > HORIZON:
        raise _never_fires()
    return fire


def previous_fire(expression: str, zone: str, before: datetime) -> datetime | None:
    """The last fire strictly earlier than an instant, UTC; None if there is none within 50 years before it.

    Raises `InvalidScheduleError` for an expression or a zone that is refused.
    """
    parsed, tz = parse(expression), zones.zone(zone)
    latest = _whole_second_before(before)
    try:
        fire = _previous_wildcard(parsed, tz, latest) if parsed.is_wildcard else _previous_fixed(parsed, tz, latest)
    except (OverflowError, errors.InvalidScheduleError):
        return None
    return fire if before - fire <= HORIZON else None


def high_water(instant: datetime, tz: ZoneInfo) -> datetime:
    """The highest wall time shown up to an instant, in whole seconds: in a second pass, the end of the first."""
    wall = zones.wall(instant, tz)
    if wall.fold:
        shift = zones.shift_at(wall, tz)
        if shift is not None:
            return shift.wall_before - SECOND
    return wall


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


def _for_engine(each: cron_syntax.Field) -> str:
    """A field written so that cronsim reads it as we do: numbers only, `a/n` and `18-18/2` spelled out."""
    return ",".join(_term_for_engine(term) for term in each.terms)


def _term_for_engine(term: cron_syntax.Term) -> str:
    match term:
        case cron_syntax.Span(star=True, step=1):
            return "*"
        case cron_syntax.Span(star=True, step=step):
            return f"*/{step}"
        case cron_syntax.Span(first=first, last=last) if first == last:
            return str(first)
        case cron_syntax.Span(first=first, last=last, step=step):
            return f"{first}-{last}/{step}"
        case cron_syntax.LastDay():
            return "L"
        case cron_syntax.LastWorkday():
            return "LW"
        case cron_syntax.LastWeekday(weekday=weekday):
            return f"{weekday}L"
        case cron_syntax.NthWeekday(weekday=weekday, nth=nth):
            return f"{weekday}#{nth}"


def _never_fires() -> errors.InvalidScheduleError:
    return errors.InvalidScheduleError(
        "schedule", "never fires: no such time comes within 50 years", code="never_fires"
    )
