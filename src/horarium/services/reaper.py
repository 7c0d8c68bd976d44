"""Step 7 of a run's life: its worker dies. Attempts whose lease has lapsed, that outlast their timeout, that do not stop when
they are asked to, or that two heartbeats in a row did not list are ended by the leader itself.

Only time does that: a connection that breaks starts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta

from horarium.domain.outcome import Outcome
from horarium.domain.run import LiveRun
from horarium.events import Events, Name
from horarium.services.completer import Completer
from horarium.services.endings import Report
from horarium.services.leader import Leader
from horarium.store import runs
from horarium.store.database import Database

LOOK_EVERY_S = 0.5
REFRESH_EVERY_S = 30.0


class Reaper:
    """Ends attempts that will not end by themselves, through the same door as reports."""

    def __init__(self, database: Database, leader: Leader, completer: Completer, events: Events) -> None:
        self._database = database
        self._leader = leader
        self._completer = completer
        self._events = events
        self.on_silent: Callable[[str], None] = lambda worker_id: None
        self._looked_at: float | None = None

    async def run_once(self) -> float:
        """Look at all leases once."""
        try:
            await self._look()
        finally:
            self._looked_at = self._leader.clock.monotonic()
        return LOOK_EVERY_S

    async def _look(self) -> None:
        now, leases = self._leader.clock.monotonic(), self._leader.ready.leases
        stood_still_s = max(leases.lease_s / 2, 4 * LOOK_EVERY_S)
        if self._looked_at is not None and now - self._looked_at > stood_still_s:
            # This process stood still, so it was not the workers who were silent: their heartbeats wait to be read.
            leases.renew_all(now)
        overdue = leases.overdue(now)
        for worker_id in {run.worker_id for run in overdue.lapsed}:
            self.on_silent(worker_id)
        reports = [
            *_reports(overdue.lapsed, Outcome.LOST),
            *_reports(overdue.timed_out, Outcome.TIMEOUT),
            *_reports(overdue.not_stopped, Outcome.CANCELLED),
        ]
        if reports:
            await self._end(reports)

    async def take_back(self, worker_id: str, tenant: str | None) -> None:
        """Runs leased to a worker that it does not know of: the answer to its request was lost."""
        unknown = self._leader.ready.leases.unlisted_by(worker_id, tenant)
        if unknown:
            await self._end(list(_reports(unknown, Outcome.INTERRUPTED)))

    async def refresh_once(self) -> float:
        """Write down, now and then, how far memory has extended the leases of long runs: for people who look at rows."""
        now = self._leader.clock.monotonic()
        leases = self._leader.ready.leases
        long = [run for run in leases.all() if now - run.started_at > REFRESH_EVERY_S]
        if long:
            ids, tokens = [run.id for run in long], [run.token for run in long]
            async with self._database.connection() as connection:
                await runs.refresh_leases(connection, ids, tokens, timedelta(seconds=leases.lease_s))
        return REFRESH_EVERY_S

    async def _end(self, reports: list[Report]) -> None:
        lapsed = [report.run_id for report in reports if report.outcome is Outcome.LOST]
        if lapsed:
            self._events.tell(Name.LEASES_LAPSED, count=len(lapsed), run_ids=lapsed)
        await self._completer.report(reports)
        leases = self._leader.ready.leases
        for report in reports:
            held = leases.get(report.run_id)
            if held is not None and held.token == report.token:
                # The row is not what memory thought, or is gone: it is taken up again as it is.
                self._leader.forget(held)


def _reports(found: Iterable[LiveRun], outcome: Outcome) -> Iterable[Report]:
    return (Report(run.id, run.token, outcome, by_leader=True) for run in found)
