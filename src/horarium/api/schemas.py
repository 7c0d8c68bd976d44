"""The shapes of the public API as its OpenAPI document shows them.

Documentation only: no request is read and no answer is checked by these models. What is read is read by
`domain.job_parsing`, which names all faults at once; tests hold the two together."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from horarium.domain.misfire import Misfire
from horarium.domain.overlap import Overlap
from horarium.domain.retry import Backoff
from horarium.domain.roles import Role
from horarium.domain.states import JobStatus, RunState, Trigger

Item = TypeVar("Item")
Outcome = Literal["succeeded", "failed", "lost", "timeout", "interrupted", "cancelled"]


class _Shape(BaseModel):
    """An answer: members are always there, and more may be added in later versions."""


class _Input(BaseModel):
    """A body: members that are not named here are refused."""

    model_config = ConfigDict(extra="forbid")


class Fault(_Shape):
    """One thing that is wrong. `pointer` is a JSON Pointer into the body, or `/query/…`, `/header/…`, `/path/…`."""

    pointer: str
    detail: str
    code: str


class Problem(_Shape):
    """A problem document (RFC 9457). `type` is stable; `errors` names all faults of an input at once."""

    type: str = Field(examples=["urn:horarium:problem:never-fires"])
    title: str
    status: int
    detail: str
    request_id: str | None
    errors: list[Fault] = Field(default_factory=list)


class Page(_Shape, Generic[Item]):
    """One page of a list. `next_cursor` is null on the last page.

    `missing` is there only with `partial=true` where databases could not be asked: it names them.
    """

    items: list[Item]
    next_cursor: str | None
    missing: list[str] = Field(default_factory=list)


class HttpTarget(_Input):
    """Delivered as an HTTP request by a built-in worker, signed as in Standard Webhooks when there is a `secret`."""

    url: str = Field(max_length=2048, examples=["https://example.com/hooks/nightly"])
    method: Literal["POST", "PUT", "PATCH", "GET", "DELETE", "HEAD"] | None = None
    headers: dict[str, str] | None = None
    secret: str | None = Field(None, description="Write-only: shown as `***`.")
    retry_on: list[int] | None = Field(None, description="HTTP statuses after which it is tried again.")


class CommandTarget(_Input):
    """Run as a program, without a shell, by workers started with `--commands`."""

    argv: list[str] = Field(min_length=1)
    env: dict[str, str] | None = None
    cwd: str | None = None
    stdin: str | None = None


class Target(_Input):
    """Who carries it out: exactly one of the members."""

    handler: str | None = Field(None, description="A handler of a worker, by name.", examples=["billing.run"])
    http: HttpTarget | None = None
    command: CommandTarget | None = None


class Retry(_Input):
    """What follows a failed attempt. Delay before attempt n+1: min(base · factor^(n−1), max), spread by ±jitter."""

    max_attempts: int = Field(4, ge=1, le=1000, description="1 means never again.")
    backoff: Backoff = Backoff.EXPONENTIAL
    base_s: float = Field(10, ge=0)
    factor: float = Field(2, ge=1)
    max_s: float = Field(3600, ge=0)
    jitter: float = Field(0.2, ge=0, le=1)
    retry_window_s: float | None = Field(None, description="Ends all tries so long after the nominal time.")


class Expect(_Input):
    """When it must have succeeded: so many seconds after each nominal time."""

    within_s: int = Field(ge=1)


class JobPatch(_Input):
    """A merge patch (RFC 7396): null sets a member back to its default; a payload is replaced as a whole."""

    name: str | None = Field(
        None, min_length=1, max_length=200, description="Unique in the tenant; only one-offs may have none."
    )
    description: str | None = Field(None, max_length=2000)
    owner: str | None = None
    tags: list[str] | None = Field(None, max_length=50)
    managed_by: str | None = None
    target: Target | None = None
    payload: Any = Field(None, description="Any JSON up to 256 KiB, handed on digit for digit.")
    queue: str | None = Field(None, max_length=100, examples=["billing"])
    priority: int | None = Field(None, ge=0, le=9, description="9 goes first; 5 unless stated.")
    schedule: str | None = Field(
        None, max_length=255, description="A cron expression of five or six fields.", examples=["0 2 * * *"]
    )
    interval_s: int | None = Field(None, ge=1, description="Elapsed seconds between two fires.")
    run_at: str | None = Field(
        None, description="An instant, a local time in `timezone`, or `now`.", examples=["2027-01-31T09:00:00Z"]
    )
    run_in_s: float | None = Field(None, ge=0, description="Once, so many seconds from now.")
    fold: Literal["first", "second"] | None = Field(
        None, description="Which pass of a local `run_at` that happens twice."
    )
    timezone: str | None = Field(None, description="An IANA name; UTC unless stated.", examples=["Asia/Kolkata"])
    start_at: datetime | None = None
    end_at: datetime | None = None
    jitter_s: int | None = Field(None, ge=0, le=86400)
    misfire: Misfire | None = None
    misfire_grace_s: int | None = Field(None, ge=0)
    catch_up_window_s: int | None = Field(None, ge=0)
    max_catch_up: int | None = Field(None, ge=0, le=1000)
    overlap: Overlap | None = None
    retry: Retry | None = None
    timeout_s: int | None = Field(None, ge=1, le=86400)
    expect: Expect | None = None


class JobInput(JobPatch):
    """A job: what to do (`target`, `payload`) and when (exactly one of `schedule`, `interval_s`, `run_at`, `run_in_s`)."""

    target: Target

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "name": "billing.nightly",
                    "schedule": "0 2 * * *",
                    "timezone": "Asia/Kolkata",
                    "payload": {"kind": "nightly"},
                    "target": {"handler": "billing.run"},
                    "queue": "billing",
                    "priority": 7,
                    "timeout_s": 600,
                    "retry": {"max_attempts": 5, "backoff": "exponential", "base_s": 10},
                    "overlap": "skip",
                    "tags": ["finance"],
                },
                {"target": {"handler": "email.welcome"}, "payload": {"user_id": 7}, "run_in_s": 7200},
            ]
        },
    )


class JobBatch(_Input):
    """Up to 10,000 jobs; each is made or refused on its own."""

    jobs: list[JobInput] = Field(max_length=10_000)


class Pause(_Shape):
    """That a job is paused."""

    at: datetime
    by: str
    reason: str | None
    until: datetime | None


class LastRun(_Shape):
    """The latest run of a job that has started or ended."""

    run_id: UUID
    state: RunState
    started_at: datetime | None
    ended_at: datetime | None


class Job(_Shape):
    """A job: its definition, and what follows from it."""

    id: UUID
    name: str | None
    status: JobStatus
    status_reason: str | None
    description: str
    owner: str | None
    tags: list[str]
    managed_by: str | None
    target: dict[str, Any]
    payload: Any
    queue: str
    priority: int
    schedule: str | None
    interval_s: int | None
    run_at: str | None
    fold: str | None
    timezone: str
    start_at: datetime | None
    end_at: datetime | None
    jitter_s: int
    misfire: Misfire
    misfire_grace_s: int
    catch_up_window_s: int
    max_catch_up: int
    overlap: Overlap
    retry: Retry
    timeout_s: int
    expect: Expect | None
    schedule_text: str = Field(description="The schedule in words.")
    warnings: list[str] = Field(description="What changes of clocks will do to it within a year.")
    next_run_at: datetime | None
    next_runs: list[datetime]
    next_runs_local: list[str] = Field(description="The same instants in the job's zone, with its offset.")
    last_run: LastRun | None
    run_id: UUID | None = Field(description="The run of a one-off; null for recurring jobs.")
    pause: Pause | None
    tenant: str
    version: int
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str


class BatchItem(_Shape):
    """What became of one job of a batch: `id` when it was made (201), a problem when it was refused."""

    status: int
    id: UUID | None = None
    name: str | None = None
    run_id: UUID | None = None
    problem: Problem | None = None


class BatchResult(_Shape):
    """What became of a batch, in its order."""

    items: list[BatchItem]
    created: int
    failed: int


class PauseInput(_Input):
    """Why, and until when."""

    reason: str | None = Field(None, max_length=500)
    until: datetime | None = Field(None, description="When the pause ends by itself.")


class ResumeInput(_Input):
    """What to do about the time in pause; nothing unless stated."""

    catch_up: Literal["run_once", "run_all", "skip"] | None = None


class RunInput(_Input):
    """A payload of this run only."""

    payload: Any = None


class NextRuns(_Shape):
    """Coming nominal times."""

    next_runs: list[datetime]
    next_runs_local: list[str]


class Skip(_Shape):
    """Ticks that did not become a run. `exact` false: `count` is a lower bound."""

    id: int
    first: datetime
    last: datetime
    count: int
    exact: bool
    reason: Literal["misfire", "coalesced", "overlap", "paused", "quota", "edited", "deleted", "clock"]
    coalesced_into: UUID | None
    recorded_at: datetime


class RunReference(_Shape):
    """A run and its state now."""

    id: UUID
    run_id: UUID
    state: RunState


class RunSummary(_Shape):
    """A run in a list. `due_at` is when it may start, or could; back-off moves it."""

    id: UUID
    job_id: UUID
    job_name: str | None
    state: RunState
    trigger: Trigger
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


class AttemptError(_Shape):
    """Why an attempt failed."""

    model_config = ConfigDict(populate_by_name=True)

    class_: str | None = Field(None, alias="class")
    message: str | None = None
    traceback: str | None = None


class Attempt(_Shape):
    """One try. `outcome` is null while it goes on."""

    attempt: int
    worker_id: str | None
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str | None
    error: AttemptError | None


class LogLine(_Shape):
    """One line that a run said."""

    at: datetime
    attempt: int
    seq: int
    level: str
    message: str
    fields: dict[str, Any] | None


class Run(RunSummary):
    """A run with all that is known of it."""

    payload: Any
    result: Any
    progress: dict[str, Any] | None
    cancel_requested_at: datetime | None
    cancel_requested_by: str | None
    attempts: list[Attempt]
    logs: list[LogLine]


class Queue(_Shape):
    """A queue. `waiting` is `scheduled` + `queued`; where `exact` is false the counts are lower bounds."""

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


class Worker(_Shape):
    """A worker process."""

    id: str
    state: Literal["alive", "silent"]
    node_id: str
    version: str
    host: str
    pid: int
    queues: list[Any]
    handlers: list[str] | None
    slots: int
    running: int
    started_at: datetime
    last_seen_at: datetime


class Shard(_Shape):
    """A part of all jobs, and the node that leads it."""

    shard: int
    database: str = Field(description="The name of the database that holds its rows.")
    leader: str | None = Field(description="The id of the node that leads it; null while none does.")
    leader_url: str | None
    term: int = Field(description="Rises with each change of leader.")
    lease_expires_at: datetime | None


class Node(_Shape):
    """A process that serves."""

    id: str
    state: Literal["alive", "silent"]
    url: str | None = Field(description="Where other nodes reach it.")
    version: str
    host: str
    pid: int
    shards: list[int] = Field(description="The shards that it leads.")
    started_at: datetime
    last_seen_at: datetime


class DeadLetter(_Shape):
    """A run that used up its attempts."""

    run_id: UUID
    job_id: UUID
    job_name: str | None
    queue: str
    fingerprint: str = Field(description="Equal for failures of the same kind.")
    error: str
    attempts: int
    since: datetime


class DeadLetterGroup(_Shape):
    """Dead letters of one job that died of the same kind of error."""

    fingerprint: str
    job_id: UUID
    job_name: str | None
    queue: str
    error: str
    count: int
    first_since: datetime
    last_since: datetime
    last_run_id: UUID


class DeadLetterFilter(_Input):
    """Which dead letters; members that are left out narrow nothing."""

    job: str | None = Field(None, description="Id of a job, or its name.")
    queue: str | None = None
    fingerprint: str | None = None
    error: str | None = None
    since: datetime | None = None


class DeadLetterSelection(_Input):
    """Dead letters by id, or all that a filter matches: exactly one of the two."""

    run_ids: list[UUID] | None = Field(None, max_length=10_000)
    filter: DeadLetterFilter | None = None


class Retried(_Shape):
    """How many dead letters were retried, and whether more may match."""

    retried: int
    more: bool


class Discarded(_Shape):
    """How many dead letters were discarded, and whether more may match."""

    discarded: int
    more: bool


class Explanation(_Shape):
    """A cron expression in words, with its coming fires."""

    schedule: str
    timezone: str
    schedule_text: str
    warnings: list[str]
    next_runs: list[datetime]
    next_runs_local: list[str]


class ApiKeyInput(_Input):
    """A key to be made in this tenant."""

    role: Role
    name: str | None = Field(None, max_length=200)
    expires_at: datetime | None = None


class ApiKey(_Shape):
    """A key as it is listed."""

    id: str
    name: str
    role: Role
    tenant: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None


class NewApiKey(ApiKey):
    """A key just made. `token` is shown this once; a replayed answer has null."""

    token: str | None


class AuditEntry(_Shape):
    """One change or manual action."""

    id: int
    at: datetime
    actor: str
    action: str
    object_type: str
    object_id: str
    before: Any
    after: Any
    remote: str | None
    request_id: str | None


class Health(_Shape):
    """How this node is."""

    status: Literal["ok", "unready"]
    faults: list[str]
    warnings: list[str] = Field(description="What is not as it should be and keeps the node from nothing.")


# The shapes of bodies, which `api.openapi` puts into the document.
BODIES: tuple[type[BaseModel], ...] = (
    JobInput,
    JobPatch,
    JobBatch,
    PauseInput,
    ResumeInput,
    RunInput,
    DeadLetterSelection,
    ApiKeyInput,
)
