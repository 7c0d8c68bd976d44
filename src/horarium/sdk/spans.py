"""Durations as arguments of the SDK: a text such as `"10s"` or `"1h30m"`, or a `timedelta`.

A bare number is refused, as everywhere: `timeout=10` leaves open whether seconds or minutes are meant.
"""

from __future__ import annotations

from datetime import timedelta

from horarium import durations

Duration = str | timedelta


def seconds(duration: Duration) -> float:
    """The duration in seconds; ValueError when it is not one, or is negative."""
    if isinstance(duration, str):
        return durations.parse_duration(duration).total_seconds()
    if not isinstance(duration, timedelta):
        raise ValueError(f'{duration!r} is not a duration; write it like "15s", "1h30m" or timedelta(minutes=5)')
    if duration < timedelta(0):
        raise ValueError("a duration is never negative")
    return duration.total_seconds()


def whole_seconds(duration: Duration) -> int:
    """The duration in seconds, for members that count whole ones; ValueError when it has a fraction."""
    exact = seconds(duration)
    if exact != int(exact):
        raise ValueError(f"{duration!r} is not a whole number of seconds")
    return int(exact)
