"""What people see of the leader's memory: depth of queues, progress of running runs."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from horarium.services.leader import Leader
from horarium.services.views import QueueState


class LeaderView:
    """Reads the memory of the shards that this node leads."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader

    def queues(self) -> Sequence[QueueState]:
        """Every queue of every tenant that has live runs."""
        now = self._leader.clock.time()
        return [
            QueueState(
                queue,
                tenant_id,
                depth.scheduled,
                depth.queued,
                depth.running,
                None if depth.oldest is None else max(0.0, now - depth.oldest),
            )
            for (queue, tenant_id), depth in self._leader.ready.depths().items()
        ]

    def progress(self, run_id: UUID) -> str | None:
        """The progress that a running run last reported, as JSON text."""
        return self._leader.progress.get(run_id)
