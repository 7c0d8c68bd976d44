"""Stores new jobs: one, a batch, or those of many callers that come at one moment.

Creates that arrive while a commit is under way share the next one: sixteen callers cost the database little more than one. Each
still gets its own answer, and its own line in the audit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg
import msgspec

from horarium import errors
from horarium.clock import Clock
from horarium.domain import job, job_document, job_target
from horarium.services import arming, creation
from horarium.services.pokes import Pokes
from horarium.store import audit, bulk, jobs, one_offs, retried
from horarium.store.database import Database

COMMITS_AT_ONCE = 2
JOBS_PER_COMMIT = 500


@dataclass(slots=True, eq=False)
class _Request:
    """A create that somebody waits for."""

    who: job.Actor
    spec: job.JobSpec
    answer: asyncio.Future[job.Job]


class Creator:
    """Makes jobs. `shards` tells of the shards that there are and of those that live in this database."""

    def __init__(self, database: Database, clock: Clock, pokes: Pokes, shards: Callable[[], creation.Shards]) -> None:
        self._database = database
        self._clock = clock
        self._pokes = pokes
        self._shards = shards
        self._requests: list[_Request] = []
        self._commits: set[asyncio.Task[None]] = set()

    async def create(self, who: job.Actor, spec: job.JobSpec) -> job.Job:
        """Store a new job; returns when it is durable. Raises ConflictError when its name is taken."""
        _check_target(spec)
        request = _Request(who, spec, asyncio.get_running_loop().create_future())
        self._requests.append(request)
        self._commit_next()
        return await request.answer

    async def create_many(
        self, who: job.Actor, specs: Sequence[job.JobSpec | errors.HorariumError]
    ) -> list[job.Job | errors.HorariumError]:
        """Store many new jobs in one transaction. The answers stand in the order of `specs`; an error in it stays one.

        A job that cannot be stored does not keep the others from it; of two with one name the second is refused.
        """
        admitted = _admit(specs)
        now = self._clock.now()
        made = creation.new_jobs(who, [spec for spec in admitted if isinstance(spec, job.JobSpec)], now, self._shards())

        async def work(connection: asyncpg.Connection) -> tuple[creation.Planting, set[UUID]]:
            stored, planting = await _store(connection, made, now)
            await _record_batch(connection, who, [each for each in made if each.id in stored])
            return planting, stored

        planting, stored = await retried.change(self._database, work)
        planting.effects.tell(self._pokes)
        remaining = iter(made)
        return [
            spec if isinstance(spec, errors.HorariumError) else _answer(next(remaining), stored) for spec in admitted
        ]

    async def insert(
        self, connection: asyncpg.Connection, who: job.Actor, spec: job.JobSpec
    ) -> tuple[job.Job, arming.Effects]:
        """Store a new job inside a transaction of the caller's, who tells the effects after the commit."""
        now = self._clock.now()
        _check_target(spec)
        (made,) = creation.new_jobs(who, [spec], now, self._shards())
        if not await jobs.insert(connection, made):
            raise jobs.name_taken(spec.name)
        planting = creation.Planting(now)
        planting.add([made])
        await planting.store(connection)
        await audit.record(connection, who, "create", "job", str(made.id), None, job_document.to_json(spec))
        return made, planting.effects

    def _commit_next(self) -> None:
        while self._requests and len(self._commits) < COMMITS_AT_ONCE:
            group, self._requests = self._requests[:JOBS_PER_COMMIT], self._requests[JOBS_PER_COMMIT:]
            task = asyncio.create_task(self._commit(group), name="create")
            self._commits.add(task)
            task.add_done_callback(self._committed)

    def _committed(self, task: asyncio.Task[None]) -> None:
        self._commits.discard(task)
        self._commit_next()

    async def _commit(self, group: Sequence[_Request]) -> None:
        """Store a group. What goes wrong for one of several is sought by storing each by itself."""
        try:
            if all(one_offs.is_plain(request.spec) for request in group):
                await self._store_one_offs(group)
            elif len(group) == 1:
                await self._store_one(group[0])
            else:
                await self._store_group(group)
        except Exception as error:  # noqa: BLE001 - each caller is told; none is left waiting
            # A moved shard is the trouble of those whose shard it is.
            for_all = isinstance(error, errors.UnavailableError) and not isinstance(error, errors.ShardMovedError)
            if len(group) == 1 or for_all:
                _refuse(group, error)
                return
            for request in group:
                await self._commit([request])

    async def _store_one(self, request: _Request) -> None:
        made, effects = await retried.change(
            self._database, lambda connection: self.insert(connection, request.who, request.spec)
        )
        effects.tell(self._pokes)
        _settle(request, made)

    async def _store_one_offs(self, group: Sequence[_Request]) -> None:
        now = self._clock.now()
        made, distinct = self._made(group, now)
        planting = creation.Planting(now)
        planting.add(distinct)
        rows = creation.one_offs_of(zip((request.who for request in group), made, strict=True), planting.effects)
        stored = await retried.statement(self._database, lambda connection: one_offs.insert(connection, rows, now))
        planting.effects.of_jobs(stored).tell(self._pokes)
        _answer_all(group, made, stored)

    async def _store_group(self, group: Sequence[_Request]) -> None:
        now = self._clock.now()
        made, distinct = self._made(group, now)

        async def work(connection: asyncpg.Connection) -> tuple[set[UUID], creation.Planting]:
            stored, planting = await _store(connection, distinct, now)
            pairs = [(request.who, each) for request, each in zip(group, made, strict=True) if each.id in stored]
            await bulk.copy_audit(connection, [_line(who, each) for who, each in pairs])
            return stored, planting

        stored, planting = await retried.change(self._database, work)
        planting.effects.tell(self._pokes)
        _answer_all(group, made, stored)

    def _made(self, group: Sequence[_Request], now: datetime) -> tuple[list[job.Job], list[job.Job]]:
        """The jobs of a group, and the first of each name."""
        made = [creation.new_jobs(request.who, [request.spec], now, self._shards())[0] for request in group]
        first_of_name = {(each.tenant_id, each.spec.name or each.id): each for each in reversed(made)}
        return made, list(first_of_name.values())


