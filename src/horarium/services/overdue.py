"""Ticks that were due, and not made yet, when somebody changed their job: they are settled first, by the old definition.

A change must not swallow them: an occurrence due before an edit still runs (rule E4). It is rare: the scheduler is seconds
ahead, not behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from horarium import errors
from horarium.domain import firing, ids, job, misfire, schedule
from horarium.services.holding import Held
from horarium.store.skips import SkipRow

_MICROSECOND = timedelta(microseconds=1)


@dataclass(slots=True)
class Settled:
    """What becomes of overdue ticks. `next`: the occurrence that the timer stands for afterwards."""

    ticks: list[firing.Tick] = field(default_factory=list)
    skips: list[SkipRow] = field(default_factory=list)
    next: firing.Tick | None = None


def settle(held: Held, now: datetime) -> Settled:
    """What runs and what is written down of the ticks due by `now`, by the policies that the timer carries."""
    timer = held.timer
    if timer is None:
        return Settled()
    first = firing.Tick(timer.scheduled_for, timer.due_at)
    if timer.due_at > now:
        return Settled(next=first)
    plan = firing.Planner().plan(held.job.id, first, timer.schedule_key, timer.policy_key, now, now)
    return Settled(plan.ticks, [_skip_of(held.job, missed) for missed in plan.missed], plan.next)


def stretch(
    of_job: job.Job, planned: schedule.Schedule, after: datetime, until: datetime, reason: str
) -> SkipRow | None:
    """One line about the nominal times with after < time <= until.

    None when there are none, and when they can no longer be told because the zone has vanished (rule Z3).
    """
    try:
        first = schedule.next_fire(planned, after)
    except errors.InvalidScheduleError:
        return None
    if first is None or first > until:
        return None
    count, exact = schedule.count_between(planned, after, until)
    last = schedule.previous_fire(planned, until + _MICROSECOND) or first
    return SkipRow(of_job.id, of_job.tenant_id, of_job.shard, first, last, count, exact, reason)


def single(of_job: job.Job, nominal: datetime, reason: str) -> SkipRow:
    """One line about one nominal time."""
    return SkipRow(of_job.id, of_job.tenant_id, of_job.shard, nominal, nominal, 1, True, reason)


def _skip_of(of_job: job.Job, missed: misfire.Missed) -> SkipRow:
    into = missed.coalesced_into
    return SkipRow(
        of_job.id,
        of_job.tenant_id,
        of_job.shard,
        missed.first,
        missed.last,
        missed.count,
        missed.exact,
        missed.reason,
        None if into is None else ids.tick_run_id(of_job.id, of_job.shard, into),
    )
