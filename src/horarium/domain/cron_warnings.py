"""Words about the changes of clocks that a cron job will meet: said at create, while it is easy to choose another hour.

One sentence a change, for those that leave a run out, move it, or repeat it (design rules T3 and T4).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from horarium import errors
from horarium.domain import cron_expression, zones

YEAR = timedelta(days=366)


def of_the_year(parsed: cron_expression.Expression, tz: ZoneInfo, after: datetime) -> list[str]:
    """The sentences for the changes of clocks within a year after an instant, oldest first."""
    return [
        f"Clocks in {tz.key} go {_movement(shift)}: {effect}."
        for shift in zones.shifts(tz, after, after + YEAR)
        for effect in _effects(parsed, shift)
    ]


def _effects(parsed: cron_expression.Expression, shift: zones.Shift) -> Iterator[str]:
    low, high = sorted((shift.wall_before, shift.wall_after))
    span = _matches(parsed, low, high)
    if span is None:
        return
    first, last = span
    if shift.is_gap:
        yield _in_gap(parsed, shift, first, last)
    elif parsed.is_wildcard and not parsed.fields[2].starts_with_star:
        yield f"{_runs(first, last)} in both passes"
    elif not parsed.is_wildcard and _goes_on(parsed, shift, first):
        yield (
            f"{_runs(first, last)} in the first pass only, which adds {_length(shift)} to the wait for the next; "
            "start the hour field with * to run in both"
        )


def _in_gap(parsed: cron_expression.Expression, shift: zones.Shift, first: datetime, last: datetime) -> str:
    if parsed.is_wildcard:
        return f"{_slots(first, last)} left out, as {'it does' if first == last else 'they do'} not exist"
    if first == last:
        return f"{_runs(first, last)} at {_clock(shift.wall_after, first)} instead"
    return f"the runs of {_clock(first)} to {_clock(last)} become one, at {_clock(shift.wall_after, first)}"


def _matches(parsed: cron_expression.Expression, low: datetime, high: datetime) -> tuple[datetime, datetime] | None:
    """The first and the last matching wall time with low <= time < high; None if there is none."""
    try:
        first = parsed.next(low - zones.SECOND)
    except errors.InvalidScheduleError:
        return None
    return (first, parsed.previous(high)) if first < high else None


def _goes_on(parsed: cron_expression.Expression, shift: zones.Shift, first: datetime) -> bool:
    """True if the times of the stretch come again right after it: a job meant for each hour, written out."""
    return parsed.next(first + (shift.before - shift.after) - zones.SECOND) == first + (shift.before - shift.after)


def _movement(shift: zones.Shift) -> str:
    way = "forward" if shift.is_gap else "back"
    return f"{way} from {shift.wall_before:%Y-%m-%d %H:%M} to {_clock(shift.wall_after, shift.wall_before)}"


def _runs(first: datetime, last: datetime) -> str:
    if first == last:
        return f"the run of {_clock(first)} starts"
    return f"the runs of {_clock(first)} to {_clock(last)} start"


def _slots(first: datetime, last: datetime) -> str:
    if first == last:
        return f"the slot {_clock(first)} is"
    return f"the slots {_clock(first)} to {_clock(last)} are"


def _length(shift: zones.Shift) -> str:
    minutes = abs(shift.after - shift.before) // timedelta(minutes=1)
    return f"{minutes} minutes"


def _clock(wall_time: datetime, beside: datetime | None = None) -> str:
    """The time of day, with the date if it is not that of the time it stands beside."""
    form = "%H:%M:%S" if wall_time.second else "%H:%M"
    if beside is not None and beside.date() != wall_time.date():
        form = f"%Y-%m-%d {form}"
    return wall_time.strftime(form)
