"""What people see of runs, queues, workers and dead letters: these classes are the JSON of the public API, member for
member.

`LiveView` is what only the memory of leaders knows: the depth of queues and the progress of running runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

import msgspec


@dataclass(frozen=True, slots=True)
class QueueState:
    """What stands in one queue of a tenant: not yet due, due, running; and how long the oldest due one has waited."""

    name: str
    tenant_id: str
    scheduled: int = 0
    queued: int = 0
    running: int = 0
    oldest_due_s: float | None = None


@dataclass(frozen=True, slots=True)
class QueueStates:
    """Every queue of every tenant that has live runs; not `exact` where a leader could not be asked."""

    states: Sequence[QueueState]
    exact: bool = True


class LiveView(Protocol):
    """What the memory of the leaders of one database knows. Both answer within a second and never raise."""

    async def queues(self) -> QueueStates:
        """Every queue of every tenant that has live runs."""

    async def progress(self, run_id: UUID) -> str | None:
        """The progress that a running run last reported, as JSON text."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard: where its rows are, and the node that leads it, None while nobody does."""

    shard: int
    database: str
    leader: str | None
    leader_url: str | None
    term: int
    lease_expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Node:
    """A node, and the shards that it leads."""

    id: str
    state: str
    url: str | None
    version: str
    host: str
    pid: int
    shards: list[int]
    started_at: datetime
    last_seen_at: datetime


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a list."""

    id: UUID
    job_id: UUID
    job_name: str | None
    state: str
    trigger: str
    queue: str
    priority: int
    tenant: str
    scheduled_for: datetime
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int
    max_attempts: int
    worker_id: str | None
    fencing_token: int
    timeout_s: int | None
    rerun_of: UUID | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a run. `outcome` is None while it goes on."""

    attempt: int
    worker_id: str | None
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str | None
    error: Any


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that a handler said, or that a command wrote."""

    at: datetime
    attempt: int
    seq: int
    level: str
    message: str
    fields: msgspec.Raw | None


@dataclass(frozen=True, slots=True)
class RunDetail(RunSummary):
    """A run with all that is known of it. `payload`, `result` and `progress` are passed on as they were sent."""

    payload: msgspec.Raw | None
    result: msgspec.Raw | None
    progress: msgspec.Raw | None
    cancel_requested_at: datetime | None
    cancel_requested_by: str | None
    attempts: list[Attempt]
    logs: list[LogLine]


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue. `waiting` is `scheduled` + `queued`; where `exact` is False the counts are lower bounds."""

    name: str
    paused: bool
    waiting: int
    scheduled: int
    queued: int
    running: int
    oldest_due_s: float | None
    workers: int
    slots: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker process. `state` is `alive`, or `silent` when it has not been heard of for 30 s."""

    id: str
    state: str
    node_id: str
    version: str
    host: str
    pid: int
    queues: msgspec.Raw
    handlers: msgspec.Raw | None
    slots: int
    running: int
    started_at: datetime
    last_seen_at: datetime


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A run that used up its attempts."""

    run_id: UUID
    job_id: UUID
    job_name: str | None
    queue: str
    fingerprint: str
    error: str
    attempts: int
    since: datetime


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """Dead letters of one job that died of the same error; `error` and `last_run_id` stand for them."""

    fingerprint: str
    job_id: UUID
    job_name: str | None
    queue: str
    error: str
    count: int
    first_since: datetime
    last_since: datetime
    last_run_id: UUID
