"""Readers of single values of a job's body: each gives the value as the domain wants it, or notes what is wrong.

A reader never raises and never converts between kinds: `"5"`, `5.0` and `true` are not the number 5. What it returns
after noting a fault is of no meaning, since the body as a whole is refused; of what can be looked at no further, None.
"""

from __future__ import annotations

import difflib
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from horarium import errors

Reader = Callable[[Any, str, "Faults"], Any]

MIN_YEAR = 1970
MAX_YEAR = 2199

_INSTANT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,6})\d*)?(?P<offset>[Zz]|[+-]\d\d:\d\d)?", re.ASCII
)
# C0 and C1, line and paragraph separators, what turns the direction of text, and lone surrogates.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# What most names are, and what needs no further look.
_PLAIN_LABEL = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Faults:
    """Everything that is wrong with one body."""

    def __init__(self) -> None:
        self._found: list[errors.Fault] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, pointer: str, detail: str, code: str = "invalid") -> None:
        """Note one fault."""
        self._found.append(errors.Fault(pointer, detail, code))

    def take(self, error: errors.InvalidError) -> None:
        """Note the faults that another part of the domain found."""
        self._found.extend(error.faults)

    def raise_all(self) -> None:
        """Raise InvalidError with all faults, if there are any."""
        if self._found:
            raise errors.InvalidError(self._found)


def integer(low: int, high: int) -> Reader:
    """A whole number within bounds."""

    def read(value: Any, pointer: str, faults: Faults) -> int | None:
        if type(value) is int and low <= value <= high:
            return value
        faults.add(pointer, f"{shown(value)} is not a whole number from {low} to {high}")
        return None

    return read


def number(low: float, high: float) -> Reader:
    """A number, whole or not, within bounds."""

    def read(value: Any, pointer: str, faults: Faults) -> float | None:
        if type(value) in (int, float) and low <= value <= high:
            kept: float = value
            return kept
        faults.add(pointer, f"{shown(value)} is not a number from {low:g} to {high:g}")
        return None

    return read


def text(longest: int) -> Reader:
    """Free text of several lines, at most `longest` characters."""

    def read(value: Any, pointer: str, faults: Faults) -> str | None:
        if type(value) is not str:
            faults.add(pointer, f"{shown(value)} is not a string")
            return None
        if len(value) > longest:
            faults.add(pointer, f"has {len(value)} characters; at most {longest} are allowed")
        elif _UNSTORABLE.search(value):
            faults.add(pointer, "holds U+0000 or half of a surrogate pair, which no text can hold")
        return value

    return read


def label(longest: int) -> Reader:
    """A name on one line: 1 to `longest` characters in NFC, no control characters, not blank (rule N4)."""

    def read(value: Any, pointer: str, faults: Faults) -> str | None:
        if type(value) is not str:
            faults.add(pointer, f"{shown(value)} is not a string")
            return None
        if len(value) <= longest and _PLAIN_LABEL.fullmatch(value):
            return value
        return _read_label(value, longest, pointer, faults)

    return read


def _read_label(value: str, longest: int, pointer: str, faults: Faults) -> str:
    if _CONTROL.search(value):
        faults.add(pointer, "holds a control character")
        return value
    normal = unicodedata.normalize("NFC", value)
    if not any(unicodedata.category(character)[0] not in "ZC" for character in normal):
        faults.add(pointer, "is blank" if normal else "is empty")
    elif len(normal) > longest:
        faults.add(pointer, f"has {len(normal)} characters; at most {longest} are allowed")
    elif normal != normal.strip():
        faults.add(pointer, "begins or ends with a space")
    return normal


def pattern(form: str, meaning: str) -> Reader:
    """Text that fits a regular expression as a whole; `meaning` says it in words."""
    compiled = re.compile(form)

    def read(value: Any, pointer: str, faults: Faults) -> str | None:
        if type(value) is str and compiled.fullmatch(value):
            return value
        faults.add(pointer, f"{shown(value)} is not {meaning}")
        return None

    return read


