"""A batch of new jobs over several databases: those of each database are one transaction, and each job has its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from horarium import errors
from horarium.domain import job
from horarium.services import parts
from horarium.services.spread_names import Names
from horarium.store import jobs

Answer = job.Job | errors.HorariumError
Spec = job.JobSpec | errors.HorariumError
CreateOne = Callable[[job.Actor, job.JobSpec], Awaitable[job.Job]]
NOWHERE = -1


class SpreadBatch:
    """Stores batches. `create_one` is the way of a single job, which waits where its shard is being moved."""

    def __init__(self, known: parts.Parts, names: Names, create_one: CreateOne) -> None:
        self._parts = known
        self._names = names
        self._create_one = create_one

    async def create(self, who: job.Actor, specs: Sequence[Spec]) -> list[Answer]:
        """Store many new jobs. The answers stand in the order of `specs`.

        A database that cannot be asked is the answer of its jobs. Raises UnavailableError where that is the answer of all.
        """
        answers: dict[int, Answer] = {}
        groups: dict[int, list[int]] = {}
        taken: set[str] = set()
        for number, spec in enumerate(specs):
            if isinstance(spec, errors.HorariumError):
                answers[number] = spec
            elif spec.name is not None and spec.name in taken:
                answers[number] = jobs.name_taken(spec.name)
            else:
                taken.update([spec.name] if spec.name is not None else [])
                groups.setdefault(self._place(who, spec), []).append(number)
        for done in await asyncio.gather(*(self._group(who, specs, *group) for group in groups.items())):
            answers |= done
        _raise_if_unavailable(list(answers.values()))
        return [answers[number] for number in range(len(specs))]

    def _place(self, who: job.Actor, spec: job.JobSpec) -> int:
        try:
            shard = self._names.drawn() if spec.name is None else self._names.shard(who, spec.name)
            return self._parts.databases.place_of(shard)
        except errors.UnavailableError:
            return NOWHERE

    async def _group(
        self, who: job.Actor, specs: Sequence[Spec], place: int, numbers: Sequence[int]
    ) -> Mapping[int, Answer]:
        """Store the jobs of one database. Where one of its shards is moved meanwhile, each job goes its own way."""
        wanted = [spec for number in numbers if isinstance(spec := specs[number], job.JobSpec)]
        if place == NOWHERE:
            return dict.fromkeys(numbers, errors.UnavailableError("the database of this job cannot be asked"))
        try:
            made: Sequence[Answer] = await self._at(self._parts.all[place], who, wanted)
        except errors.ShardMovedError:
            made = [await self._alone(who, spec) for spec in wanted]
        except errors.UnavailableError as error:
            return dict.fromkeys(numbers, error)
        return dict(zip(numbers, made, strict=True))

    async def _at(self, part: parts.Part, who: job.Actor, wanted: Sequence[job.JobSpec]) -> Sequence[Answer]:
        names = [spec.name for spec in wanted if spec.name is not None]
        borrowed = {}
        if names:
            async with part.database.connection() as connection:
                borrowed = await jobs.borrowers(connection, who.tenant_id, names)
        taken = {name for name, job_id in borrowed.items() if await self._names.bears(who, job_id, name)}
        return await part.catalog.create_many(
            who, [jobs.name_taken(spec.name) if spec.name in taken else spec for spec in wanted]
        )

    async def _alone(self, who: job.Actor, spec: job.JobSpec) -> Answer:
        try:
            return await self._create_one(who, spec)
        except errors.HorariumError as error:
            return error


def _raise_if_unavailable(answers: Sequence[Answer]) -> None:
    refused = [each for each in answers if isinstance(each, errors.UnavailableError)]
    if refused and len(refused) == len(answers):
        raise refused[0]
