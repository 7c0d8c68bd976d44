"""What a job is: the definition that people write, and what the store adds to it.

A body is read by `job_parsing`, shown by `job_document`; here are the values in between, and what follows from them.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from horarium.domain import firing
from horarium.domain import misfire as misfires
from horarium.domain import retry as retries
from horarium.domain import schedule as schedules
from horarium.domain.overlap import Overlap
from horarium.domain.states import JobStatus

DEFAULT_QUEUE = "default"
DEFAULT_PRIORITY = 5
DEFAULT_TIMEOUT_S = 300
DEFAULT_GRACE_S = 60
DEFAULT_CATCH_UP_WINDOW_S = 86_400
DEFAULT_MAX_CATCH_UP = 100

# A one-off due within this time gets its run with the job; later ones wait in a timer.
AT_ONCE = timedelta(seconds=1)

HTTP_KEY = "@http"
COMMAND_KEY = "@command"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who does something: a key of a tenant, or a duty of the system (`role` admin, no `remote`)."""

    tenant_id: str
    name: str
    role: str
    remote: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Everything that a person defines of a job; fields are named like the columns of `jobs`.

    `target` has one member: `handler`, `http` or `command`. `payload` is JSON text, digit for digit as it was sent.
    Exactly one of `schedule` (cron), `interval_s` and `run_at` is set; `run_at_local` is the text of a `run_at` that
    was given as wall time in `timezone` (rule Z2).
    """

    target: Mapping[str, Any]
    name: str | None = None
    description: str = ""
    owner: str | None = None
    tags: tuple[str, ...] = ()
    managed_by: str | None = None
    payload: str = "{}"
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    schedule: str | None = None
    interval_s: int | None = None
    run_at: datetime | None = None
    run_at_local: str | None = None
    run_at_fold: schedules.Fold | None = None
    timezone: str = "UTC"
    start_at: datetime | None = None
    end_at: datetime | None = None
    jitter_s: int = 0
    misfire: misfires.Misfire = misfires.Misfire.RUN_ONCE
    misfire_grace_s: int = DEFAULT_GRACE_S
    catch_up_window_s: int = DEFAULT_CATCH_UP_WINDOW_S
    max_catch_up: int = DEFAULT_MAX_CATCH_UP
    overlap: Overlap = Overlap.ALLOW
    retry: retries.RetryPolicy = retries.DEFAULT
    timeout_s: int = DEFAULT_TIMEOUT_S
    expect: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """That a job is paused: since when, by whom, why, until when.

    `settled_until`: ticks up to here have been accounted for; later ones fall into the pause. `retracted`: the nominal
    times of runs that were waiting when the pause began, which a catch-up brings back.
    """

    at: datetime
    by: str
    reason: str | None = None
    until: datetime | None = None
    settled_until: datetime | None = None
    retracted: tuple[datetime, ...] = ()

    def settled_ahead(self, now: datetime) -> datetime:
        """Up to when ticks ahead are accounted for; now, where none are, or the clock was set back by too much (rule M4)."""
        settled = self.settled_until
        return settled if settled is not None and now < settled <= now + firing.CLOCK_STEP else now


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is stored. `anchor_at` is where an interval counts from (rule I2)."""

    id: UUID
    shard: int
    tenant_id: str
    spec: JobSpec
    anchor_at: datetime
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str
    status: JobStatus = JobStatus.ACTIVE
    status_reason: str | None = None
    pause: Pause | None = None
    version: int = 1
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LastRun:
    """The latest run of a job that has started or ended."""

    run_id: UUID
    state: str
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as it is shown: with its shown status, its coming nominal times, and its latest run.

    `status` differs from the stored one for a one-off whose run has ended: it is `finished`.
    """

    job: Job
    status: JobStatus
    next_run_at: datetime | None = None
    next_runs: list[datetime] = field(default_factory=list)
    last_run: LastRun | None = None


def is_one_off(spec: JobSpec) -> bool:
    """Whether the job runs once, at `run_at`."""
    return spec.run_at is not None


def target_key(target: Mapping[str, Any]) -> str:
    """Who can run it: the handler's name, or `@http`, `@command` for the built-in workers."""
    if "http" in target:
        return HTTP_KEY
    if "command" in target:
        return COMMAND_KEY
    name: str = target["handler"]
    return name


def timing_of(spec: JobSpec, anchor: datetime) -> schedules.Timing:
    """When the job runs, without bounds; an interval counts from `anchor`."""
    if spec.run_at is not None:
        return schedules.Once(spec.run_at, spec.run_at_local, spec.timezone, spec.run_at_fold)
    if spec.interval_s is not None:
        return schedules.Every(timedelta(seconds=spec.interval_s), anchor)
    return schedules.Cron(spec.schedule or "", spec.timezone)


def schedule_of(spec: JobSpec, anchor: datetime) -> schedules.Schedule:
    """The schedule of a job, with bounds and jitter; an interval counts from `anchor` (rule I2)."""
    return schedules.Schedule(timing_of(spec, anchor), spec.start_at, spec.end_at, timedelta(seconds=spec.jitter_s))


def misfire_policy_of(spec: JobSpec) -> misfires.MisfirePolicy:
    """What the job says about ticks that come late."""
    return misfires.MisfirePolicy(
        misfire=spec.misfire,
        grace=timedelta(seconds=spec.misfire_grace_s),
        catch_up_window=timedelta(seconds=spec.catch_up_window_s),
        max_catch_up=spec.max_catch_up,
    )


def policy_key_of(spec: JobSpec) -> str:
    """The misfire and overlap policies as the timer carries them."""
    if _policies(spec) == _USUAL_POLICIES:
        return ""
    return firing.encode_policy(firing.FiringPolicy(misfire_policy_of(spec), spec.overlap))


def anchor_of(spec: JobSpec, now: datetime) -> datetime:
    """Where a new interval counts from: `start_at`, or the moment it is set (rules B1, I2)."""
    return spec.start_at or now


def timing_changed(old: JobSpec, new: JobSpec) -> bool:
    """Whether an edit changes when the job runs: schedule, zone or bounds (rule E2). Jitter is none of these."""
    return any(getattr(old, name) != getattr(new, name) for name in TIMING_FIELDS)


TIMING_FIELDS = (
    "schedule",
    "interval_s",
    "run_at",
    "run_at_local",
    "run_at_fold",
    "timezone",
    "start_at",
    "end_at",
)

_policies = operator.attrgetter("misfire", "misfire_grace_s", "catch_up_window_s", "max_catch_up", "overlap")
_USUAL_POLICIES = _policies(JobSpec(target={}))