def word(words: type[StrEnum] | Iterable[str]) -> Reader:
    """One of a few words; the answer is the member of the enumeration."""
    known = {str(each): each for each in words}

    def read(value: Any, pointer: str, faults: Faults) -> Any:
        if type(value) is str and value in known:
            return known[value]
        hint = suggestion(value, known) if type(value) is str else ""
        faults.add(pointer, f"{shown(value)} is not one of {', '.join(known)}{hint}")
        return None

    return read


def boolean(value: Any, pointer: str, faults: Faults) -> bool | None:
    """`true` or `false`."""
    if type(value) is bool:
        return value
    faults.add(pointer, f"{shown(value)} is not true or false")
    return None


def instant(value: Any, pointer: str, faults: Faults) -> datetime | None:
    """An RFC 3339 time with `Z` or an offset, as UTC; digits finer than a microsecond are cut."""
    match = _INSTANT.fullmatch(value) if type(value) is str else None
    if match is None:
        faults.add(pointer, f"{shown(value)} is not a time like 2027-01-31T09:00:00Z")
        return None
    if match["offset"] is None:
        faults.add(pointer, f"{value} needs Z or an offset such as +01:00: it is an instant")
        return None
    try:
        read = _to_utc(match)
    except (ValueError, OverflowError) as error:
        faults.add(pointer, f"{value} does not exist: {error}")
        return None
    if not MIN_YEAR <= read.year <= MAX_YEAR:
        faults.add(pointer, f"{value} is not within the years {MIN_YEAR} to {MAX_YEAR}")
        return None
    return read


def _to_utc(match: re.Match[str]) -> datetime:
    day, clock, fraction, offset = match.groups()
    written = f"{day}T{clock}" + (f".{fraction:<06}" if fraction else "") + ("Z" if offset in "Zz" else offset)
    return datetime.fromisoformat(written).astimezone(UTC)


def members(value: Any, pointer: str, faults: Faults, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """The members of an object, each by its reader; `null` counts as left out, unknown ones are refused."""
    if not isinstance(value, Mapping):
        faults.add(pointer, f"{shown(value)} is not an object")
        return {}
    read: dict[str, Any] = {}
    for name, member in value.items():
        reader = readers.get(name)
        if reader is None:
            faults.add(pointer_to(pointer, name), f"is unknown{suggestion(name, readers)}", "unknown_member")
        elif member is not None:
            read[name] = reader(member, pointer_to(pointer, name), faults)
    return read


def entries(value: Any, pointer: str, faults: Faults, most: int) -> list[tuple[str, Any]]:
    """The elements of a list, each with its pointer; at most `most`."""
    if not isinstance(value, list | tuple):
        faults.add(pointer, f"{shown(value)} is not a list")
        return []
    if len(value) > most:
        faults.add(pointer, f"has {len(value)} elements; at most {most} are allowed")
        return []
    return [(f"{pointer}/{index}", each) for index, each in enumerate(value)]


def pointer_to(pointer: str, name: object) -> str:
    """The JSON Pointer of a member (RFC 6901); what cannot be printed is shown as an escape."""
    printable = str(name)[:100].encode("utf-8", "backslashreplace").decode()
    return f"{pointer}/{printable.replace('~', '~0').replace('/', '~1')}"


def suggestion(given: object, known: Iterable[str]) -> str:
    """`; did you mean X?` for something that looks like a known word, else nothing."""
    close = difflib.get_close_matches(str(given)[:100].lower(), list(known), 1, 0.7)
    return f"; did you mean {close[0]}?" if close else ""


def shown(value: Any) -> str:
    """A value as a message may quote it: one line, short."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, float) and not math.isfinite(value):
        return "a number that is too large"
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number that is too large"
    printable = ascii(value) if _UNSTORABLE.search(str(value)) else repr(value)
    return printable if len(printable) <= 60 else printable[:57] + "…"
