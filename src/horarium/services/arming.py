"""From a job to its rows: the timer of its next occurrence, the run of a tick, and the pokes that follow a commit."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from horarium.domain import firing, job, schedule, zones
from horarium.domain.overlap import Overlap
from horarium.services.pokes import Pokes
from horarium.store.runs import RunRow, tick_id
from horarium.store.timers import TimerRow


@dataclass(slots=True)
class Effects:
    """What a transaction wrote that leaders want to hear of once it is committed."""

    timers: list[TimerRow] = field(default_factory=list)
    added: list[RunRow] = field(default_factory=list)
    removed: list[UUID] = field(default_factory=list)
    cancelling: list[UUID] = field(default_factory=list)
    edited: list[UUID] = field(default_factory=list)

    def obeying(self, overlap: Overlap) -> Effects:
        """As they are for a job with this overlap rule.

        A poke says nothing of the rule, so ticks that must obey one are left to the look that leaders take at an edited job.
        """
        return self if overlap is Overlap.ALLOW else dataclasses.replace(self, added=[])

    def of_jobs(self, job_ids: Collection[UUID]) -> Effects:
        """Those of some jobs: what was planned for the others was not stored."""
        return dataclasses.replace(
            self,
            timers=[timer for timer in self.timers if timer.job_id in job_ids],
            added=[run for run in self.added if run.job_id in job_ids],
        )

    def tell(self, pokes: Pokes) -> None:
        """Poke, after the commit."""
        if self.removed:
            pokes.runs_removed(self.removed)
        if self.timers:
            pokes.timers_changed([(timer.shard, timer.due_at) for timer in self.timers])
        if self.added:
            pokes.runs_added(self.added)
        if self.cancelling:
            pokes.cancel_requested(self.cancelling)
        for job_id in self.edited:
            pokes.job_edited(job_id)


def tick_at(job_id: UUID, planned: schedule.Schedule, nominal: datetime) -> firing.Tick:
    """The occurrence at a nominal time, with its jitter."""
    if not planned.jitter:
        return firing.Tick(nominal, nominal)
    following = schedule.next_fire(planned, nominal)
    return firing.Tick(nominal, schedule.due_time(job_id, nominal, planned, following))


def next_tick(each: job.Job, after: datetime) -> firing.Tick | None:
    """The first occurrence of a job later than `after`; None when there is none."""
    planned = job.schedule_of(each.spec, each.anchor_at)
    nominal = schedule.next_fire(planned, after)
    return None if nominal is None else tick_at(each.id, planned, nominal)


def timer_of(each: job.Job, tick: firing.Tick) -> TimerRow:
    """The timer of a job whose next occurrence is `tick`."""
    return timer_with_key(each, tick, schedule.encode(job.schedule_of(each.spec, each.anchor_at)))


def timer_with_key(each: job.Job, tick: firing.Tick, schedule_key: str) -> TimerRow:
    """As `timer_of`, with the schedule encoded by the caller."""
    spec = each.spec
    return TimerRow(
        job_id=each.id,
        shard=each.shard,
        scheduled_for=tick.scheduled_for,
        due_at=tick.due_at,
        last_scheduled_for=None,
        priority=spec.priority,
        job_version=each.version,
        tenant_id=each.tenant_id,
        queue=spec.queue,
        target_key=job.target_key(spec.target),
        schedule_key=schedule_key,
        policy_key=job.policy_key_of(spec),
        zone_version=_zone_version(spec),
    )


def run_of(each: job.Job, tick: firing.Tick) -> RunRow:
    """The run of one occurrence; the same occurrence gives the same id (rule I1)."""
    spec = each.spec
    return RunRow(
        id=tick_id(each.id, each.shard, tick.scheduled_for),
        job_id=each.id,
        shard=each.shard,
        tenant_id=each.tenant_id,
        queue=spec.queue,
        target_key=job.target_key(spec.target),
        priority=spec.priority,
        scheduled_for=tick.scheduled_for,
        ready_at=tick.due_at,
        job_version=each.version,
    )


def _zone_version(spec: job.JobSpec) -> str:
    """The zone data that the occurrence was computed with, where it depends on them (rules Z1, Z2)."""
    if spec.schedule is not None or spec.run_at_local is not None:
        return _data_version()
    return ""


@functools.cache
def _data_version() -> str:
    return zones.data_version()
