"""The catalog: what jobs there are, and how people change them.

Each change is one transaction: the job is held, the change is decided and stored together with its line in the audit; after
the commit the leaders are told. What a change does to ticks and runs stands in `creation`, `edits`, `pausing` and `deletion`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from horarium import errors
from horarium.clock import Clock
from horarium.domain import job, job_document, job_parsing, job_target, schedule, sharding
from horarium.domain.states import JobStatus
from horarium.services import arming, creation, deletion, edits, holding, job_views, pausing
from horarium.services.catching_up import CatchUp
from horarium.services.creator import Creator
from horarium.services.pokes import Pokes
from horarium.store import audit, jobs, retried, skips
from horarium.store.database import Database
from horarium.store.jobs import Filter

__all__ = ["Catalog", "CatchUp", "Filter"]

MAX_LIMIT = 501  # a page of 500, and one more that tells whether there is a next one
MAX_NEXT = 1000

Change = Callable[[asyncpg.Connection, holding.Held, datetime], Awaitable[tuple[job.Job, arming.Effects]]]


class Catalog:
    """Definitions of jobs. Every call takes who asks first, and sees only that tenant's jobs.

    A job is named by its id, or by its name (a str). All calls raise NotFoundError where there is no such job,
    StaleVersionError where `if_match` is not its version, and ConflictError where its state or a name that is taken stands
    against the change.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        pokes: Pokes,
        shards: int,
        here: Callable[[], Sequence[int]] | None = None,
    ) -> None:
        """`shards` is the number of all; `here` tells which of them live in this database, where others hold the rest."""
        self._database = database
        self._clock = clock
        self._pokes = pokes
        self._shards = partial(creation.Shards, shards, range(shards)) if here is None else _living(shards, here)
        self._creator = Creator(database, clock, pokes, self._shards)

    async def create(self, who: job.Actor, spec: job.JobSpec, *, only_new: bool = True) -> job.Job:
        """Store a new job; with `only_new` False one of that name is replaced instead."""
        if not only_new and spec.name is not None:
            replaced, _ = await self.put(who, spec.name, spec)
            return replaced
        return await self._creator.create(who, spec)

    async def create_many(
        self, who: job.Actor, specs: Sequence[job.JobSpec | errors.HorariumError]
    ) -> list[job.Job | errors.HorariumError]:
        """Store many new jobs in one transaction. The answers stand in the order of `specs`; an error in it stays one.

        A job that cannot be stored does not keep the others from it; of two with one name the second is refused.
        """
        return await self._creator.create_many(who, specs)

    async def put(
        self,
        who: job.Actor,
        name: str,
        spec: job.JobSpec,
        *,
        if_match: int | None = None,
        only_new: bool = False,
    ) -> tuple[job.Job, bool]:
        """Let the job of this name be as `spec` says; returns it, and whether it is new. The same again changes nothing.

        A pause survives. With `only_new` a job that exists is left alone, and StaleVersionError raised.
        """
        wanted = dataclasses.replace(spec, name=name)

        async def work(connection: asyncpg.Connection) -> tuple[job.Job, bool, arming.Effects]:
            held = await holding.hold(connection, who.tenant_id, name)
            if held is None:
                if if_match is not None:
                    raise errors.StaleVersionError(f"there is no job named {name!r}, at no version")
                made, effects = await self._creator.insert(connection, who, wanted)
                return made, True, effects
            if only_new:
                raise errors.StaleVersionError(f"a job named {name!r} exists already")
            edited, effects = await self._edit(connection, who, held, wanted, if_match)
            return edited, False, effects

        try:
            stored, is_new, effects = await retried.change(self._database, work)
        except errors.ConflictError as error:
            if error.code != "name_taken":
                raise
            # Somebody stored it between our look and our insert: now it is there to be edited.
            stored, is_new, effects = await retried.change(self._database, work)
        effects.tell(self._pokes)
        return stored, is_new

    async def patch(
        self, who: job.Actor, ref: UUID | str, patch: Mapping[str, Any], if_match: int | None = None
    ) -> job.Job:
        """Change the members that a merge-patch (RFC 7396) names. Raises InvalidError like `job_parsing.parse`."""

        async def work(connection: asyncpg.Connection) -> tuple[job.Job, arming.Effects]:
            held = await holding.hold_existing(connection, who.tenant_id, ref)
            holding.check_not_deleted(held.job)
            holding.check_version(held.job, if_match)
            spec = job_parsing.merge(held.job.spec, patch, now=self._clock.now())
            return await self._edit(connection, who, held, spec, if_match)

        edited, effects = await retried.change(self._database, work)
        effects.tell(self._pokes)
        return edited

    async def delete(self, who: job.Actor, ref: UUID | str, if_match: int | None = None) -> None:
        """Delete a job: see `deletion`. By its id it may be deleted again; nothing happens then."""

        async def change(
            connection: asyncpg.Connection, held: holding.Held, now: datetime
        ) -> tuple[job.Job, arming.Effects]:
            if held.job.status is JobStatus.CANCELLED:
                return held.job, arming.Effects()
            holding.check_version(held.job, if_match)
            deleted, effects = await deletion.delete(connection, held, who, now)
            await _record(connection, who, "delete", held.job, None)
            return deleted, effects

        await self._change(who, ref, change)

    async def pause(
        self, who: job.Actor, ref: UUID | str, reason: str | None = None, until: datetime | None = None
    ) -> None:
        """Stop new runs of a job, until it is resumed or `until` has come. May be repeated (rule P1)."""
        now = self._clock.now()
        if until is not None and until <= now:
            raise errors.InvalidError([errors.Fault("/until", "is not in the future")])

        async def change(
            connection: asyncpg.Connection, held: holding.Held, now: datetime
        ) -> tuple[job.Job, arming.Effects]:
            holding.check_not_deleted(held.job)
            await _check_not_over(connection, held.job, now)
            paused, effects = await pausing.pause(connection, held, who, now, reason, until)
            if paused is not held.job:
                await _record_pause(connection, who, "pause", paused, {"reason": reason, "until": until})
            return paused, effects

        await self._change(who, ref, change)

    async def resume(self, who: job.Actor, ref: UUID | str, catch_up: CatchUp | str | None = None) -> None:
        """Let a paused job go on from now (rule P2). May be repeated.

        `catch_up` says what to do about the ticks of the pause: `run_once`, `run_all`, or `skip`, which is the default. A
        one-off whose time passed runs at once; with `skip` it ends, and ConflictError says so (rule P4).
        """
        wanted = None if catch_up is None else _catch_up(catch_up)

        async def change(
            connection: asyncpg.Connection, held: holding.Held, now: datetime
        ) -> tuple[job.Job, arming.Effects]:
            holding.check_not_deleted(held.job)
            resumed, effects = await pausing.resume(connection, held, who, now, wanted)
            if resumed is not held.job:
                await _record_pause(connection, who, "resume", resumed, {"catch_up": wanted})
            return resumed, effects

        resumed = await self._change(who, ref, change)
        if job.is_one_off(resumed.spec) and resumed.status is JobStatus.FINISHED:
            raise errors.ConflictError(
                "the time of this one-off passed in the pause: it has ended as skipped", "skipped"
            )

    async def end_lapsed_pause(self, who: job.Actor, job_id: UUID) -> None:
        """Resume a job if its pause has an end that has come; somebody may have changed that meanwhile (rule P3)."""

        async def change(
            connection: asyncpg.Connection, held: holding.Held, now: datetime
        ) -> tuple[job.Job, arming.Effects]:
            pause = held.job.pause
            if pause is None or pause.until is None or pause.until > now:
                return held.job, arming.Effects()
            resumed, effects = await pausing.resume(connection, held, who, now, None)
            await _record_pause(connection, who, "resume", resumed, {"until": pause.until})
            return resumed, effects

        await self._change(who, job_id, change)

    async def find(self, who: job.Actor, ref: UUID | str) -> job.Job | None:
        """The stored job, or None."""
        async with self._database.connection() as connection:
            return await jobs.find(connection, who.tenant_id, ref)

    async def get(self, who: job.Actor, ref: UUID | str) -> job.JobView:
        """One job with its coming times and its latest run. A deleted job is found by its id only."""
        async with self._database.connection() as connection:
            found = await jobs.find(connection, who.tenant_id, ref)
            if found is None:
                raise holding.not_found(ref)
            return await job_views.of_one(connection, found, self._clock.now())

    async def list(
        self, who: job.Actor, wanted: Filter, after: UUID | None = None, limit: int = 50
    ) -> Sequence[job.JobView]:
        """Jobs, newest first, older than the one with id `after`; at most 501. TooBroadError where that takes too long."""
        try:
            async with self._database.transaction() as connection:
                found = await jobs.page(connection, who.tenant_id, wanted, after, min(limit, MAX_LIMIT))
                return await job_views.of(connection, [each for each, _ in found], self._clock.now())
        except asyncpg.QueryCanceledError:
            raise errors.TooBroadError("this list would take longer than 2 s: narrow the filter") from None

    async def next(self, who: job.Actor, ref: UUID | str, count: int = 10) -> Sequence[datetime]:
        """The coming nominal times by the schedule, paused or not; at most 1000."""
        found = await self.find(who, ref)
        if found is None:
            raise holding.not_found(ref)
        planned = job.schedule_of(found.spec, found.anchor_at)
        first = schedule.next_fire(planned, self._clock.now())
        return job_views.coming(found, first, min(count, MAX_NEXT))

    async def skips(
        self, who: job.Actor, ref: UUID | str, after: int | None = None, limit: int = 50
    ) -> Sequence[Mapping[str, Any]]:
        """What ticks did not become runs, newest first, with ids below `after`; at most 501."""
        async with self._database.connection() as connection:
            found = await jobs.find(connection, who.tenant_id, ref)
            if found is None:
                raise holding.not_found(ref)
            return await skips.of_job(connection, found.id, after, min(limit, MAX_LIMIT))

    async def _change(self, who: job.Actor, ref: UUID | str, change: Change) -> job.Job:
        """Hold a job, change it, commit, tell."""

        async def work(connection: asyncpg.Connection) -> tuple[job.Job, arming.Effects]:
            held = await holding.hold_existing(connection, who.tenant_id, ref)
            return await change(connection, held, self._clock.now())

        changed, effects = await retried.change(self._database, work)
        effects.tell(self._pokes)
        return changed

    async def _edit(
        self,
        connection: asyncpg.Connection,
        who: job.Actor,
        held: holding.Held,
        spec: job.JobSpec,
        if_match: int | None,
    ) -> tuple[job.Job, arming.Effects]:
        """Give a held job a definition; the one that it has already changes nothing."""
        now = self._clock.now()
        holding.check_version(held.job, if_match)
        spec = dataclasses.replace(spec, target=job_target.unmask(spec.target, held.job.spec.target))
        edited, effects = held.job, arming.Effects()
        if spec != held.job.spec:
            edited, effects = await edits.apply(connection, held, spec, who, now)
            await self._rename(connection, held.job, edited)
            await _record(connection, who, "update", held.job, edited)
        return edited, effects

    async def _rename(self, connection: asyncpg.Connection, held: job.Job, edited: job.Job) -> None:
        """A name lives with the shard that it is hashed to, also where the job is another shard's.

        Raises ConflictError where that shard lives in another database: no transaction could keep the name unique.
        """
        if edited.spec.name == held.spec.name:
            return
        total, here = self._shards()
        if held.spec.name is not None:
            await jobs.free_name(connection, held.tenant_id, held.spec.name, held.id)
        if edited.spec.name is None:
            return
        shard = sharding.shard_of_name(held.tenant_id, edited.spec.name, total)
        if shard not in here:
            named = repr(edited.spec.name)
            detail = (
                f"the name {named} belongs into another database: create the job anew under it, and delete this one"
            )
            raise errors.ConflictError(detail, "name_elsewhere")
        if shard != held.shard:
            await jobs.borrow_name(connection, edited, shard)


