"""What people see of the memory of a leader: depth of queues, progress of running runs."""

from __future__ import annotations

from uuid import UUID

from horarium.services.leader import Leader
from horarium.services.views import QueueState, QueueStates


class LeaderView:
    """Reads the memory of the shards that this node leads."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader

    async def queues(self) -> QueueStates:
        """Every queue of every tenant that has live runs."""
        now = self._leader.clock.time()
        return QueueStates(
            [
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
        )

    async def progress(self, run_id: UUID) -> str | None:
        """The progress that a running run last reported, as JSON text."""
        return self._leader.progress.get(run_id)
