"""A job's definition as a document: the members that a body may have, with the values they have now."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from horarium.domain import job, job_target, job_timing, retry

_PLAIN = (
    "name",
    "description",
    "owner",
    "managed_by",
    "queue",
    "priority",
    "schedule",
    "interval_s",
    "timezone",
    "jitter_s",
    "misfire_grace_s",
    "catch_up_window_s",
    "max_catch_up",
    "timeout_s",
    "expect",
)


def members_of(spec: job.JobSpec) -> dict[str, Any]:
    """The definition as it is shown: every member, secrets as `***`, the payload as raw JSON (`msgspec.Raw`)."""
    return {**_all_members(spec), "target": job_target.masked(spec.target)}


def body_of(spec: job.JobSpec) -> dict[str, Any]:
    """The body that `job_parsing.parse` reads back as the same definition, secrets in the open; never to be shown."""
    return {name: value for name, value in _all_members(spec).items() if value is not None}


def timing_of(spec: job.JobSpec) -> dict[str, Any]:
    """The timing members of a body that says the same, as they are once read."""
    read: dict[str, Any] = {
        "schedule": spec.schedule,
        "interval_s": spec.interval_s,
        "run_at": _run_at(spec),
        "fold": spec.run_at_fold,
        "timezone": spec.timezone,
        "start_at": spec.start_at,
        "end_at": spec.end_at,
    }
    return {name: value for name, value in read.items() if value is not None}


def to_json(spec: job.JobSpec) -> str:
    """The definition as JSON text for the audit, secrets as `***`."""
    return msgspec.json.encode(members_of(spec)).decode()


def _all_members(spec: job.JobSpec) -> dict[str, Any]:
    return {
        **{name: getattr(spec, name) for name in _PLAIN},
        "tags": list(spec.tags),
        "target": spec.target,
        "payload": msgspec.Raw(spec.payload.encode()),
        "run_at": _run_at(spec),
        "fold": spec.run_at_fold,
        "start_at": None if spec.start_at is None else job_timing.moment_text(spec.start_at),
        "end_at": None if spec.end_at is None else job_timing.moment_text(spec.end_at),
        "misfire": spec.misfire.value,
        "overlap": spec.overlap.value,
        "retry": dict(_retry_members(spec.retry)),
    }


@functools.lru_cache(maxsize=1024)  # most jobs share a few policies
def _retry_members(policy: retry.RetryPolicy) -> Mapping[str, Any]:
    return {**dataclasses.asdict(policy), "backoff": str(policy.backoff)}


def _run_at(spec: job.JobSpec) -> str | None:
    """The moment of a one-off as it was written: local text, or an instant."""
    if spec.run_at is None:
        return None
    return spec.run_at_local or job_timing.moment_text(spec.run_at)