async def _store(
    connection: asyncpg.Connection, made: Sequence[job.Job], now: datetime
) -> tuple[set[UUID], creation.Planting]:
    """Write new jobs, no two with the same name, and their first occurrences; returns the ids of those that were new."""
    stored = await jobs.insert_many(connection, made)
    planting = creation.Planting(now)
    planting.add(each for each in made if each.id in stored)
    await planting.store(connection)
    return stored, planting


async def _record_batch(connection: asyncpg.Connection, who: job.Actor, made: Sequence[job.Job]) -> None:
    """One line for a batch: it names every job."""
    if made:
        ids = [str(each.id) for each in made]
        after = msgspec.json.encode({"count": len(ids), "ids": ids}).decode()
        await audit.record(connection, who, "create_many", "job", ids[0], None, after)


def _line(who: job.Actor, made: job.Job) -> bulk.AuditLine:
    return bulk.AuditLine(
        made.created_at,
        who.tenant_id,
        who.name,
        "create",
        "job",
        str(made.id),
        job_document.to_json(made.spec),
        who.remote,
        who.request_id,
    )


def _admit(specs: Sequence[job.JobSpec | errors.HorariumError]) -> list[job.JobSpec | errors.HorariumError]:
    """The definitions of a batch that may be stored as far as can be told without the store."""
    names: set[str] = set()
    return [_admit_one(spec, names) if isinstance(spec, job.JobSpec) else spec for spec in specs]


def _admit_one(spec: job.JobSpec, names: set[str]) -> job.JobSpec | errors.HorariumError:
    if spec.name is not None:
        if spec.name in names:
            return jobs.name_taken(spec.name)
        names.add(spec.name)
    try:
        _check_target(spec)
    except errors.InvalidError as error:
        return error
    return spec


def _check_target(spec: job.JobSpec) -> None:
    """Raises InvalidError for `***` where a secret is to be: a new job holds none that it could stand for."""
    job_target.unmask(spec.target, None)


def _answer(made: job.Job, stored: set[UUID]) -> job.Job | errors.HorariumError:
    return made if made.id in stored else jobs.name_taken(made.spec.name)


def _answer_all(group: Sequence[_Request], made: Sequence[job.Job], stored: set[UUID]) -> None:
    for request, each in zip(group, made, strict=True):
        answer = _answer(each, stored)
        if isinstance(answer, job.Job):
            _settle(request, answer)
        else:
            _refuse([request], answer)


def _settle(request: _Request, made: job.Job) -> None:
    if not request.answer.done():
        request.answer.set_result(made)


def _refuse(group: Sequence[_Request], error: Exception) -> None:
    for request in group:
        if not request.answer.done():
            request.answer.set_exception(error)
