"""The grammar of cron expressions: text in, fields of terms out, or a refusal that says what to write instead.

Grammar and day rule are those of Debian's crontab(5), with names, `?`, `L`, `LW`, `5L`, `MON#2` and macros (design
rules S1 to S8). All limits are checked before anything is expanded, so that no text costs time or memory to refuse.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from horarium import errors

MAX_LENGTH = 255

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

MACROS = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}


@dataclass(frozen=True, slots=True)
class Span:
    """The values `first`, `first + step`, … up to `last`. `star`: it was written as `*` (or `?`)."""

    first: int
    last: int
    step: int = 1
    star: bool = False

    def values(self) -> range:
        """The values, ascending."""
        return range(self.first, self.last + 1, self.step)


@dataclass(frozen=True, slots=True)
class LastDay:
    """`L`: the last day of the month."""


@dataclass(frozen=True, slots=True)
class LastWorkday:
    """`LW`: the last day of the month that is a Monday to Friday."""


@dataclass(frozen=True, slots=True)
class LastWeekday:
    """`5L`: the last such day of the week in the month."""

    weekday: int


@dataclass(frozen=True, slots=True)
class NthWeekday:
    """`MON#2`: the n-th such day of the week in the month, 1 to 5."""

    weekday: int
    nth: int


Term = Span | LastDay | LastWorkday | LastWeekday | NthWeekday


@dataclass(frozen=True, slots=True)
class Kind:
    """What a field may hold: values `low` to `top`, and perhaps names for them from `low` on.

    `unit_s` is the length of a step of 1 in seconds, where it has one. The widest step that is taken is `top` (S4).
    """

    name: str
    low: int
    top: int
    names: tuple[str, ...] = ()
    unit_s: int | None = None

    @property
    def is_day(self) -> bool:
        """True for the two day fields, where `?` may stand for `*`."""
        return self is DAY or self is WEEKDAY


SECOND = Kind("second", 0, 59, unit_s=1)
MINUTE = Kind("minute", 0, 59, unit_s=60)
HOUR = Kind("hour", 0, 23, unit_s=3600)
DAY = Kind("day of month", 1, 31, unit_s=86400)
MONTH = Kind("month", 1, 12, MONTHS)
WEEKDAY = Kind("day of week", 0, 7, WEEKDAYS)
KINDS = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an expression: its terms, of which at least one must match."""

    kind: Kind
    terms: tuple[Term, ...]

    @property
    def starts_with_star(self) -> bool:
        """True if the text starts with `*` (or `?`): this decides the kind of job (T2) and the day rule (S8)."""
        first = self.terms[0]
        return isinstance(first, Span) and first.star

    def values(self) -> list[int]:
        """The plain values of the field, ascending, without those of `L`, `LW`, `5L` and `MON#2`."""
        return sorted({value for term in self.terms if isinstance(term, Span) for value in term.values()})


def read(expression: str) -> tuple[Field, ...]:
    """The six fields of an expression, seconds first. Raises `InvalidScheduleError`."""
    _check_text(expression)
    upper = _expand_macro(expression.upper().strip(" \t"))
    _check_foreign(upper)
    texts = upper.split()
    _check_count(texts, expression.split())
    if len(texts) == 5:
        texts = ["0", *texts]
    return tuple(_read_field(kind, text) for kind, text in zip(KINDS, texts, strict=True))


# The text as a whole


def _check_text(expression: str) -> None:
    if len(expression) > MAX_LENGTH:
        _refuse("schedule", f"is longer than {MAX_LENGTH} characters")
    for position, character in enumerate(expression, 1):
        if not (" " <= character <= "~" or character == "\t"):
            _refuse(
                "schedule",
                f"holds {_describe(character)} at position {position}",
                "write printable ASCII only, fields parted by spaces or tabs",
            )
    if not expression.strip():
        _refuse("schedule", "is empty", "write five fields, such as 0 9 * * MON-FRI")


def _describe(character: str) -> str:
    code = f"U+{ord(character):04X}"
    if character in "\r\n\v\f\x85\u2028\u2029":
        return f"a line end ({code})"
    if character.isspace():
        return f"a space that is not the plain one ({code})"
    if not character.isprintable():
        return f"a control or invisible character ({code})"
    if character.isdigit():
        return f"{character!r}, a digit of another script ({code})"
    return f"{character!r}, which is not ASCII ({code})"


def _expand_macro(upper: str) -> str:
    if not upper.startswith("@"):
        return upper
    name, *rest = upper.split()
    if name == "@EVERY":
        _refuse("schedule", "@every is not a cron schedule", _interval_hint(rest[0] if rest else ""))
    if name == "@REBOOT":
        _refuse("schedule", "@reboot has no meaning here: no machine's start is waited for", "start the job by hand")
    if name not in MACROS:
        near = difflib.get_close_matches(name, MACROS, n=1) or [f"one of {', '.join(MACROS)}"]
        _refuse("schedule", f"{name.lower()!r} is not a macro", f"write {near[0].lower()}")
    if rest:
        _refuse("schedule", f"{name.lower()} takes nothing after it", f"write {name.lower()} alone")
    return MACROS[name]


