"""Step 7 of a run's life: its worker dies. Attempts whose lease has lapsed, that outlast their timeout, that do not stop when
they are asked to, or that two heartbeats in a row did not list are ended by the leader itself.

Only time does that: a connection that breaks starts nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from horarium.domain.outcome import Outcome
from horarium.domain.run import LiveRun
from horarium.events import Events, Name
from horarium.services.completer import Completer, Report
from horarium.services.leader import Leader

LOOK_EVERY_S = 0.5


class Reaper:
    """Ends attempts that will not end by themselves, through the same door as reports."""

    def __init__(self, leader: Leader, completer: Completer, events: Events) -> None:
        self._leader = leader
        self._completer = completer
        self._events = events

    async def run_once(self) -> float:
        """Look at all leases once."""
        overdue = self._leader.ready.leases.overdue(self._leader.clock.monotonic())
        reports = [
            *_reports(overdue.lapsed, Outcome.LOST),
            *_reports(overdue.timed_out, Outcome.TIMEOUT),
            *_reports(overdue.not_stopped, Outcome.CANCELLED),
        ]
        if reports:
            await self._end(reports)
        return LOOK_EVERY_S

    async def take_back(self, worker_id: str) -> None:
        """Runs leased to a worker that it does not know of: the answer to its request was lost."""
        unknown = self._leader.ready.leases.unlisted_by(worker_id)
        if unknown:
            await self._end(list(_reports(unknown, Outcome.INTERRUPTED)))

    async def _end(self, reports: list[Report]) -> None:
        lapsed = [report.run_id for report in reports if report.outcome is Outcome.LOST]
        if lapsed:
            self._events.tell(Name.LEASES_LAPSED, count=len(lapsed), run_ids=lapsed)
        taken = await self._completer.report(reports)
        for run_id in taken.lost:
            # The row is not what memory thought: the sweep takes it up again as it is.
            self._leader.ready.gone(run_id)


def _reports(runs: Iterable[LiveRun], outcome: Outcome) -> Iterable[Report]:
    return (Report(run.id, run.token, outcome) for run in runs)
