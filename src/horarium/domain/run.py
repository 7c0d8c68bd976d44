"""A live run as the leader's memory holds it: one object from the moment it is fired until it ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from horarium.domain.overlap import Overlap
from horarium.domain.states import Trigger


class Phase(Enum):
    """Where in memory a live run stands."""

    WHEEL = "wheel"  # its instant has not come
    LANE = "lane"  # ready, waiting for a worker
    HELD = "held"  # ready, held back by the overlap rule
    CLAIMING = "claiming"  # chosen for a worker, the claim is on its way to its row
    RUNNING = "running"  # leased to a worker
    GONE = "gone"  # ended or retracted; whatever still points here is stale


@dataclass(slots=True, eq=False)
class LiveRun:
    """A run that is waiting or running.

    `ready_at` is in seconds since the Unix epoch by the database's clock; `lease_until`, `stop_at`, `cancel_at` and
    `started_at` are seconds of the monotonic clock; `lag_s` is how late the attempt was handed out. `target_key` says who
    can run it: a handler's name, `@http` or `@command`.
    """

    id: UUID
    job_id: UUID
    shard: int
    tenant_id: str
    queue: str
    target_key: str
    priority: int
    ready_at: float
    overlap: Overlap = Overlap.ALLOW
    attempt: int = 0
    phase: Phase = Phase.WHEEL
    at_front: bool = False
    token: int = 0
    worker_id: str = ""
    lease_until: float = 0.0
    stop_at: float = 0.0
    cancel_at: float | None = None
    started_at: float = 0.0
    lag_s: float = 0.0
    unlisted: int = 0

    @property
    def obeys_overlap(self) -> bool:
        """Whether its job's overlap rule may hold it back. Runs that people asked for are not: see `from_trigger`."""
        return self.overlap is not Overlap.ALLOW


def overlap_for(trigger: str, rule: str) -> Overlap:
    """The overlap rule of a run: its job's for scheduled ticks; runs made by hand start whatever else is live."""
    return Overlap(rule) if trigger == Trigger.SCHEDULE else Overlap.ALLOW