def _living(shards: int, here: Callable[[], Sequence[int]]) -> Callable[[], creation.Shards]:
    return lambda: creation.Shards(shards, here())


def _catch_up(word: CatchUp | str) -> CatchUp:
    try:
        return CatchUp(word)
    except ValueError:
        detail = f"{word!r} is not one of {', '.join(CatchUp)}"
        raise errors.InvalidError([errors.Fault("/catch_up", detail)]) from None


async def _check_not_over(connection: asyncpg.Connection, held: job.Job, now: datetime) -> None:
    """A one-off whose run has ended is finished, though its row does not say so."""
    if held.status is JobStatus.ACTIVE and job.is_one_off(held.spec):
        view = await job_views.of_one(connection, held, now)
        if view.status is JobStatus.FINISHED:
            raise errors.ConflictError("the job is finished: there is nothing to pause", "job_finished")


async def _record(
    connection: asyncpg.Connection, who: job.Actor, action: str, before: job.Job | None, after: job.Job | None
) -> None:
    """Write down a change of a definition."""
    named = after or before
    if named is None:
        return
    await audit.record(
        connection,
        who,
        action,
        "job",
        str(named.id),
        None if before is None else job_document.to_json(before.spec),
        None if after is None else job_document.to_json(after.spec),
    )


async def _record_pause(
    connection: asyncpg.Connection, who: job.Actor, action: str, changed: job.Job, details: Mapping[str, Any]
) -> None:
    given = {name: value for name, value in details.items() if value is not None}
    after = msgspec.json.encode({"status": changed.status, **given}).decode()
    await audit.record(connection, who, action, "job", str(changed.id), None, after)
