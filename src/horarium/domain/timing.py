"""The three ways to say when: a cron expression, an interval, one moment. Without bounds and without jitter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, assert_never

from horarium import errors
from horarium.domain import cron, cron_count

Fold = Literal["first", "second"]


@dataclass(frozen=True, slots=True)
class Cron:
    """Each time the wall clock of a zone shows what the expression names (T1)."""

    expression: str
    timezone: str


@dataclass(frozen=True, slots=True)
class Every:
    """`anchor`, and each `interval` of elapsed time after it (I2). The interval is more than nothing.

    In a schedule, `anchor` itself is a fire only where it was asked for, as `start_at`: see `Schedule`.
    """

    interval: timedelta
    anchor: datetime


@dataclass(frozen=True, slots=True)
class Once:
    """The one instant `at`. If it was given as wall time, `local` is its text and `timezone` its zone (Z2).

    `fold` is the pass that was asked for where that wall time happens twice.
    """

    at: datetime
    local: str | None = None
    timezone: str = "UTC"
    fold: Fold | None = None


Timing = Cron | Every | Once


def next_fire(timing: Timing, after: datetime) -> datetime | None:
    """The first fire strictly later than an instant; None if there is none.

    Raises `InvalidScheduleError` for a zone that has vanished from the zone data (Z3).
    """
    match timing:
        case Cron():
            return _next_cron(timing, after)
        case Every(interval=interval, anchor=anchor):
            return _nth(timing, max(0, (after - anchor) // interval + 1))
        case Once(at=at):
            return at if at > after else None
        case _ as unreachable:
            assert_never(unreachable)


def previous_fire(timing: Timing, before: datetime) -> datetime | None:
    """The last fire strictly earlier than an instant; None if there is none. Raises like `next_fire`."""
    match timing:
        case Cron(expression=expression, timezone=timezone):
            return cron.previous_fire(expression, timezone, before)
        case Every(interval=interval, anchor=anchor):
            # Floor division of the negated distance rounds up, so a fire at `before` itself is left out.
            steps = -((anchor - before) // interval) - 1
            return _nth(timing, steps) if steps >= 0 else None
        case Once(at=at):
            return at if at < before else None
        case _ as unreachable:
            assert_never(unreachable)


def count_between(timing: Timing, after: datetime, until: datetime, cap: int) -> tuple[int, bool]:
    """How many fires have after < fire <= until, and whether that is exact.

    An expression is counted up to `cap`, beyond which the answer is (cap, False); an interval to the last one.
    """
    match timing:
        case Cron(expression=expression, timezone=timezone):
            return cron_count.count(expression, timezone, after, until, cap)
        case Every(interval=interval, anchor=anchor):
            first = max(0, (after - anchor) // interval + 1)
            return max(0, (until - anchor) // interval + 1 - first), True
        case Once(at=at):
            return int(after < at <= until), True
        case _ as unreachable:
            assert_never(unreachable)


def _next_cron(timing: Cron, after: datetime) -> datetime | None:
    """The next fire of an expression that was good when it was taken: one that no longer fires has no next fire."""
    try:
        return cron.next_fire(timing.expression, timing.timezone, after)
    except errors.InvalidScheduleError as error:
        if error.code == "never_fires":
            return None
        raise


def _nth(timing: Every, steps: int) -> datetime | None:
    try:
        return timing.anchor + steps * timing.interval
    except OverflowError:
        return None
