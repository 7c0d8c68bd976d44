"""Pauses that end by themselves (rule P3): a paused job whose `until` has come is resumed, from now on."""

from __future__ import annotations

from uuid import UUID

from horarium import errors
from horarium.clock import Clock
from horarium.domain import job, roles
from horarium.services.catalog import Catalog
from horarium.store import jobs
from horarium.store.database import Database

AT_ONCE = 100
LOOK_EVERY_S = 10.0

_ACTOR = "resumer"


class Resumer:
    """Resumes jobs. Every node does it: a resume may be repeated, so none has to be chosen."""

    def __init__(self, database: Database, clock: Clock, catalog: Catalog) -> None:
        self._database = database
        self._clock = clock
        self._catalog = catalog

    async def run_once(self) -> float:
        """Resume what is due; returns the seconds until the next look, 0 when there may be more to do."""
        async with self._database.connection() as connection:
            lapsed = await jobs.lapsed_pauses(connection, self._clock.now(), AT_ONCE)
            upcoming = await jobs.next_lapse(connection, self._clock.now())
        for tenant_id, job_id in lapsed:
            await self._resume(job.Actor(tenant_id, _ACTOR, roles.Role.ADMIN), job_id)
        if len(lapsed) == AT_ONCE:
            return 0.0
        if upcoming is None:
            return LOOK_EVERY_S
        return min(LOOK_EVERY_S, max(0.0, (upcoming - self._clock.now()).total_seconds()))

    async def _resume(self, who: job.Actor, job_id: UUID) -> None:
        """Resume one job; one that cannot be planned any more is left paused, and stands in nobody's way (rule N2)."""
        try:
            await self._catalog.end_lapsed_pause(who, job_id)
        except errors.InvalidError as error:
            async with self._database.transaction() as connection:
                await jobs.keep_paused(connection, job_id, f"could not be resumed: {error}"[:500])
        except errors.NotFoundError:
            return
