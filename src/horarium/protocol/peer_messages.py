"""The wire between nodes of one cluster, under `/v1/peer`: a node acts towards another one as one big worker.

    POST /v1/peer/offers      OffersRequest   → Offers            long poll: what is queued there that nobody there takes
    POST /v1/peer/lease       LeaseAsks       → LeaseGrants       runs for workers of the asking node, at once
    POST /v1/peer/give-back   GiveBack        → {}                leases that reached no worker
    POST /v1/peer/heartbeat   Heartbeats      → HeartbeatAnswers  heartbeats about runs of shards that are led there
    POST /v1/peer/report      Reports         → ReportAnswers     results of such runs
    POST /v1/peer/poke        Pokes           → PokeAnswer        what an API call changed
    POST /v1/peer/view        ViewRequest     → View              what only memory knows, for people who look

Each call carries the cluster secret, the version of this wire and the id of the node that is meant: an address may belong to
somebody else by now, and a node that is called by another's name refuses. Workers' messages are passed on as they came.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Raw

from horarium.protocol import messages

PREFIX = "/v1/peer/"
OFFERS_PATH = PREFIX + "offers"
LEASE_PATH = PREFIX + "lease"
GIVE_BACK_PATH = PREFIX + "give-back"
HEARTBEAT_PATH = PREFIX + "heartbeat"
REPORT_PATH = PREFIX + "report"
POKE_PATH = PREFIX + "poke"
VIEW_PATH = PREFIX + "view"

VERSION = 1
VERSION_HEADER = "Horarium-Peer-Protocol"
NODE_HEADER = "Horarium-Node"

OFFERS_WAIT_S = 5.0


class OffersRequest(msgspec.Struct, frozen=True):
    """`known` is the version of the offers that the asker has, 0 for none. `wanted`: its workers wait for these queues."""

    node: str
    known: int
    wanted: list[str]


class Offers(msgspec.Struct, frozen=True):
    """About how many runs are queued, by queue, and could go to workers of other nodes."""

    version: int
    queues: dict[str, int]


class LeaseAsk(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one worker of the asking node wants; `tenant` None: the runs of every tenant."""

    worker: str
    queues: list[tuple[str, float]]
    slots: int
    handlers: list[str] | None = None
    strict: bool = False
    tenant: str | None = None


class LeaseAsks(msgspec.Struct, frozen=True):
    """Requests of several workers."""

    asks: list[LeaseAsk]


class LeaseGrants(msgspec.Struct, frozen=True):
    """The leases for each ask, in their order, as the database wrote them; and what is offered still."""

    grants: list[list[Raw]]
    offers: Offers


class LeaseName(msgspec.Struct, frozen=True, gc=False):
    """What is read of a lease to give it back."""

    run_id: UUID
    fencing_token: int


class GiveBack(msgspec.Struct, frozen=True):
    """Attempts that never reached their worker, as (run id, token)."""

    held: list[tuple[UUID, int]]


class Heartbeat(msgspec.Struct, frozen=True):
    """A worker's heartbeat, cut down to runs of the node that is asked; and whose key the worker has."""

    tenant: str
    request: messages.HeartbeatRequest


class Heartbeats(msgspec.Struct, frozen=True):
    """Heartbeats of several workers."""

    beats: list[Heartbeat]


class HeartbeatAnswers(msgspec.Struct, frozen=True):
    """An answer to each, in their order."""

    answers: list[messages.HeartbeatResponse]


class Report(msgspec.Struct, frozen=True):
    """A worker's report, cut down to runs of the node that is asked."""

    tenant: str
    request: messages.ReportRequest


class Reports(msgspec.Struct, frozen=True):
    """Reports of several workers."""

    reports: list[Report]


class ReportAnswers(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer to each, in their order. A run of a shard in `not_led` is in none of them."""

    answers: list[messages.ReportResponse]
    not_led: list[int] = []


class MadeRun(msgspec.Struct, frozen=True, gc=False):
    """A run that an API call made, as a leader's memory holds it."""

    id: UUID
    job_id: UUID
    shard: int
    tenant_id: str
    queue: str
    target_key: str
    priority: int
    scheduled_for: datetime
    ready_at: datetime
    job_version: int
    trigger: str


class Pokes(msgspec.Struct, omit_defaults=True):
    """What changed: see `services/pokes.py`. `freed`: shards were given up, and are there to be taken."""

    timers: list[tuple[int, datetime]] = msgspec.field(default_factory=list)
    added: list[MadeRun] = msgspec.field(default_factory=list)
    removed: list[UUID] = msgspec.field(default_factory=list)
    cancelling: list[UUID] = msgspec.field(default_factory=list)
    edited: list[UUID] = msgspec.field(default_factory=list)
    freed: bool = False


class PokeAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Shards of the poke that the node does not lead: what concerned them was left."""

    not_led: list[int] = []


class ViewRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """`run`: the progress of this run; otherwise the depth of all queues of the database at `place` of the configuration."""

    place: int = 0
    run: UUID | None = None


class Depth(msgspec.Struct, frozen=True, gc=False):
    """What stands in one queue of a tenant: see `services/views.py`."""

    name: str
    tenant_id: str
    scheduled: int
    queued: int
    running: int
    oldest_due_s: float | None


class View(msgspec.Struct, frozen=True, omit_defaults=True):
    """The depth of queues, or a run's progress as JSON text."""

    depths: list[Depth] = []
    progress: str | None = None


encode = messages.encode
