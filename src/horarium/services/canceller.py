"""Cancel a run: a waiting one ends at once, a running one is asked to stop and has 30 s for it."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from horarium import errors
from horarium.clock import Clock
from horarium.domain import job
from horarium.domain.states import WAITING, RunState
from horarium.services import arming
from horarium.services.pokes import Pokes
from horarium.store import audit, manual, retried, runs
from horarium.store.database import Database


class Canceller:
    """Ends runs that people no longer want."""

    def __init__(self, database: Database, clock: Clock, pokes: Pokes) -> None:
        self._database = database
        self._clock = clock
        self._pokes = pokes

    async def cancel(self, who: job.Actor, run_id: UUID) -> None:
        """Cancel a run; may be repeated.

        The worker of a running one is told at its next heartbeat. Raises NotFoundError, and ConflictError for a run that
        has ended otherwise.
        """

        async def work(connection: asyncpg.Connection) -> arming.Effects:
            live = await manual.lock_live(connection, who.tenant_id, run_id)
            if live is None:
                await _check_is_cancelled(connection, who, run_id)
                return arming.Effects()
            if live.state == WAITING:
                await runs.end_waiting(connection, [run_id], RunState.CANCELLED, f"cancelled by {who.name}")
                effects = arming.Effects(removed=[run_id])
            else:
                await runs.request_cancel(connection, [run_id], who.name)
                effects = arming.Effects(cancelling=[run_id])
            await audit.record(connection, who, "cancel", "run", str(run_id))
            return effects

        effects = await retried.change(self._database, work)
        effects.tell(self._pokes)


async def _check_is_cancelled(connection: asyncpg.Connection, who: job.Actor, run_id: UUID) -> None:
    state = await manual.final_state(connection, who.tenant_id, run_id)
    if state is None:
        raise errors.NotFoundError(f"there is no run {run_id}")
    if state != RunState.CANCELLED:
        raise errors.ConflictError(f"the run has ended already: {state}", "already_finished")
