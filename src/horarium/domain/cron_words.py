"""Cron expressions in English, for answers and previews: what it will do, and which day rule applies (S8)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from horarium.domain import cron_expression, cron_syntax

# Spelled out, since those of the `calendar` module follow the locale of the process.
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
ORDINALS = ("first", "second", "third", "fourth", "fifth")

BOTH = "(both day fields must match, as one of them starts with *)"
EITHER = "(a day matches if either of the two day fields does)"

# Up to so many times of day are written out one by one.
MOST_CLOCK_TIMES = 6

# A list of numbers longer than this is shortened, if they are evenly spaced.
MOST_NUMBERS = 6


def describe(parsed: cron_expression.Expression, zone: str) -> str:
    """One line, such as `At 09:00 on Monday to Friday, Europe/Riga time`."""
    time, days = _time(parsed.fields), _days(parsed)
    if days == "every day" and len(parsed.fields[2].values()) == _size("hour"):
        days = ""
    return f"{' '.join(part for part in (time, days) if part)}, {zone if zone == 'UTC' else f'{zone} time'}"


# The time of day


def _time(fields: Sequence[cron_syntax.Field]) -> str:
    seconds, minutes, hours = (each.values() for each in fields[:3])
    if not any(each.starts_with_star for each in fields[:3]) and _count(seconds, minutes, hours) <= MOST_CLOCK_TIMES:
        return f"At {_join(_clock_times(seconds, minutes, hours))}"
    if seconds == [0]:
        return _recurring("minute", minutes, [("hour", hours)])
    return _recurring("second", seconds, [("minute", minutes), ("hour", hours)])


def _count(*fields: Sequence[int]) -> int:
    total = 1
    for values in fields:
        total *= len(values)
    return total


def _clock_times(seconds: Sequence[int], minutes: Sequence[int], hours: Sequence[int]) -> list[str]:
    with_seconds = list(seconds) != [0]
    return [
        f"{hour:02}:{minute:02}" + (f":{second:02}" if with_seconds else "")
        for hour in hours
        for minute in minutes
        for second in seconds
    ]


def _recurring(unit: str, values: Sequence[int], coarser: Sequence[tuple[str, Sequence[int]]]) -> str:
    step = _even_step(values, 60)
    if step is None:
        words = f"At {_numbered(unit, values)}"
    else:
        words = f"Every {unit}" if step == 1 else f"Every {step} {unit}s"
    narrower = [(name, group) for name, group in coarser if len(group) < _size(name)]
    if step is None and not narrower:
        return f"{words} of every {coarser[0][0]}"
    if step is not None and [name for name, _ in narrower] == ["hour"] and _is_run(narrower[0][1]):
        hours = narrower[0][1]
        return f"{words} from {hours[0]:02}:00 to {hours[-1]:02}:59"
    return " ".join([words, *(_qualifier(name, group) for name, group in narrower)])


def _qualifier(unit: str, values: Sequence[int]) -> str:
    if unit == "hour" and (step := _even_step(values, 24)):
        return f"of every {_ordinal(step)} hour"
    return f"of {_numbered(unit, values)}"


def _is_run(values: Sequence[int]) -> bool:
    return values[-1] - values[0] == len(values) - 1


def _size(unit: str) -> int:
    return 24 if unit == "hour" else 60


def _even_step(values: Sequence[int], size: int) -> int | None:
    """The step n if the values are 0, n, 2n, … and go round evenly, with at least two of them."""
    if len(values) < 2 or size % len(values):
        return None
    step = size // len(values)
    return step if list(values) == list(range(0, size, step)) else None


# Days


def _days(parsed: cron_expression.Expression) -> str:
    day, weekday, months = parsed.fields[3], parsed.fields[5], _months(parsed.fields[4])
    every_day = f"every day in {months}" if months else "every day"
    if parsed.needs_both_days:
        match _is_every(day, 31), _is_every(weekday, 7):
            case True, True:
                return every_day
            case True, False:
                return f"on {_weekdays(weekday, months)}"
            case False, True:
                return f"on {_month_days(day, months)}"
        return f"on {_month_days(day, months)}, if that is also {_weekdays(weekday, months)} {BOTH}"
    if _is_every(day, 31) or _is_every(weekday, 7):
        return f"{every_day} {EITHER}"
    return f"on {_month_days(day, months)}, and on {_weekdays(weekday, months)} {EITHER}"


def _is_every(field: cron_syntax.Field, days: int) -> bool:
    """True if the field rules no day out: there are 31 days of the month, 7 of the week (0 and 7 are one)."""
    return len({value % 7 if days == 7 else value for value in field.values()}) == days


def _month_days(field: cron_syntax.Field, months: str) -> str:
    of = f"of {months or 'the month'}"
    words = [f"{_numbered('day', values)} {of}"] if (values := field.values()) else []
    for term in field.terms:
        if isinstance(term, cron_syntax.LastDay):
            words.append(f"the last day {of}")
        if isinstance(term, cron_syntax.LastWorkday):
            words.append(f"the last weekday (Monday to Friday) {of}")
    return _join(dict.fromkeys(words))


def _weekdays(field: cron_syntax.Field, months: str) -> str:
    of = f"of {months or 'the month'}"
    # Monday is 1 and Sunday 7, so that a week is listed from Monday on.
    values = sorted({value or 7 for value in field.values()})
    words = [_join(_runs(values, _weekday)) + (f" in {months}" if months else "")] if values else []
    for term in field.terms:
        if isinstance(term, cron_syntax.LastWeekday):
            words.append(f"the last {_weekday(term.weekday)} {of}")
        if isinstance(term, cron_syntax.NthWeekday):
            words.append(f"the {ORDINALS[term.nth - 1]} {_weekday(term.weekday)} {of}")
    return _join(dict.fromkeys(words))


def _weekday(value: int) -> str:
    return WEEKDAYS[value % 7]


def _months(field: cron_syntax.Field) -> str:
    """The months by name; empty for all twelve."""
    values = field.values()
    return "" if len(values) == len(MONTHS) else _join(_runs(values, lambda value: MONTHS[value - 1]))


# Lists


def _numbered(unit: str, values: Sequence[int]) -> str:
    return f"{unit}{'' if len(values) == 1 else 's'} {_join(_runs(values, str))}"


def _runs(values: Sequence[int], name: Callable[[int], str]) -> list[str]:
    """The values by name, three or more neighbours as `first to last`; a long even list is shortened."""
    gaps = {later - earlier for earlier, later in itertools.pairwise(values)}
    if len(values) > MOST_NUMBERS and len(gaps) == 1 and gaps != {1}:
        return [f"{', '.join(name(value) for value in values[:3])}, … {name(values[-1])}"]
    words: list[str] = []
    start = 0
    for end, value in enumerate(values, 1):
        if end < len(values) and values[end] == value + 1:
            continue
        run = values[start:end]
        words += [f"{name(run[0])} to {name(run[-1])}"] if len(run) > 2 else [name(each) for each in run]
        start = end
    return words


def _join(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def _ordinal(number: int) -> str:
    return f"{number}{'nd' if number == 2 else 'rd' if number == 3 else 'th'}"
