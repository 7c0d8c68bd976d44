"""Step 1 of a run's life: a job is defined. Its rows are made here, for one job or for thousands at once."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime

import asyncpg

from horarium.domain import firing, ids, job, schedule, sharding
from horarium.services import arming
from horarium.store import runs, timers

_ENTROPY_BYTES = 10


def new_jobs(who: job.Actor, specs: Sequence[job.JobSpec], now: datetime, shards: int) -> list[job.Job]:
    """Jobs made of definitions, each with an id that carries its shard: hashed from its name, drawn for nameless ones."""
    entropy = secrets.token_bytes(_ENTROPY_BYTES * len(specs))
    made = []
    for number, spec in enumerate(specs):
        offset = number * _ENTROPY_BYTES
        drawn = int.from_bytes(entropy[offset : offset + _ENTROPY_BYTES], "big")
        if spec.name is None:
            shard = (drawn >> 64) % shards
        else:
            shard = sharding.shard_of_name(who.tenant_id, spec.name, shards)
        made.append(
            job.Job(
                id=ids.fresh_id(shard, now, drawn),
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
        self._known: dict[str, datetime | None] = {}
        self.effects = arming.Effects()

    def add(self, jobs: Iterable[job.Job]) -> None:
        """Decide what the first occurrences are."""
        for each in jobs:
            if each.spec.run_at is not None and each.spec.run_at <= self._now + job.AT_ONCE:
                planned = job.schedule_of(each.spec, each.anchor_at)
                self.effects.added.append(arming.run_of(each, arming.tick_at(each.id, planned, each.spec.run_at)))
            else:
                self._set_timer(each)

    async def store(self, connection: asyncpg.Connection) -> None:
        """Write timers and runs."""
        await timers.upsert(connection, self.effects.timers)
        await runs.insert(connection, self.effects.added)

    def _set_timer(self, each: job.Job) -> None:
        planned = job.schedule_of(each.spec, each.anchor_at)
        key = schedule.encode(planned)
        if key not in self._known:
            self._known[key] = schedule.next_fire(planned, self._now)
        nominal = self._known[key]
        if nominal is not None:
            tick = arming.tick_at(each.id, planned, nominal) if planned.jitter else firing.Tick(nominal, nominal)
            self.effects.timers.append(arming.timer_with_key(each, tick, key))
