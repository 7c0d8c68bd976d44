"""Which workers this node hears, written every ten seconds for people who look. (The node itself: `shard_owner`.)"""

from __future__ import annotations

import json
from dataclasses import dataclass

from horarium.protocol import messages
from horarium.services.leader import Leader
from horarium.store import shards, workers
from horarium.store.database import Database

WRITE_EVERY_S = 10.0
FORGET_AFTER_S = 60.0


Node = shards.NodeRow


@dataclass(slots=True)
class KnownWorker:
    """A worker as it last described itself; times are monotonic seconds. `listed`: runs in its last heartbeat, of any leader."""

    tenant_id: str
    info: messages.WorkerInfo
    queues: list[messages.QueueWeight]
    handlers: list[str] | None
    slots: int
    heard_at: float
    listed: int = 0
    listed_at: float = 0.0


class Registry:
    """Remembers workers as they ask and beat, and writes them down now and then."""

    def __init__(self, database: Database, leader: Leader, node: Node) -> None:
        self._database = database
        self._leader = leader
        self._node = node
        self.workers: dict[str, KnownWorker] = {}
        self._said_goodbye: set[str] = set()

    def asked(self, tenant_id: str, request: messages.LeaseRequest) -> None:
        """A worker asked for runs: now its queues, slots and handlers are known."""
        held = self._leader.ready.leases.held_by(request.worker.id)
        known = self.workers.get(request.worker.id)
        if known is not None and known.tenant_id != tenant_id:
            return  # another tenant's worker has this id already; leases are told apart by tenant all the same
        now, slots = self._leader.clock.monotonic(), request.slots + held
        listed, listed_at = 0, 0.0
        if known is not None and known.info == request.worker:
            slots, listed, listed_at = max(known.slots, slots), known.listed, known.listed_at
        self.workers[request.worker.id] = KnownWorker(
            tenant_id, request.worker, request.queues, request.handlers, slots, now, listed, listed_at
        )
        self._said_goodbye.discard(request.worker.id)

    def beat(self, worker_id: str, listed: int | None = None) -> None:
        """A worker's heartbeat, which lists so many runs; or a report."""
        known = self.workers.get(worker_id)
        if known is not None:
            known.heard_at = self._leader.clock.monotonic()
            if listed is not None:
                known.listed, known.listed_at = listed, known.heard_at

    def stopped(self, worker_id: str, tenant_id: str) -> None:
        """A worker said goodbye."""
        known = self.workers.get(worker_id)
        if known is not None and known.tenant_id == tenant_id:
            del self.workers[worker_id]
            self._said_goodbye.add(worker_id)

    async def run_once(self) -> float:
        """Write down who is there."""
        now = self._leader.clock.monotonic()
        self.workers = {name: known for name, known in self.workers.items() if now - known.heard_at < FORGET_AFTER_S}
        rows = [self._row(name, known) for name, known in self.workers.items()]
        gone = list(self._said_goodbye)
        async with self._database.connection() as connection:
            await workers.upsert(connection, rows)
            if gone:
                await workers.remove(connection, gone)
        self._said_goodbye.difference_update(gone)
        return WRITE_EVERY_S

    def _row(self, name: str, known: KnownWorker) -> workers.WorkerRow:
        info = known.info
        leases = self._leader.ready.leases
        # A worker that holds nothing sends no heartbeat; what it holds of other leaders only its heartbeats tell.
        is_fresh = self._leader.clock.monotonic() - known.listed_at < leases.lease_s
        running = max(leases.held_by(name), known.listed if is_fresh else 0)
        return workers.WorkerRow(
            name,
            known.tenant_id,
            self._node.id,
            info.version,
            info.host or "",
            info.pid or 0,
            json.dumps([{"name": queue.name, "weight": queue.weight} for queue in known.queues]),
            None if known.handlers is None else json.dumps(known.handlers),
            known.slots,
            running,
        )
