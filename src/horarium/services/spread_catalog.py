"""The catalog over several databases: each call goes to the database of the job's shard, lists go to all and are merged.

A job without a name is given to a database that answers. A name is looked for with the shard that it is hashed to; a job that got
it by a rename is led to from there (`borrowed_names`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from horarium import errors
from horarium.domain import ids, job
from horarium.services import holding, parts
from horarium.services.catalog import CatchUp, Filter
from horarium.services.spread_batch import Answer, Spec, SpreadBatch
from horarium.services.spread_names import Names
from horarium.store import jobs

T = TypeVar("T")


class SpreadCatalog:
    """As `Catalog`, over all databases."""

    def __init__(self, known: parts.Parts) -> None:
        self._parts = known
        self._names = Names(known)
        self._batch = SpreadBatch(known, self._names, self.create)

    async def create(self, who: job.Actor, spec: job.JobSpec, *, only_new: bool = True) -> job.Job:
        """Store a new job; with `only_new` False one of that name is replaced instead."""
        if spec.name is None:
            return await self._parts.at(self._names.drawn(), lambda part: part.catalog.create(who, spec))
        if not only_new:
            return (await self.put(who, spec.name, spec))[0]
        if await self._names.borrower(who, spec.name) is not None:
            raise jobs.name_taken(spec.name)
        return await self._parts.at(self._names.shard(who, spec.name), lambda part: part.catalog.create(who, spec))

    async def create_many(self, who: job.Actor, specs: Sequence[Spec]) -> Sequence[Answer]:
        """Store many new jobs, those of each database in one transaction: see `spread_batch`."""
        return await self._batch.create(who, specs)

    async def put(
        self,
        who: job.Actor,
        name: str,
        spec: job.JobSpec,
        *,
        if_match: int | None = None,
        only_new: bool = False,
    ) -> tuple[job.Job, bool]:
        """Let the job of this name be as `spec` says; returns it, and whether it is new."""
        borrower = await self._names.borrower(who, name)
        where = self._names.shard(who, name) if borrower is None else ids.shard_of(borrower)
        return await self._parts.at(
            where, lambda part: part.catalog.put(who, name, spec, if_match=if_match, only_new=only_new)
        )

    async def patch(
        self, who: job.Actor, ref: UUID | str, patch: Mapping[str, Any], if_match: int | None = None
    ) -> job.Job:
        """Change the members that a merge-patch (RFC 7396) names."""
        name = patch.get("name")
        if isinstance(name, str) and await self._names.borrower(who, name, other_than=ref) is not None:
            raise jobs.name_taken(name)
        return await self.by(who, ref, lambda part, found: part.catalog.patch(who, found, patch, if_match))

    async def delete(self, who: job.Actor, ref: UUID | str, if_match: int | None = None) -> None:
        """Delete a job."""
        await self.by(who, ref, lambda part, found: part.catalog.delete(who, found, if_match))

    async def pause(
        self, who: job.Actor, ref: UUID | str, reason: str | None = None, until: datetime | None = None
    ) -> None:
        """Stop new runs of a job."""
        await self.by(who, ref, lambda part, found: part.catalog.pause(who, found, reason, until))

    async def resume(self, who: job.Actor, ref: UUID | str, catch_up: CatchUp | str | None = None) -> None:
        """Let a paused job go on from now."""
        await self.by(who, ref, lambda part, found: part.catalog.resume(who, found, catch_up))

    async def find(self, who: job.Actor, ref: UUID | str) -> job.Job | None:
        """The stored job, or None."""

        async def look(part: parts.Part, found: UUID | str) -> job.Job:
            stored = await part.catalog.find(who, found)
            if stored is None:
                raise holding.not_found(found)
            return stored

        try:
            return await self.by(who, ref, look)
        except errors.NotFoundError:
            return None

    async def get(self, who: job.Actor, ref: UUID | str) -> job.JobView:
        """One job with its coming times and its latest run."""
        return await self.by(who, ref, lambda part, found: part.catalog.get(who, found))

    async def next(self, who: job.Actor, ref: UUID | str, count: int = 10) -> Sequence[datetime]:
        """The coming nominal times."""
        return await self.by(who, ref, lambda part, found: part.catalog.next(who, found, count))

    async def skips(
        self, who: job.Actor, ref: UUID | str, after: int | None = None, limit: int = 50
    ) -> Sequence[Mapping[str, Any]]:
        """What ticks did not become runs, newest first."""
        return await self.by(who, ref, lambda part, found: part.catalog.skips(who, found, after, limit))

    async def list(
        self, who: job.Actor, wanted: Filter, after: UUID | None = None, limit: int = 50
    ) -> parts.Gathered[job.JobView]:
        """Jobs of all databases, newest first, older than the one with id `after`."""
        found = await self._parts.everywhere(lambda part: part.catalog.list(who, wanted, after, limit))
        return parts.Gathered(parts.newest_first(found, lambda view: view.job.id, limit), found.missing)

    async def by(self, who: job.Actor, ref: UUID | str, work: Callable[[parts.Part, UUID | str], Awaitable[T]]) -> T:
        """Do something where a job lives."""
        if isinstance(ref, UUID):
            return await self._parts.at_id(ref, lambda part: work(part, ref))
        try:
            return await self._parts.at(self._names.shard(who, ref), lambda part: work(part, ref))
        except errors.NotFoundError:
            borrower = await self._names.borrower(who, ref)
            if borrower is None:
                raise
            return await self._parts.at_id(borrower, lambda part: work(part, borrower))
