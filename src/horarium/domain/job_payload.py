"""A payload: JSON that is kept and handed on as text, digit for digit (design rule N4).

It is looked through once, when it comes in, for what would break a reader later: U+0000, half surrogate pairs, numbers
that overflow, nesting without end. It is never read again by the server.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from horarium import errors
from horarium.domain import job_fields

MAX_BYTES = 256 * 1024
MAX_DEPTH = 100
MAX_DIGITS = 1000
_MAX_BITS = (10**MAX_DIGITS).bit_length()

# Only what matches needs a close look: an escape, an exponent, or more digits than a float can hold.
_SUSPECT = re.compile(rb"\\u|[0-9][eE]|[0-9]{300}")
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|([\[{])|([\]}])', re.DOTALL)


class _TooLong:
    """Stands for an integer with more digits than any reader takes."""


def read(value: Any, pointer: str, faults: job_fields.Faults) -> str:
    """The JSON text of a payload, given as raw JSON (`msgspec.Raw`) or as the value itself.

    Raises TooLargeError beyond 256 KiB; everything else that is wrong is noted with its path.
    """
    return _raw_text(value, pointer, faults) if isinstance(value, msgspec.Raw) else _written(value, pointer, faults)


def _raw_text(value: msgspec.Raw, pointer: str, faults: job_fields.Faults) -> str:
    raw = bytes(value)
    _check_size(raw)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        faults.add(pointer, "is not valid UTF-8")
        return "{}"
    if _is_too_deep(raw):
        faults.add(pointer, f"is nested more than {MAX_DEPTH} deep")
    elif _SUSPECT.search(raw):
        _look_through(_parse(text), pointer, faults)
    return text


def _written(value: Any, pointer: str, faults: job_fields.Faults) -> str:
    """The text of a payload that came as a value, from YAML or from Python."""
    if not _look_through(value, pointer, faults):
        return "{}"
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    _check_size(text.encode())
    return text


def _check_size(raw: bytes) -> None:
    if len(raw) > MAX_BYTES:
        raise errors.TooLargeError(f"the payload is larger than {MAX_BYTES // 1024} KiB")


def _is_too_deep(raw: bytes) -> bool:
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return False
    depth = deepest = 0
    for match in _BRACKETS.finditer(raw):
        if match[1]:
            depth += 1
            deepest = max(deepest, depth)
        elif match[2]:
            depth -= 1
    return deepest > MAX_DEPTH


def _parse(text: str) -> Any:
    """The value of a text known to be JSON; numbers too large become infinities or `_TooLong`."""
    return json.loads(text, parse_int=lambda digits: _TooLong() if len(digits) > MAX_DIGITS else 0)


def _look_through(value: Any, pointer: str, faults: job_fields.Faults) -> bool:
    """Note everything that must not be in a payload, with its path; true if there is nothing."""
    clean = True
    for path, complaint in _complaints(value, pointer):
        faults.add(path, complaint)
        clean = False
    return clean


def _complaints(value: Any, pointer: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    if depth > MAX_DEPTH:
        yield pointer, f"is nested more than {MAX_DEPTH} deep"
    elif isinstance(value, str):
        yield from _complaints_of_text(value, pointer)
    elif isinstance(value, Mapping):
        for name, member in value.items():
            path = job_fields.pointer_to(pointer, name)
            yield from (
                _complaints_of_text(name, path) if isinstance(name, str) else [(path, "is not named by a string")]
            )
            yield from _complaints(member, path, depth + 1)
    elif isinstance(value, list | tuple):
        for index, element in enumerate(value):
            yield from _complaints(element, f"{pointer}/{index}", depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        yield pointer, "is not a number that JSON can hold (NaN, Infinity or an overflow)"
    elif isinstance(value, _TooLong) or (type(value) is int and value.bit_length() > _MAX_BITS):
        yield pointer, f"is a number of more than {MAX_DIGITS} digits"
    elif not (value is None or isinstance(value, bool | int | float)):
        yield pointer, f"is a {type(value).__name__}, which JSON cannot hold"


def _complaints_of_text(text: str, pointer: str) -> Iterator[tuple[str, str]]:
    if "\0" in text:
        yield pointer, "holds U+0000, which the database cannot hold"
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        yield pointer, "holds half of a surrogate pair, which is not valid text"
