"""One-offs as applications enqueue them: job, first run or timer, and line in the audit, in one statement.

A create is mostly one of these, and waits for its commit: one round trip instead of eight is most of its latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple, cast
from uuid import UUID

import asyncpg
import msgspec

from horarium.domain import job
from horarium.store import jobs
from horarium.store.jobs import SQL

_OWN = ("name", "payload", "run_at", "target", "queue", "priority", "timeout_s", "retry")
_others = attrgetter(*(name for name in jobs.DEFINED if name not in _OWN))
_USUAL = _others(job.JobSpec(target={}))


class OneOff(NamedTuple):
    """A one-off to be made. `run_id` is that of its run where it is due at once, and None where a timer waits for its time.

    `payload`, `target`, `retry` and `after`, the definition for the audit, are JSON text.
    """

    id: UUID
    shard: int
    tenant_id: str
    created_by: str
    name: str | None
    payload: str
    run_at: datetime
    target: str
    queue: str
    priority: int
    timeout_s: int
    retry: str
    target_key: str
    run_id: UUID | None
    schedule_key: str
    remote: str | None
    request_id: str | None
    after: str


def is_plain(spec: job.JobSpec) -> bool:
    """Whether a job is a one-off with nothing but what a `OneOff` holds."""
    return spec.run_at is not None and _others(spec) == _USUAL


def row_of(who: job.Actor, made: job.Job, run_id: UUID | None, schedule_key: str, after: str) -> OneOff:
    """The row of a job whose definition is plain."""
    spec = made.spec
    return OneOff(
        made.id,
        made.shard,
        made.tenant_id,
        made.created_by,
        spec.name,
        spec.payload,
        cast("datetime", spec.run_at),  # it is plain
        msgspec.json.encode(spec.target).decode(),
        spec.queue,
        spec.priority,
        spec.timeout_s,
        jobs.retry_to_json(spec.retry),
        job.target_key(spec.target),
        run_id,
        schedule_key,
        who.remote,
        who.request_id,
        after,
    )


async def insert(connection: asyncpg.Connection, rows: Sequence[OneOff], now: datetime) -> set[UUID]:
    """Store one-offs, no two with the same name, as made at `now`; returns the ids of those whose name was free.

    Names are written in their order, so that two calls with the same names wait for each other.
    """
    ordered = sorted(rows, key=lambda row: (row.tenant_id, row.name or ""))
    found = await connection.fetch(SQL.insert_one_offs, now, *map(list, zip(*ordered, strict=True)))
    return {row[0] for row in found}
