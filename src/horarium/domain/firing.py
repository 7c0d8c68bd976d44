"""What a due timer becomes: runs, skipped stretches, and its next occurrence. Pure, given the time.

A timer is looked at up to the horizon (now plus the look-ahead), so a job that fires each second gets the runs of the coming
seconds in one go. The next occurrence is computed from the nominal time, never from the due or the actual one (rule J2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from horarium.domain import cron, misfire, schedule
from horarium.domain.overlap import Overlap

TICKS_AT_ONCE = 1_000
REMEMBERED = 262_144
ONE_OFF = '["once"'
CLOCK_STEP = timedelta(hours=3)


@dataclass(frozen=True, slots=True)
class FiringPolicy:
    """What a job says about ticks that come late, or while an earlier run is live."""

    misfire: misfire.MisfirePolicy = field(default_factory=misfire.MisfirePolicy)
    overlap: Overlap = Overlap.ALLOW


class Tick(NamedTuple):
    """One occurrence: its nominal time, and when it may start (nominal plus jitter)."""

    scheduled_for: datetime
    due_at: datetime


@dataclass(slots=True)
class Plan:
    """What to write for one timer. `next` None: the schedule has no further occurrence."""

    ticks: list[Tick] = field(default_factory=list)
    missed: list[misfire.Missed] = field(default_factory=list)
    next: Tick | None = None


class Planner:
    """Plans timers. Next times are computed once for each (schedule, nominal time): a million timers share a few hundred."""

    def __init__(self) -> None:
        self._memo = schedule.NextFireMemo()
        self._straight: dict[tuple[str, datetime], datetime] = {}
        self._grace: dict[str, timedelta] = {}

    def plan(
        self, job_id: UUID, first: Tick, schedule_key: str, policy_key: str, now: datetime, horizon: datetime
    ) -> Plan:
        """Plan the timer of a job whose next occurrence is `first`, due by `horizon`.

        Raises InvalidScheduleError when the schedule cannot be planned any more, such as a zone that vanished (rule Z3).
        """
        made = Plan()
        policy = decode_policy(policy_key)
        tick: Tick | None = first
        if now - first.due_at >= policy.misfire.grace:
            tick = self._catch_up(job_id, first, schedule_key, policy, now, made)
        while tick is not None and tick.due_at <= horizon and len(made.ticks) < TICKS_AT_ONCE:
            made.ticks.append(tick)
            tick = self.next_tick(job_id, schedule_key, tick.scheduled_for)
        made.next = tick
        return made

    def straight(self, schedule_key: str, policy_key: str, nominal: datetime, now: datetime) -> datetime | None:
        """The next nominal time of the straight path: no jitter, not late by the grace, the schedule goes on.

        None: the timer takes the long way, `plan`. Answered by two look-ups for all timers that share the three texts.
        """
        grace = self._grace.get(policy_key)
        if grace is None:
            grace = self._grace[policy_key] = decode_policy(policy_key).misfire.grace
        if now - nominal >= grace:
            return None
        known = self._straight.get((schedule_key, nominal))
        return known if known is not None else self._learn(schedule_key, nominal)

    def _learn(self, schedule_key: str, nominal: datetime) -> datetime | None:
        if schedule_key.startswith(ONE_OFF) or schedule.decode(schedule_key).jitter:
            return None
        following = self._memo.next(schedule_key, nominal)
        if following is not None:
            if len(self._straight) >= REMEMBERED:
                self._straight.clear()
            self._straight[schedule_key, nominal] = following
        return following

    def next_tick(self, job_id: UUID, schedule_key: str, after: datetime) -> Tick | None:
        """The first occurrence later than `after`, with its jitter."""
        if schedule_key.startswith(ONE_OFF):
            return None  # asked only after its one occurrence; each has a key of its own, not worth remembering
        nominal = self._memo.next(schedule_key, after)
        return None if nominal is None else self._tick(job_id, schedule_key, nominal)

    def _tick(self, job_id: UUID, schedule_key: str, nominal: datetime) -> Tick:
        decoded = schedule.decode(schedule_key)
        if not decoded.jitter:
            return Tick(nominal, nominal)
        following = self._memo.next(schedule_key, nominal)
        return Tick(nominal, schedule.due_time(job_id, nominal, decoded, following))

    def _catch_up(
        self, job_id: UUID, first: Tick, schedule_key: str, policy: FiringPolicy, now: datetime, made: Plan
    ) -> Tick | None:
        """Settle everything overdue by the misfire policy; returns the first occurrence after now."""
        decoded = schedule.decode(schedule_key)
        nominal_times, missed = misfire.settle(decoded, policy.misfire, first.scheduled_for, now)
        made.ticks = [self._tick(job_id, schedule_key, nominal) for nominal in nominal_times]
        made.missed = missed
        return self.next_tick(job_id, schedule_key, now)


def recompute(decoded: schedule.Schedule, last: datetime | None, current: datetime, now: datetime) -> datetime | None:
    """The next nominal time under new zone data (rule Z1), given the last one handled and the one computed before.

    Times already handled stay. A fixed-time slot that has had its fire gets no second one because the offset moved: a fire
    shortly after a handled time that is no fire any more is that same slot.
    """
    if isinstance(decoded.timing, schedule.Once):
        return decoded.timing.at
    if last is None:
        return schedule.next_fire(decoded, min(now, current - timedelta(microseconds=1)))
    following = schedule.next_fire(decoded, last)
    if following is None or following - last > CLOCK_STEP or not _is_fixed_time(decoded):
        return following
    if schedule.next_fire(decoded, last - timedelta(microseconds=1)) == last:
        return following
    return schedule.next_fire(decoded, following)


def _is_fixed_time(decoded: schedule.Schedule) -> bool:
    """Rule T2; an interval knows no wall clock."""
    return isinstance(decoded.timing, schedule.Cron) and not cron.is_wildcard(decoded.timing.expression)


def encode_policy(policy: FiringPolicy) -> str:
    """The policy as one short text: only what differs from the defaults, so mostly the empty one."""
    default = FiringPolicy()
    rule, usual = policy.misfire, default.misfire
    parts = []
    if rule.misfire != usual.misfire:
        parts.append(f"m={rule.misfire.value}")
    if rule.grace != usual.grace:
        parts.append(f"g={int(rule.grace.total_seconds())}")
    if rule.catch_up_window != usual.catch_up_window:
        parts.append(f"w={int(rule.catch_up_window.total_seconds())}")
    if rule.max_catch_up != usual.max_catch_up:
        parts.append(f"c={rule.max_catch_up}")
    if policy.overlap is not default.overlap:
        parts.append(f"o={policy.overlap.value}")
    return ";".join(parts)


@lru_cache(maxsize=10_000)
def decode_policy(policy_key: str) -> FiringPolicy:
    """The policy that `encode_policy` wrote."""
    members = dict(part.split("=", 1) for part in policy_key.split(";") if part)
    usual = misfire.MisfirePolicy()
    rule = misfire.MisfirePolicy(
        misfire=misfire.Misfire(members.get("m", usual.misfire)),
        grace=_seconds(members.get("g"), usual.grace),
        catch_up_window=_seconds(members.get("w"), usual.catch_up_window),
        max_catch_up=int(members.get("c", usual.max_catch_up)),
    )
    return FiringPolicy(rule, Overlap(members.get("o", Overlap.ALLOW)))


def _seconds(text: str | None, default: timedelta) -> timedelta:
    return default if text is None else timedelta(seconds=int(text))
