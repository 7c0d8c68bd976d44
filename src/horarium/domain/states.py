"""The states of jobs and runs, and the moves between them (docs/job-lifecycle.md draws the same table).

Rows hold only `waiting` and `running` in `runs`, and the final states in `history`; the finer states are read off the row and
the time by `of_live_run`.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum


class JobStatus(StrEnum):
    """Whether a job is planned."""

    ACTIVE = "active"
    PAUSED = "paused"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    ERROR = "error"


class RunState(StrEnum):
    """Where a run is in its life, as people see it."""

    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    FAILED = "failed"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class Trigger(StrEnum):
    """Why a run exists."""

    SCHEDULE = "schedule"
    MANUAL = "manual"
    RERUN = "rerun"
    BACKFILL = "backfill"
    DEPENDENCY = "dependency"


WAITING = "waiting"
RUNNING = "running"

LIVE_STATES = frozenset({RunState.SCHEDULED, RunState.QUEUED, RunState.RUNNING, RunState.FAILED})
FINAL_STATES = frozenset({RunState.SUCCEEDED, RunState.DEAD, RunState.CANCELLED, RunState.SKIPPED})

RUN_MOVES: dict[RunState, frozenset[RunState]] = {
    RunState.SCHEDULED: frozenset({RunState.QUEUED, RunState.CANCELLED, RunState.SKIPPED}),
    RunState.QUEUED: frozenset({RunState.RUNNING, RunState.CANCELLED, RunState.SKIPPED}),
    RunState.RUNNING: frozenset(
        {RunState.SUCCEEDED, RunState.FAILED, RunState.DEAD, RunState.CANCELLED, RunState.QUEUED, RunState.SCHEDULED}
    ),
    RunState.FAILED: frozenset({RunState.QUEUED, RunState.CANCELLED}),
    RunState.SUCCEEDED: frozenset(),
    RunState.DEAD: frozenset(),
    RunState.CANCELLED: frozenset(),
    RunState.SKIPPED: frozenset(),
}

JOB_MOVES: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.ACTIVE: frozenset({JobStatus.PAUSED, JobStatus.FINISHED, JobStatus.CANCELLED, JobStatus.ERROR}),
    JobStatus.PAUSED: frozenset({JobStatus.ACTIVE, JobStatus.FINISHED, JobStatus.CANCELLED}),
    JobStatus.FINISHED: frozenset({JobStatus.ACTIVE, JobStatus.CANCELLED}),
    JobStatus.ERROR: frozenset({JobStatus.ACTIVE, JobStatus.CANCELLED}),
    JobStatus.CANCELLED: frozenset(),
}


def of_live_run(row_state: str, ready_at: datetime, attempt: int, now: datetime) -> RunState:
    """The state that people see of a row of `runs`."""
    if row_state == RUNNING:
        return RunState.RUNNING
    if ready_at <= now:
        return RunState.QUEUED
    return RunState.FAILED if attempt else RunState.SCHEDULED
