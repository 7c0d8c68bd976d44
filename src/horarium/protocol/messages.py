"""The worker's wire: what a worker and a node say to each other under `/v1/worker`.

    POST /v1/worker/lease       LeaseRequest      → LeaseResponse       long poll: answered when there is work, or empty
    POST /v1/worker/heartbeat   HeartbeatRequest  → HeartbeatResponse   every third of a lease
    POST /v1/worker/report      ReportRequest     → ReportResponse      how attempts ended
    POST /v1/worker/stop        StopRequest       → {}                  goodbye, optional

JSON in both directions. Times are durations in seconds, counted from the moment the message was written: the clocks of
the two machines need not agree. (`scheduled_for` is the exception: a name of the run, never compared with a clock.)

All calls take batches and may be repeated: a run is named together with its fencing token, and a message about an older
token changes nothing. Payloads, targets, results and log fields are `Raw`: passed on as bytes, never parsed on the way.
Unknown members are ignored; members that equal their default are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

LEASE_PATH = "/v1/worker/lease"
HEARTBEAT_PATH = "/v1/worker/heartbeat"
REPORT_PATH = "/v1/worker/report"
STOP_PATH = "/v1/worker/stop"

MAX_SLOTS = 10_000
MAX_WAIT_S = 60
MAX_TRACEBACK_CHARS = 8192

HTTP_HANDLER = "@http"
COMMAND_HANDLER = "@command"

Outcome = Literal["succeeded", "failed", "discard", "snooze", "interrupted"]
Level = Literal["debug", "info", "warning", "error"]
Identifier = Annotated[str, Meta(min_length=1, max_length=200)]
Seconds = Annotated[float, Meta(ge=0)]


class WorkerInfo(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Who is speaking. `id` is unique to one worker process; the rest is for people who look."""

    id: Identifier
    version: str = ""
    host: str | None = None
    pid: int | None = None