def _interval_hint(duration: str) -> str:
    """What to write for `@every 1h30m`, in seconds if it can be read."""
    parts = re.fullmatch(r"(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9})S)?", duration)
    if parts is None or not duration:
        return "use interval_s, the seconds between two runs"
    hours, minutes, seconds = (int(part or 0) for part in parts.groups())
    return f"use interval_s: {hours * 3600 + minutes * 60 + seconds}"


def _check_foreign(upper: str) -> None:
    """Refuse what other dialects put into an expression, each with its own message."""
    if upper.startswith(("CRON_TZ=", "TZ=")):
        _refuse("schedule", "a time zone does not belong in the expression", "use the timezone field")
    if "%" in upper:
        _refuse("schedule", "% is not supported: it has no meaning outside a crontab file", "leave it out")
    if "+" in upper:
        _refuse("schedule", "+ is not supported", "write numbers without a sign")


def _check_count(texts: Sequence[str], as_written: Sequence[str]) -> None:
    count = len(texts)
    if count == 7:
        _refuse("schedule", "has seven fields: a year is not supported", "use start_at and end_at to bound it")
    if count == 6 and re.fullmatch(r"[A-Za-z_]+/[A-Za-z_/-]+", as_written[5]):
        _refuse("schedule", f"ends with {as_written[5]!r}: a zone is no field", "use the timezone field")
    if count not in (5, 6):
        _refuse(
            "schedule",
            f"has {count} field{'' if count == 1 else 's'}",
            "write five (minute, hour, day of month, month, day of week), or six with seconds first",
        )


# One field


def _read_field(kind: Kind, text: str) -> Field:
    terms = text.split(",")
    if "" in terms:
        _refuse(kind.name, f"{text!r} has an empty place beside a comma", "take out the comma")
    return Field(kind, tuple(_read_term(kind, term) for term in terms))


def _read_term(kind: Kind, text: str) -> Term:
    if special := _read_special(kind, text):
        return special
    base, slash, step_text = text.partition("/")
    step = _read_step(kind, text, step_text) if slash else 1
    if base in ("*", "?"):
        return _star(kind, base, step)
    first_text, dash, last_text = base.partition("-")
    if dash and not first_text:
        _refuse(kind.name, f"{text!r} starts with a minus sign", _range_hint(kind))
    first = _read_value(kind, text, first_text)
    if not dash:
        return Span(first, kind.top if slash else first, step)
    # On the right of a range Sunday closes the week: FRI-SUN is 5-7 (S3). SUN-SUN is the one day.
    last = 7 if last_text == "SUN" != first_text and kind is WEEKDAY else _read_value(kind, text, last_text)
    if first > last:
        _refuse(kind.name, f"{text!r} starts after its end", _unwrapped(kind, first, last, step))
    return Span(first, last, step)


def _star(kind: Kind, base: str, step: int) -> Span:
    if base == "?" and not kind.is_day:
        _refuse(kind.name, "? stands for * in the two day fields only", "write *")
    return Span(kind.low, kind.top, step, star=True)


def _read_step(kind: Kind, text: str, digits: str) -> int:
    if digits.startswith("-"):
        _refuse(kind.name, f"{text!r} has a negative step", "write a step of 1 or more")
    step = _read_number(kind, text, digits, what="step")
    if step == 0:
        _refuse(kind.name, f"{text!r} has step 0", "write a step of 1 or more")
    if step > kind.top:
        hint = f"use interval_s: {step * kind.unit_s}" if kind.unit_s else f"the widest step is {kind.top}"
        _refuse(kind.name, f"{text!r}: step wider than the field, which ends at {kind.top}", hint)
    return step


def _read_value(kind: Kind, text: str, value: str) -> int:
    if value in kind.names:
        return kind.low + kind.names.index(value)
    if value and not value.isdigit():
        _refuse_word(kind, text, value)
    number = _read_number(kind, text, value, what="number")
    if not kind.low <= number <= kind.top:
        _refuse(kind.name, f"{value} is out of range", _range_hint(kind))
    return number


def _read_number(kind: Kind, text: str, digits: str, *, what: str) -> int:
    if not digits:
        _refuse(kind.name, f"{text!r} has no {what} where one should stand", _range_hint(kind))
    if not digits.isdigit():
        _refuse(kind.name, f"{text!r} has a {what} that is not a number", _range_hint(kind))
    if len(digits) > 3:
        _refuse(kind.name, f"{digits[:8]!r} is not a number of at most three digits", _range_hint(kind))
    return int(digits)


