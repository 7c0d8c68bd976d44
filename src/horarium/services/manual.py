"""By hand: run a job now, run a run again, take dead letters up again or give them up. The schedule is untouched."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import asyncpg
import msgspec

from horarium import errors
from horarium.clock import Clock
from horarium.domain import ids, job
from horarium.domain.states import Trigger
from horarium.services import arming, holding
from horarium.services.pokes import Pokes
from horarium.store import audit, jobs, manual, retried, runs
from horarium.store.database import Database
from horarium.store.inspect import DeadFilter
from horarium.store.runs import RunRow

MAX_LETTERS = 10_000

Which = Sequence[UUID] | DeadFilter


class Manual:
    """Makes runs that people ask for. They are ready at once and stand outside the schedule and its overlap rule."""

    def __init__(self, database: Database, clock: Clock, pokes: Pokes) -> None:
        self._database = database
        self._clock = clock
        self._pokes = pokes

    async def run_now(self, who: job.Actor, ref: UUID | str, payload: str | None = None) -> UUID:
        """Make a run of a job, also of a paused or finished one; returns its id.

        `payload` is JSON text, looked through like a job's, that this run gets instead of the job's. Raises NotFoundError,
        and ConflictError for a deleted job.
        """

        async def work(connection: asyncpg.Connection) -> list[RunRow]:
            found = await _existing(connection, who, ref)
            now = self._clock.now()
            row = _manual_run(found, Trigger.MANUAL, now, now)._replace(payload=payload)
            await runs.insert(connection, [row])
            await _record(connection, who, "run", "job", found.id, {"run_id": str(row.id)})
            return [row]

        (made,) = await self._make(work)
        return made.id

    async def rerun(self, who: job.Actor, run_id: UUID) -> UUID:
        """Repeat a run that has ended, for the same nominal time; returns the new run's id.

        It gets the payload, target, retry policy and timeout that the run had of its own, else the job's of now. Raises
        NotFoundError, and ConflictError for a run that is live and for one whose job is deleted.
        """

        async def work(connection: asyncpg.Connection) -> list[RunRow]:
            finished = await manual.find_finished(connection, who.tenant_id, run_id)
            if finished is None:
                raise await _why_not(connection, who, run_id)
            found = await _existing(connection, who, finished.job_id)
            row = _again(found, finished, self._clock.now())
            await runs.insert(connection, [row])
            await manual.close_dead_letter(connection, run_id)
            await _record(connection, who, "rerun", "run", run_id, {"run_id": str(row.id)})
            return [row]

        (made,) = await self._make(work)
        return made.id

    async def retry_dead(self, who: job.Actor, which: Which, limit: int = MAX_LETTERS) -> int:
        """Repeat the runs of open dead letters, by run id or by filter, the oldest first; returns how many.

        At most 10,000 in one call: call again while the answer is `limit`. Letters of deleted jobs stay.
        """
        most = min(limit, MAX_LETTERS)

        async def work(connection: asyncpg.Connection) -> list[RunRow]:
            letters = await manual.take_dead_letters(connection, who.tenant_id, *_by_run_or_filter(which), most)
            now = self._clock.now()
            rows = [_run_of_letter(letter, who.tenant_id, now) for letter in letters]
            await runs.insert(connection, rows)
            changes = [
                audit.Change(str(letter.run_id), None, _json({"run_id": str(row.id)}))
                for letter, row in zip(letters, rows, strict=True)
            ]
            await audit.record_many(connection, who, "retry", "dead_letter", changes)
            return rows

        return len(await self._make(work))

    async def discard_dead(self, who: job.Actor, which: Which, limit: int = MAX_LETTERS) -> int:
        """Give up open dead letters, by run id or by filter, at most 10,000 in one call; returns how many."""
        most = min(limit, MAX_LETTERS)

        async def work(connection: asyncpg.Connection) -> int:
            gone = await manual.discard_dead_letters(connection, who.tenant_id, *_by_run_or_filter(which), most)
            changes = [audit.Change(str(run_id)) for run_id in gone]
            await audit.record_many(connection, who, "discard", "dead_letter", changes)
            return len(gone)

        return await retried.change(self._database, work)

    async def _make(self, work: retried.Work[list[RunRow]]) -> list[RunRow]:
        """Make runs in a transaction; after the commit their leaders are told."""
        rows = await retried.change(self._database, work)
        arming.Effects(added=rows).tell(self._pokes)
        return rows


async def _existing(connection: asyncpg.Connection, who: job.Actor, ref: UUID | str) -> job.Job:
    """The job, locked so that it is not deleted meanwhile."""
    job_id = ref if isinstance(ref, UUID) else await jobs.id_of_name(connection, who.tenant_id, ref)
    found = None if job_id is None else await jobs.lock(connection, who.tenant_id, job_id)
    if found is None:
        raise holding.not_found(ref)
    holding.check_not_deleted(found)
    return found


async def _why_not(connection: asyncpg.Connection, who: job.Actor, run_id: UUID) -> errors.HorariumError:
    if await manual.is_live(connection, who.tenant_id, run_id):
        return errors.ConflictError("the run has not ended yet: it cannot be repeated", "still_live")
    return errors.NotFoundError(f"there is no run {run_id}")


def _manual_run(found: job.Job, trigger: Trigger, scheduled_for: datetime, now: datetime) -> RunRow:
    return RunRow(
        id=_fresh_id(found.shard, now),
        job_id=found.id,
        shard=found.shard,
        tenant_id=found.tenant_id,
        queue=found.spec.queue,
        target_key=job.target_key(found.spec.target),
        priority=found.spec.priority,
        scheduled_for=scheduled_for,
        ready_at=now,
        job_version=found.version,
        trigger=trigger,
    )


def _again(found: job.Job, finished: manual.Finished, now: datetime) -> RunRow:
    row = _manual_run(found, Trigger.RERUN, finished.scheduled_for, now)
    return row._replace(
        target_key=_target_key(finished.target) or row.target_key,
        payload=finished.payload,
        target=finished.target,
        retry=finished.retry,
        timeout_s=finished.timeout_s,
        rerun_of=finished.id,
    )


def _run_of_letter(letter: manual.Letter, tenant_id: str, now: datetime) -> RunRow:
    return RunRow(
        id=_fresh_id(letter.shard, now),
        job_id=letter.job_id,
        shard=letter.shard,
        tenant_id=tenant_id,
        queue=letter.queue,
        target_key=job.target_key(json.loads(letter.target or letter.job_target)),
        priority=letter.priority,
        scheduled_for=letter.scheduled_for or now,
        ready_at=now,
        job_version=letter.version,
        trigger=Trigger.RERUN,
        payload=letter.payload,
        target=letter.target,
        retry=letter.retry,
        timeout_s=letter.timeout_s,
        rerun_of=letter.run_id,
    )


def _target_key(target: str | None) -> str | None:
    return None if target is None else job.target_key(json.loads(target))


def _fresh_id(shard: int, now: datetime) -> UUID:
    return ids.fresh_id(shard, now, secrets.randbits(64))


def _by_run_or_filter(which: Which) -> tuple[Sequence[UUID] | None, DeadFilter]:
    return (None, which) if isinstance(which, DeadFilter) else (which, DeadFilter())


async def _record(
    connection: asyncpg.Connection,
    who: job.Actor,
    action: str,
    object_type: str,
    object_id: UUID,
    after: dict[str, str],
) -> None:
    await audit.record(connection, who, action, object_type, str(object_id), None, _json(after))


def _json(members: dict[str, str]) -> str:
    return msgspec.json.encode(members).decode()
