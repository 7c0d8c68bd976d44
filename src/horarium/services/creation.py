"""Step 1 of a run's life: a job is defined. Its rows are made here, for one job or for thousands at once."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

import asyncpg

from horarium import errors
from horarium.domain import firing, ids, job, job_document, schedule, sharding
from horarium.services import arming
from horarium.store import bulk, one_offs, runs, timers

_ENTROPY_BYTES = 10
_WORTH_COPYING = 10


class Shards(NamedTuple):
    """How many there are, and those that jobs without a name may be given here: all, in an installation of one database."""

    total: int
    here: Sequence[int]


def new_jobs(who: job.Actor, specs: Sequence[job.JobSpec], now: datetime, shards: Shards) -> list[job.Job]:
    """Jobs made of definitions, each with an id that carries its shard: hashed from its name, drawn for nameless ones."""
    total, here = shards
    if not here:
        raise errors.ShardMovedError("no shard lives in this database any more")
    ms = ids.microseconds(now) // 1000
    entropy = secrets.token_bytes(_ENTROPY_BYTES * len(specs))
    made = []
    for number, spec in enumerate(specs):
        offset = number * _ENTROPY_BYTES
        drawn = int.from_bytes(entropy[offset : offset + _ENTROPY_BYTES], "big")
        if spec.name is None:
            shard = here[(drawn >> 64) % len(here)]
        else:
            shard = sharding.shard_of_name(who.tenant_id, spec.name, total)
        made.append(
            job.Job(
                id=runs.uuid_of(ids.fresh_bytes(shard, ms, drawn)),
                shard=shard,
                tenant_id=who.tenant_id,
                spec=spec,
                anchor_at=spec.start_at or now,
                created_at=now,
                created_by=who.name,
                updated_at=now,
                updated_by=who.name,
            )
        )
    return made


class Planting:
    """The first occurrence of each new job: a timer, or the run itself where that is due at once.

    Jobs made at one moment share their next time where they share their schedule: it is computed once.
    """

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._planned: dict[tuple[object, ...], _Planned] = {}
        self.effects = arming.Effects()

    def add(self, jobs: Iterable[job.Job]) -> None:
        """Decide what the first occurrences are."""
        for each in jobs:
            planned = self._plan(each)
            run_at = each.spec.run_at
            if run_at is not None and run_at <= self._now + job.AT_ONCE:
                self.effects.added.append(arming.run_of(each, planned.tick(each, run_at)))
            elif planned.first is not None:
                timer = arming.timer_with_key(each, planned.tick(each, planned.first), planned.key)
                self.effects.timers.append(timer)

    async def store(self, connection: asyncpg.Connection) -> None:
        """Write timers and runs: copied, which is the quicker way for more than a few."""
        if len(self.effects.timers) + len(self.effects.added) < _WORTH_COPYING:
            await timers.upsert(connection, self.effects.timers)
            await runs.insert(connection, self.effects.added)
        else:
            await bulk.copy_timers(connection, self.effects.timers)
            await bulk.copy_runs(connection, self.effects.added)

    def _plan(self, each: job.Job) -> _Planned:
        said = (*_schedule_members(each.spec), each.anchor_at)
        known = self._planned.get(said)
        if known is None:
            planned = job.schedule_of(each.spec, each.anchor_at)
            first = schedule.next_fire(planned, self._now)
            known = self._planned[said] = _Planned(planned, schedule.encode(planned), first)
        return known


def one_offs_of(made: Iterable[tuple[job.Actor, job.Job]], effects: arming.Effects) -> list[one_offs.OneOff]:
    """The rows of one-offs whose first occurrence is in `effects`, each with its line in the audit; others are left out."""
    run_ids: dict[UUID, UUID | None] = {run.job_id: run.id for run in effects.added}
    keys = {timer.job_id: timer.schedule_key for timer in effects.timers}
    run_ids.update(dict.fromkeys(keys))
    return [
        one_offs.row_of(who, each, run_ids[each.id], keys.get(each.id, ""), job_document.to_json(each.spec))
        for who, each in made
        if each.id in run_ids
    ]


class _Planned(NamedTuple):
    """A schedule that several jobs may share, its key, and its first time from now on."""

    schedule: schedule.Schedule
    key: str
    first: datetime | None

    def tick(self, each: job.Job, nominal: datetime) -> firing.Tick:
        if not each.spec.jitter_s:
            return firing.Tick(nominal, nominal)
        return arming.tick_at(each.id, self.schedule, nominal)


_schedule_members = attrgetter(*job.TIMING_FIELDS, "jitter_s")
