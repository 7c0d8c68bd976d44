"""A job as the API shows it: its definition, its status, and what its schedule comes to."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID

from horarium import durations, errors
from horarium.api import etags
from horarium.domain import cron, job, job_document, schedule, zones
from horarium.services import job_views
from horarium.store import runs

_KEPT = 8192
_FAR = datetime(9999, 1, 1, tzinfo=UTC)


def document(view: job.JobView, now: datetime) -> dict[str, Any]:
    """The members of `schemas.Job`."""
    held = view.job
    spec = held.spec
    return {
        "id": held.id,
        "name": spec.name,
        "status": view.status,
        "status_reason": held.status_reason,
        **job_document.members_of(spec),
        "schedule_text": words(spec),
        "warnings": warnings(spec, now),
        "next_run_at": view.next_run_at,
        "next_runs": view.next_runs,
        "next_runs_local": local_times(view.next_runs, spec.timezone),
        "last_run": view.last_run,
        "run_id": run_id_of(held),
        "pause": _pause(held.pause),
        "tenant": held.tenant_id,
        "version": held.version,
        "created_at": held.created_at,
        "created_by": held.created_by,
        "updated_at": held.updated_at,
        "updated_by": held.updated_by,
    }


def of_new(made: job.Job) -> job.JobView:
    """A job that was just made: all that lies ahead of it follows from its definition."""
    planned = job.schedule_of(made.spec, made.anchor_at)
    first = made.spec.run_at or schedule.next_fire(planned, made.created_at)
    return job.JobView(made, made.status, first, [] if first is None else [first, *_following(planned, first)])


def headers_of_new(made: job.Job) -> dict[str, str]:
    """Where a new job is, and its version."""
    return {"Location": f"/v1/jobs/{made.id}", **etags.of_version(made.version)}


def run_id_of(held: job.Job) -> UUID | None:
    """The id of the run of a one-off, which is known before it is made; None for a recurring job."""
    run_at = held.spec.run_at
    return None if run_at is None else runs.tick_id(held.id, held.shard, run_at)


def words(spec: job.JobSpec) -> str:
    """When the job runs, in English."""
    if spec.schedule is not None:
        return _cron_words(spec.schedule, spec.timezone)
    if spec.interval_s is not None:
        return f"Every {durations.format_duration(timedelta(seconds=spec.interval_s))}"
    return f"Once, at {spec.run_at_local} {spec.timezone} time" if spec.run_at_local else f"Once, at {_z(spec.run_at)}"


def warnings(spec: job.JobSpec, now: datetime) -> Sequence[str]:
    """What the changes of clocks of the coming year do to the job, a sentence each."""
    if spec.schedule is None:
        return ()
    return _cron_warnings(spec.schedule, spec.timezone, now.date())


def local_times(instants: Iterable[datetime], timezone: str) -> list[str]:
    """Instants as the clocks of a zone show them, each with its offset."""
    try:
        zone = zones.zone(timezone)
    except errors.InvalidScheduleError:
        zone = zones.zone("UTC")  # the zone has vanished (rule Z3); the job is in error and says so
    return [instant.astimezone(zone).isoformat() for instant in instants]


# Many jobs share a few schedules: what follows from one is worked out once. Within a day its warnings do not change.
@functools.lru_cache(maxsize=_KEPT)
def _following(planned: schedule.Schedule, first: datetime) -> Sequence[datetime]:
    return schedule.fires_between(planned, first, _FAR, job_views.COMING - 1)


@functools.lru_cache(maxsize=_KEPT)
def _cron_words(expression: str, timezone: str) -> str:
    try:
        return cron.explain(expression, timezone)
    except errors.InvalidScheduleError:
        return expression


@functools.lru_cache(maxsize=_KEPT)
def _cron_warnings(expression: str, timezone: str, today: date) -> tuple[str, ...]:
    try:
        return tuple(cron.warnings(expression, timezone, datetime.combine(today, time(), UTC)))
    except errors.InvalidScheduleError as error:
        return (str(error),)


def _pause(pause: job.Pause | None) -> dict[str, Any] | None:
    if pause is None:
        return None
    return {"at": pause.at, "by": pause.by, "reason": pause.reason, "until": pause.until}


def _z(instant: datetime | None) -> str:
    return "" if instant is None else instant.replace(tzinfo=None).isoformat() + "Z"
