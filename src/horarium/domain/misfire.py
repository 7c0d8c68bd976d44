"""What becomes of times that have passed: which of them still run, and what is written down of the others.

The overdue times of a job, from the first one to now, are judged together by the earliest of them (rules M1 to M3):
late by less than the grace is plain lateness, and all of them run. Else the policy speaks for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from horarium.domain import schedule as schedules

MICROSECOND = timedelta(microseconds=1)

# So many late times are run at most, whatever the grace says: an every-second job with a grace of hours has no end.
MAX_LATE = 10_000


class Misfire(StrEnum):
    """What to do about times that were missed by more than the grace."""

    SKIP = "skip"
    RUN_ONCE = "run_once"
    RUN_ALL = "run_all"


@dataclass(frozen=True, slots=True)
class MisfirePolicy:
    """A job's misfire policy. Window and number bound what `run_all` makes up for."""

    misfire: Misfire = Misfire.RUN_ONCE
    grace: timedelta = timedelta(seconds=60)
    catch_up_window: timedelta = timedelta(seconds=86400)
    max_catch_up: int = 100


Reason = Literal["misfire", "coalesced"]


@dataclass(frozen=True, slots=True)
class Missed:
    """One row about nominal times that do not run: `first` to `last`, `count` of them.

    `exact` is false when there are more than were counted; `coalesced_into` is the time that runs for them, if any.
    """

    first: datetime
    last: datetime
    count: int
    exact: bool
    reason: Reason
    coalesced_into: datetime | None = None


def settle(
    schedule: schedules.Schedule, policy: MisfirePolicy, first_overdue: datetime, now: datetime
) -> tuple[list[datetime], list[Missed]]:
    """What runs, oldest first, and what is written down, of a timer whose time `first_overdue` is not after `now`.

    `first_overdue` counts as overdue even if the schedule no longer has it. What runs and what is written down make up
    the overdue times exactly; there is at most one row, and neither list grows with the length of an outage.
    """
    late = now - first_overdue >= policy.grace
    runs = _runs(schedule, policy, first_overdue, now) if late else _latest(schedule, first_overdue, now, MAX_LATE)
    if runs and runs[0] == first_overdue:
        return runs, []
    into = runs[0] if runs and late and policy.misfire is Misfire.RUN_ONCE else None
    return runs, [_missed(schedule, first_overdue, runs[0] - MICROSECOND if runs else now, into)]


def _runs(
    schedule: schedules.Schedule, policy: MisfirePolicy, first_overdue: datetime, now: datetime
) -> list[datetime]:
    """Which overdue times the policy lets run, oldest first."""
    if policy.misfire is Misfire.SKIP:
        return []
    if policy.misfire is Misfire.RUN_ONCE or isinstance(schedule.timing, schedules.Once):
        return _latest(schedule, first_overdue, now, 1)
    return _latest(schedule, first_overdue, now, policy.max_catch_up, since=now - policy.catch_up_window)


def _latest(
    schedule: schedules.Schedule, first_overdue: datetime, now: datetime, limit: int, since: datetime | None = None
) -> list[datetime]:
    """The latest `limit` overdue times, only those later than `since` if given, oldest first."""
    after = first_overdue if since is None else max(first_overdue, since)
    fires = schedules.latest_fires(schedule, after, now, limit)
    if len(fires) < limit and (since is None or first_overdue > since):
        fires.insert(0, first_overdue)
    return fires


def _missed(schedule: schedules.Schedule, first_overdue: datetime, until: datetime, into: datetime | None) -> Missed:
    """The row about the overdue times up to and including `until`."""
    others, exact = schedules.count_between(schedule, first_overdue, until, schedules.COUNT_CAP - 1)
    last = schedules.previous_fire(schedule, until + MICROSECOND) if others else None
    return Missed(first_overdue, last or first_overdue, 1 + others, exact, "coalesced" if into else "misfire", into)
