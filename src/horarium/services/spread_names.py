"""Which shard a job belongs to where shards live in several databases, and who bears a name that it got by a rename."""

from __future__ import annotations

import random
from uuid import UUID

from horarium import errors
from horarium.domain import job, sharding
from horarium.services import parts
from horarium.store import jobs


class Names:
    """From names to shards, and to the jobs that have borrowed them (`borrowed_names`)."""

    def __init__(self, known: parts.Parts) -> None:
        self._parts = known

    def shard(self, who: job.Actor, name: str) -> int:
        """The shard that a name is hashed to."""
        return sharding.shard_of_name(who.tenant_id, name, self._parts.shards)

    def drawn(self) -> int:
        """A shard for a job without a name: of a database that answered when it was asked last, if there is one."""
        living = self._parts.databases.living_anywhere()
        if not living:
            raise errors.UnavailableError("no shard is known to live anywhere right now")
        return random.choice(living)  # noqa: S311 - spreads load, no secret

    async def borrower(self, who: job.Actor, name: str, other_than: UUID | str | None = None) -> UUID | None:
        """The job that bears a name by a rename, if there is one."""

        async def look(part: parts.Part) -> UUID | None:
            async with part.database.connection() as connection:
                return (await jobs.borrowers(connection, who.tenant_id, [name])).get(name)

        found = await self._parts.at(self.shard(who, name), look)
        if found is None or found == other_than or not await self.bears(who, found, name):
            return None
        return found

    async def bears(self, who: job.Actor, job_id: UUID, name: str) -> bool:
        """Whether a job bears a name now: a row about a borrowed name may be older than the job's next name."""

        async def look(part: parts.Part) -> bool:
            held = await part.catalog.find(who, job_id)
            return held is not None and held.deleted_at is None and held.spec.name == name

        return await self._parts.at_id(job_id, look)
