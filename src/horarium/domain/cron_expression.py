"""A parsed cron expression, walked over wall time: no zone, no change of clocks.

The walking is cronsim's, over *naive* times. Its own treatment of zones is left aside, as it goes wrong in second
passes, in half-hour zones and where midnight does not exist; what a change of clocks does is decided in `cron`.
"""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass, field
from datetime import date, datetime

import cronsim

from horarium import errors
from horarium.domain import cron_syntax


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression: its text and its six fields, seconds first."""

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
            raise never_fires() from None


@functools.lru_cache(maxsize=16_384)
def parse(expression: str) -> Expression:
    """The parsed form of an expression.

    Raises `InvalidScheduleError`, with code `never_fires` if it names only days that no month has (`0 0 30 2 *`).
    """
    fields = cron_syntax.read(expression)
    try:
        engine = cronsim.CronSim(" ".join(_for_engine(each) for each in fields), datetime(2000, 1, 1))  # noqa: DTZ001 - wall time
    except cronsim.CronSimError:
        # The text has passed our own grammar, so all that is left is a day of month that its months do not have.
        raise never_fires() from None
    return Expression(expression, fields, engine)


def never_fires() -> errors.InvalidScheduleError:
    """The refusal of an expression without a fire within 50 years (S9)."""
    return errors.InvalidScheduleError(
        "schedule", "never fires: no such time comes within 50 years", code="never_fires"
    )


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
