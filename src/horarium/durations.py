"""Durations as people write them: `15s`, `100ms`, `1h30m`, `2d`.

A number without a unit is refused: `lease = 15` leaves open whether seconds or milliseconds are meant.
"""

from __future__ import annotations

import itertools
import re
from datetime import timedelta

_MICROSECONDS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_PART = re.compile(r"([0-9]{1,9})(\.[0-9]{1,6})?(us|ms|s|m|h|d|w)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
_WRITTEN = [unit for unit in reversed(_MICROSECONDS) if unit != "w"]


def parse_duration(text: str) -> timedelta:
    """The duration that a text such as `15s`, `1.5h` or `1h30m` names: never negative, to the microsecond.

    Units: us, ms, s, m (minutes), h, d (24 h), w (7 d); each at most once, the largest first. A ValueError
    says what is wrong.
    """
    stripped = text.strip()
    if not _WHOLE.fullmatch(stripped):
        raise ValueError(_refusal(stripped))
    parts = _PART.findall(stripped)
    sizes = [_MICROSECONDS[unit] for _, _, unit in parts]
    if any(smaller >= larger for larger, smaller in itertools.pairwise(sizes)):
        raise ValueError(f"{stripped!r} names a unit twice or a small one before a large one; write it like 1h30m")
    return timedelta(microseconds=sum(_scaled(*part) for part in parts))


def format_duration(duration: timedelta) -> str:
    """The shortest text that `parse_duration` reads back: `1h30m`, `100ms`, `0s`."""
    rest = duration // timedelta(microseconds=1)
    if rest < 0:
        raise ValueError("a duration is never negative")
    parts = []
    for unit in _WRITTEN:
        count, rest = divmod(rest, _MICROSECONDS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _scaled(whole: str, fraction: str, unit: str) -> int:
    """Microseconds of one part; digits of the fraction that are finer than a microsecond are cut."""
    size = _MICROSECONDS[unit]
    digits = fraction[1:]
    return int(whole) * size + (int(digits) * size // 10 ** len(digits) if digits else 0)


def _refusal(text: str) -> str:
    if _NUMBER.fullmatch(text):
        return f"{text!r} has no unit; write {text}s for seconds (units: us, ms, s, m, h, d, w)"
    return f"{text!r} is not a duration; write it like 15s, 100ms, 2h or 1h30m (units: us, ms, s, m, h, d, w)"