def _refuse_word(kind: Kind, text: str, word: str) -> NoReturn:
    """Refuse a word where a value should stand."""
    if word.startswith("H"):
        _refuse(
            kind.name, f"{text!r}: H (a hashed value) is not supported", "write a value, and jitter_s to spread starts"
        )
    if kind.names:
        near = difflib.get_close_matches(word[:3], kind.names, n=1, cutoff=0.6)
        hint = f"write {near[0]}" if near else f"names are {kind.names[0]} to {kind.names[-1]}"
        _refuse(kind.name, f"{word!r} is not a name of a {'month' if kind is MONTH else 'day of the week'}", hint)
    if word in MONTHS or word in WEEKDAYS:
        _refuse(kind.name, f"{word!r} is a name and does not belong in this field", _range_hint(kind))
    _refuse(kind.name, f"{text!r} is not understood", _range_hint(kind))


# L, LW, 5L, MON#2, and their kin that are not taken


def _read_special(kind: Kind, text: str) -> Term | None:
    if kind is DAY:
        return _read_day_special(text)
    if kind is WEEKDAY:
        return _read_weekday_special(text)
    if "#" in text:
        _refuse(kind.name, f"{text!r}: # belongs in the day of week", "write MON#2 there")
    if re.fullmatch(r"L|LW|\d{0,3}[LW]|L-.*|W\d*", text):
        _refuse(kind.name, f"{text!r}: L and W do not belong in this field", _range_hint(kind))
    return None


def _read_day_special(text: str) -> Term | None:
    if text == "L":
        return LastDay()
    if text == "LW":
        return LastWorkday()
    if "#" in text:
        _refuse(DAY.name, f"{text!r}: # belongs in the day of week", "write MON#2 there")
    if re.search(r"\dW|^W|-L?W|[^L]W$", text):
        _refuse(
            DAY.name, f"{text!r}: W (nearest weekday) is not supported", "only LW is, the last weekday of the month"
        )
    if re.match(r"L-", text):
        _refuse(
            DAY.name, f"{text!r}: L-n (days before the last) is not supported", "only L is, the last day of the month"
        )
    if text.startswith("L/"):
        _refuse(DAY.name, f"{text!r}: L is one day and takes no step", "write L")
    if re.fullmatch(r".*[-/]L|\d+L", text):
        _refuse(DAY.name, f"{text!r}: L stands alone", "write L as a place of its own in a list, such as 29,30,L")
    return None


def _read_weekday_special(text: str) -> Term | None:
    if "#" in text:
        return _read_nth(text)
    if text == "L":
        _refuse(WEEKDAY.name, "L needs a day before it", "write 5L for the last Friday, 6 for each Saturday")
    if match := re.fullmatch(r"([0-7])L", text):
        return LastWeekday(int(match[1]))
    if text.endswith("L") and text[:-1] in WEEKDAYS:
        _refuse(WEEKDAY.name, f"{text!r}: a name before L is not supported", f"write {WEEKDAYS.index(text[:-1])}L")
    if re.match(r"[0-7]L/", text):
        _refuse(WEEKDAY.name, f"{text!r}: L is one day and takes no step", f"write {text[:2]}")
    if re.search(r"\dW$|^L?W$", text):
        _refuse(WEEKDAY.name, f"{text!r}: W does not belong in this field", "write LW as the day of month")
    return None


def _read_nth(text: str) -> NthWeekday:
    day, _, nth = text.partition("#")
    if nth in ("L", "LAST"):
        hint = f"write {WEEKDAYS.index(day)}L" if day in WEEKDAYS else "write 5L for the last Friday"
        _refuse(WEEKDAY.name, f"{text!r}: #L is not supported", hint)
    if not nth.isdigit() or len(nth) > 3 or not 1 <= int(nth) <= 5:
        _refuse(WEEKDAY.name, f"{text!r}: after # stands which one of the month, 1 to 5", "write MON#2")
    if "-" in day or "/" in day:
        _refuse(WEEKDAY.name, f"{text!r}: # takes one day, not a range", "write a list, such as MON#1,TUE#1")
    return NthWeekday(_read_value(WEEKDAY, text, day), int(nth))


# Hints


def _range_hint(kind: Kind) -> str:
    names = f" or {kind.names[0]} to {kind.names[-1]}" if kind.names else ""
    return f"values are {kind.low} to {kind.top}{names}"


def _unwrapped(kind: Kind, first: int, last: int, step: int) -> str:
    """What to write for a range that runs over the top of its field: `22-2` is `22-23,0-2`."""
    top = 6 if kind is WEEKDAY else kind.top
    first = 0 if kind is WEEKDAY and first == 7 else first
    if step > 1:
        cycle = [*range(first, top + 1), *range(kind.low, last + 1)] if first > last else range(first, last + 1)
        return f"write {','.join(str(value) for value in cycle[::step])}"
    if first <= last:
        return f"write {first}-{last}"
    return f"write {_short(first, top)},{_short(kind.low, last)}"


def _short(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _refuse(field: str, detail: str, hint: str = "") -> NoReturn:
    raise errors.InvalidScheduleError(field, detail, hint)
