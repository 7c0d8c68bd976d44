"""Leases: which worker holds which run, and until when (design: runs section 3).

Held in the leader's memory; heartbeats cost no SQL. All times are seconds of the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from horarium.domain.run import LiveRun, Phase

STOP_MARGIN_S = 10.0
CANCEL_GRACE_S = 30.0
UNLISTED_LIMIT = 2


@dataclass(frozen=True, slots=True)
class Heard:
    """The answer to a heartbeat: runs that are no longer the worker's, runs that it should stop, and runs that cannot be
    judged now: not lost, and not extended either."""

    lost: list[UUID] = field(default_factory=list)
    cancel: list[UUID] = field(default_factory=list)
    unsure: list[UUID] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Overdue:
    """Runs that the leader has to end by itself."""

    lapsed: list[LiveRun]  # no heartbeat within the lease
    timed_out: list[LiveRun]  # longer than timeout + 10 s, although its worker is alive
    not_stopped: list[LiveRun]  # asked to stop 30 s ago


class Leases:
    """The running runs, by id and by worker."""

    def __init__(self, lease_s: float) -> None:
        self.lease_s = lease_s
        self._runs: dict[UUID, LiveRun] = {}
        self._by_worker: dict[str, dict[UUID, LiveRun]] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def get(self, run_id: UUID) -> LiveRun | None:
        """The running run of this id."""
        return self._runs.get(run_id)

    def are_all_of(self, run_ids: Iterable[UUID], tenant: str) -> bool:
        """Whether all of these run, and are one tenant's."""
        running = self._runs
        for run_id in run_ids:
            run = running.get(run_id)
            if run is None or run.tenant_id != tenant:
                return False
        return True

    def held_by(self, worker_id: str) -> int:
        """How many runs a worker holds."""
        return len(self._by_worker.get(worker_id, ()))

    def all(self) -> Iterable[LiveRun]:
        """Every running run."""
        return self._runs.values()

    def grant(self, run: LiveRun, worker_id: str, token: int, attempt: int, timeout_s: float, now: float) -> None:
        """A run was claimed for a worker: the lease begins."""
        run.phase = Phase.RUNNING
        run.worker_id, run.token, run.attempt = worker_id, token, attempt
        run.stop_at = now + timeout_s + STOP_MARGIN_S
        run.lease_until = now + self.lease_s
        run.started_at = now
        run.unlisted = 0
        self._runs[run.id] = run
        held = self._by_worker.get(worker_id)
        if held is None:
            held = self._by_worker[worker_id] = {}
        held[run.id] = run

    def end(self, run_id: UUID) -> LiveRun | None:
        """The lease is over, for whatever reason."""
        run = self._runs.pop(run_id, None)
        if run is not None:
            held = self._by_worker[run.worker_id]
            held.pop(run_id, None)
            if not held:
                del self._by_worker[run.worker_id]
        return run

    def heartbeat(
        self,
        worker_id: str,
        listed: Sequence[tuple[UUID, int]],
        now: float,
        knows: Callable[[UUID], bool],
        tenant: str | None = None,
    ) -> Heard:
        """A worker tells which (run, token) it holds: extend those, name the lost ones and the ones to stop.

        A lease is never extended beyond timeout + 10 s. Counts, for `unlisted_by`, the runs the worker does not know of.
        `knows` tells whether this memory can judge a run at all: during a take-over, what it has not loaded is not lost.
        A worker of one `tenant` neither extends nor loses another's runs, whatever it calls itself.
        """
        heard = Heard()
        held = self._visible(worker_id, tenant)
        for run_id, token in listed:
            run = held.get(run_id)
            if run is None or run.token != token:
                (heard.lost if knows(run_id) else heard.unsure).append(run_id)
                continue
            run.lease_until = min(now + self.lease_s, run.stop_at)
            run.unlisted = -1
            if run.cancel_at is not None:
                heard.cancel.append(run_id)
        for run in held.values():
            run.unlisted += 1
        return heard

    def _visible(self, worker_id: str, tenant: str | None) -> dict[UUID, LiveRun]:
        held = self._by_worker.get(worker_id, {})
        if tenant is None:
            return held
        return {run_id: run for run_id, run in held.items() if run.tenant_id == tenant}

    def unlisted_by(self, worker_id: str, tenant: str | None = None) -> list[LiveRun]:
        """The runs leased to a worker that two heartbeats in a row did not list: the lease's answer was lost."""
        held = self._visible(worker_id, tenant)
        return [run for run in held.values() if run.unlisted >= UNLISTED_LIMIT]

    def request_cancel(self, run_id: UUID, now: float) -> bool:
        """Note that a run should stop; True when it is running here."""
        run = self._runs.get(run_id)
        if run is not None and run.cancel_at is None:
            run.cancel_at = now
        return run is not None

    def overdue(self, now: float) -> Overdue:
        """What the leader has to end by itself at this moment."""
        found = Overdue([], [], [])
        for run in self._runs.values():
            if run.cancel_at is not None and now >= run.cancel_at + CANCEL_GRACE_S:
                found.not_stopped.append(run)
            elif now >= run.stop_at:
                found.timed_out.append(run)
            elif now >= run.lease_until:
                found.lapsed.append(run)
        return found

    def renew_all(self, now: float) -> None:
        """Give every running run one fresh lease, so that the leader's crash makes no healthy run look dead."""
        for run in self._runs.values():
            run.lease_until = now + self.lease_s
            run.unlisted = 0