class QueueWeight(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A queue the worker serves, and its share beside the others."""

    name: Identifier
    weight: Annotated[int, Meta(ge=1, le=1000)] = 1


class LeaseRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A worker has free slots.

    `slots` is how many runs it takes at most; `wait_s` how long it waits for the first. `strict`: serve the queues in
    the order given, instead of by weight. `handlers`: the names this worker can run (`@http` and `@command` for the
    built-in targets); None means any handler, but never a built-in target.
    """

    worker: WorkerInfo
    queues: Annotated[list[QueueWeight], Meta(min_length=1, max_length=1000)]
    slots: Annotated[int, Meta(ge=1, le=MAX_SLOTS)]
    wait_s: Annotated[float, Meta(ge=0, le=MAX_WAIT_S)] = 0
    handlers: list[str] | None = None
    strict: bool = False


class Lease(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One attempt of one run, given to this worker.

    Start it `start_in_s` seconds after the message arrived (less the message's `age_s`), not before. It may take
    `timeout_s` from its start; it is the worker's for `lease_s` from now, and for as long again after each heartbeat.
    `job_name` is None for nameless one-offs.
    """

    run_id: str
    job_id: str
    attempt: int
    fencing_token: int
    target: Raw
    payload: Raw
    scheduled_for: str
    timeout_s: float
    lease_s: float
    job_name: str | None = None
    start_in_s: float = 0
    trigger: str = "schedule"
    traceparent: str | None = None


class LeaseResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The leases, none when the wait was over. `drain`: this node is going away, ask another one.

    `age_s`: how old the durations in the leases were when this message was written. They are fixed when runs are claimed,
    and a commit lies between that and the message; so what is left until a start is `start_in_s - age_s`.
    """

    leases: list[Lease]
    drain: bool = False
    age_s: Seconds = 0


class Progress(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How far a handler says it is: `fraction` between 0 and 1, and words."""

    fraction: Annotated[float, Meta(ge=0, le=1)]
    message: str = ""


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A line kept with the run. `seq` counts from 1 within the attempt, so that a line sent twice can be told.

    It was written `ago_s` seconds before the message that carries it.
    """

    seq: int
    ago_s: Seconds
    message: str
    level: Level = "info"
    fields: Raw | UnsetType = UNSET


class HeldRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run that the worker holds: running, about to start, or ended and not yet reported."""

    run_id: str
    fencing_token: int
    progress: Progress | None = None
    logs: list[LogLine] = []


class HeartbeatRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """All runs of a worker process. One that two heartbeats in a row do not list is taken back."""

    worker: WorkerInfo
    runs: list[HeldRun]


class HeartbeatResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """`lost`: no longer this worker's, stop and report nothing. `cancel`: stop, then report. `unsure`: who leads these
    runs cannot be asked just now; go on for as long as their leases last, and send their lines again.

    Every other run listed is the worker's for another `lease_s` seconds.
    """

    lease_s: float
    lost: list[str] = []
    cancel: list[str] = []
    unsure: list[str] = []


class ErrorInfo(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Why an attempt did not succeed. `class` names the kind of error (it is what dead letters are grouped by)."""

    class_: str = msgspec.field(name="class")
    message: str = ""
    traceback: str | None = None


class Result(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How an attempt ended.

    `failed` is tried again as the job's retry policy says, after `retry_in_s` when that is given; `discard` never;
    `snooze` comes again after `retry_in_s` and uses no attempt; `interrupted` comes again at once and uses no attempt.
    """

    run_id: str
    fencing_token: int
    outcome: Outcome
    result: Raw | UnsetType = UNSET
    error: ErrorInfo | None = None
    retry_in_s: Seconds | None = None
    progress: Progress | None = None
    logs: list[LogLine] = []


class Succeeded(msgspec.Struct, frozen=True, gc=False):
    """Attempts that succeeded and have nothing else to tell, as two columns of the same length: most of what is reported."""

    run_ids: list[str]
    fencing_tokens: list[int]


class ReportRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Ended attempts, in any order. To be repeated until it is answered."""

    worker: WorkerInfo
    results: list[Result] = []
    succeeded: Succeeded | None = None

    def unfolded(self) -> list[Result]:
        """All results one by one."""
        if self.succeeded is None:
            return self.results
        columns = zip(self.succeeded.run_ids, self.succeeded.fencing_tokens, strict=True)
        return [*self.results, *(Result(run_id, token, "succeeded") for run_id, token in columns)]


class ReportResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """`accepted` are durable; `lost` came too late and changed nothing. What is in neither is to be sent again.

    `all_accepted`: everything that was reported is durable, and not listed. Only who sends `succeeded` is answered so.
    """

    accepted: list[str]
    lost: list[str] = []
    all_accepted: bool = False


class StopRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The worker has stopped and holds nothing any more."""

    worker: WorkerInfo


class Target(msgspec.Struct, frozen=True, gc=False):
    """What a worker reads of a lease's `target` to find who carries it out: exactly one member is set."""

    handler: str | None = None
    http: Raw | UnsetType = UNSET
    command: Raw | UnsetType = UNSET


_ENCODER = msgspec.json.Encoder()
lease_requests = msgspec.json.Decoder(LeaseRequest)
lease_responses = msgspec.json.Decoder(LeaseResponse)
heartbeat_requests = msgspec.json.Decoder(HeartbeatRequest)
heartbeat_responses = msgspec.json.Decoder(HeartbeatResponse)
report_requests = msgspec.json.Decoder(ReportRequest)
report_responses = msgspec.json.Decoder(ReportResponse)
stop_requests = msgspec.json.Decoder(StopRequest)
targets = msgspec.json.Decoder(Target)


def report_of(worker: WorkerInfo, results: Sequence[Result]) -> ReportRequest:
    """The report of some results, with plain successes as columns."""
    ids: list[str] = []
    tokens: list[int] = []
    others: list[Result] = []
    for result in results:
        if is_plain(result):
            ids.append(result.run_id)
            tokens.append(result.fencing_token)
        else:
            others.append(result)
    return ReportRequest(worker, others, Succeeded(ids, tokens) if ids else None)


def is_plain(result: Result) -> bool:
    """Whether an attempt succeeded and has nothing else to tell."""
    return result.outcome == "succeeded" and result.result is UNSET and result.progress is None and not result.logs


def encode(message: Any) -> bytes:
    """A message as JSON bytes."""
    return _ENCODER.encode(message)
