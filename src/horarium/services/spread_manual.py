"""What people do by hand, over several databases: each run and dead letter in the database of its shard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from horarium import errors
from horarium.domain import ids, job
from horarium.services import parts
from horarium.services.manual import MAX_LETTERS, Which
from horarium.services.spread_catalog import SpreadCatalog
from horarium.store.inspect import DeadFilter

Handle = Callable[[parts.Part, Which, int], Awaitable[int]]


class SpreadManual:
    """As `Manual` and `Canceller`, over all databases."""

    def __init__(self, known: parts.Parts, catalog: SpreadCatalog) -> None:
        self._parts = known
        self._catalog = catalog

    async def run_now(self, who: job.Actor, ref: UUID | str, payload: str | None = None) -> UUID:
        """Make a run of a job; returns its id."""
        return await self._catalog.by(who, ref, lambda part, found: part.manual.run_now(who, found, payload))

    async def rerun(self, who: job.Actor, run_id: UUID) -> UUID:
        """Repeat a run that has ended; returns the new run's id."""
        return await self._parts.at_id(run_id, lambda part: part.manual.rerun(who, run_id))

    async def cancel(self, who: job.Actor, run_id: UUID) -> None:
        """Cancel a run."""
        await self._parts.at_id(run_id, lambda part: part.canceller.cancel(who, run_id))

    async def retry_dead(self, who: job.Actor, which: Which, limit: int = MAX_LETTERS) -> int:
        """Repeat the runs of open dead letters, database by database; returns how many.

        Those of one database are one transaction. UnavailableError when one cannot be asked; what the others have done stays.
        """
        return await self._of_letters(
            which, limit, lambda part, chosen, most: part.manual.retry_dead(who, chosen, most)
        )

    async def discard_dead(self, who: job.Actor, which: Which, limit: int = MAX_LETTERS) -> int:
        """Give up open dead letters, database by database; returns how many."""
        return await self._of_letters(
            which, limit, lambda part, chosen, most: part.manual.discard_dead(who, chosen, most)
        )

    async def _of_letters(self, which: Which, limit: int, handle: Handle) -> int:
        done, failed = 0, None
        for part, chosen in self._shares(which):
            most = min(limit, MAX_LETTERS) - done
            if most <= 0:
                break
            try:
                done += await handle(part, chosen, most)
            except errors.UnavailableError as error:
                failed = error
        if failed is not None:
            raise failed
        return done

    def _shares(self, which: Which) -> Sequence[tuple[parts.Part, Which]]:
        """What is to be done in which part."""
        if isinstance(which, DeadFilter):
            return [(part, which) for part in self._parts.all]
        by_place: dict[int, list[UUID]] = {}
        for run_id in which:
            by_place.setdefault(self._parts.place(ids.shard_of(run_id)), []).append(run_id)
        return [(self._parts.all[place], chosen) for place, chosen in by_place.items()]
