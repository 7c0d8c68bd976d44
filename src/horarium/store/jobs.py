"""Rows of `jobs`: the definitions, and what people see of a job beside its definition."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from horarium import errors
from horarium.domain import job, retry
from horarium.domain.misfire import Misfire
from horarium.domain.overlap import Overlap
from horarium.domain.states import JobStatus
from horarium.store import statements

SQL = statements.load("jobs")


@dataclasses.dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs a list shows; None leaves a member open. `name` may end in `*`: then it is a prefix."""

    status: str | None = None
    queue: str | None = None
    tag: str | None = None
    name: str | None = None
    owner: str | None = None
    managed_by: str | None = None
    due_before: datetime | None = None


class Outlook(NamedTuple):
    """What lies ahead of a job, and its latest run. `is_live`: it has a timer or a live run."""

    next_run_at: datetime | None = None
    is_live: bool = False
    last_run: job.LastRun | None = None


async def insert(connection: asyncpg.Connection, made: job.Job) -> bool:
    """Store a new job; false when its name is taken."""
    stored = await connection.fetchval(
        SQL.insert,
        made.id,
        made.shard,
        made.tenant_id,
        made.created_at,
        made.created_by,
        made.anchor_at,
        *_definition(made.spec),
    )
    return stored is not None


async def insert_many(connection: asyncpg.Connection, made: Sequence[job.Job]) -> set[UUID]:
    """Store new jobs, no two with the same name; returns the ids of those whose name was free.

    They are copied, which is twice as fast as inserting them, with only the columns in which one of them differs from the
    defaults. Raises asyncpg.UniqueViolationError when somebody takes one of the names meanwhile: then the transaction is to
    be done again (`retried.change` does). Names are written in their order, so that two batches with the same names wait
    for each other instead of locking each other out.
    """
    named = [each for each in made if each.spec.name is not None]
    taken = await _taken(connection, named) if named else set()
    free = [each for each in made if _name(each) not in taken] if taken else list(made)
    if not free:
        return set()
    if named:
        free.sort(key=_name)
    columns = _columns_that_differ([each.spec for each in free])
    write = [_WRITERS[column] for column in columns]
    records = [
        (each.id, each.shard, each.tenant_id, each.anchor_at, *_stamps(each), *[column(each.spec) for column in write])
        for each in free
    ]
    await connection.copy_records_to_table("jobs", records=records, columns=(*_OWN_COLUMNS, *columns))
    return {each.id for each in free}


async def _taken(connection: asyncpg.Connection, named: Sequence[job.Job]) -> set[tuple[str, str]]:
    tenants, names = zip(*map(_name, named), strict=True)
    return {(row[0], row[1]) for row in await connection.fetch(SQL.taken_names, tenants, names)}


def _name(each: job.Job) -> tuple[str, str]:
    """What is unique among jobs: tenant and name. No job has an empty name."""
    return each.tenant_id, each.spec.name or ""


async def update(connection: asyncpg.Connection, changed: job.Job) -> None:
    """Store a job that was locked and read at `changed.version - 1`. Raises ConflictError when its new name is taken."""
    try:
        await connection.execute(
            SQL.update,
            changed.id,
            changed.version - 1,
            changed.updated_at,
            changed.updated_by,
            changed.status.value,
            changed.status_reason,
            None if changed.pause is None else _pause_to_json(changed.pause),
            changed.anchor_at,
            *_definition(changed.spec),
        )
    except asyncpg.UniqueViolationError:
        raise name_taken(changed.spec.name) from None


def name_taken(name: str | None) -> errors.ConflictError:
    """That another job bears the name."""
    return errors.ConflictError(f"a job named {name!r} exists already", "name_taken")


async def mark_deleted(connection: asyncpg.Connection, job_id: UUID, reason: str, at: datetime, by: str) -> None:
    """Mark a job as deleted: cancelled, and its name free again."""
    await connection.execute(SQL.mark_deleted, job_id, reason, at, by)


async def find(connection: asyncpg.Connection, tenant_id: str, ref: UUID | str) -> job.Job | None:
    """The job with an id, deleted or not, or the one that bears a name now."""
    statement = SQL.find_by_id if isinstance(ref, UUID) else SQL.find_by_name
    row = await connection.fetchrow(statement, tenant_id, ref)
    return None if row is None else of_row(row)


async def id_of_name(connection: asyncpg.Connection, tenant_id: str, name: str) -> UUID | None:
    """The id of the job that bears a name now."""
    found: UUID | None = await connection.fetchval(SQL.id_of_name, tenant_id, name)
    return found


async def lock(connection: asyncpg.Connection, tenant_id: str, job_id: UUID) -> job.Job | None:
    """The job with an id, locked to the end of the transaction. Lock its timer before."""
    row = await connection.fetchrow(SQL.lock, tenant_id, job_id)
    return None if row is None else of_row(row)


async def page(
    connection: asyncpg.Connection, tenant_id: str, wanted: Filter, before: UUID | None, limit: int
) -> list[tuple[job.Job, JobStatus]]:
    """Jobs with the status that people see, newest first, with ids below `before`. Ask inside a transaction."""
    await connection.execute(SQL.plan_for_filters)
    exact, prefix = _name_filter(wanted.name)
    rows = await connection.fetch(
        SQL.page,
        tenant_id,
        before,
        wanted.status,
        wanted.queue,
        wanted.tag,
        exact,
        prefix,
        wanted.owner,
        wanted.managed_by,
        wanted.due_before,
        limit,
    )
    return [(of_row(row), JobStatus(row["shown"])) for row in rows]


async def borrow_name(connection: asyncpg.Connection, renamed: job.Job, shard: int) -> None:
    """Write down that a job bears a name that is hashed to another shard."""
    await connection.execute(SQL.borrow_name, renamed.tenant_id, renamed.spec.name, shard, renamed.id)


async def borrowers(connection: asyncpg.Connection, tenant_id: str, names: Sequence[str]) -> dict[str, UUID]:
    """The jobs that bear these names by a rename, as far as it is written down here."""
    return {row["name"]: row["job_id"] for row in await connection.fetch(SQL.borrowers, tenant_id, list(names))}


async def free_name(connection: asyncpg.Connection, tenant_id: str, name: str, job_id: UUID) -> None:
    """A job does not bear a name any more."""
    await connection.execute(SQL.free_names, tenant_id, [name], job_id)


async def outlooks(connection: asyncpg.Connection, job_ids: Sequence[UUID], now: datetime) -> dict[UUID, Outlook]:
    """What lies ahead of some jobs and what was last."""
    rows = await connection.fetch(SQL.outlook, list(job_ids), now)
    return {row["id"]: Outlook(row["next_run_at"], row["is_live"], _last_run(row)) for row in rows}


async def handled_ahead(connection: asyncpg.Connection, job_id: UUID, now: datetime) -> datetime | None:
    """The latest tick ahead of `now` that must not be made a second time: it is claimed, was cancelled, or skipped just now."""
    found: datetime | None = await connection.fetchval(SQL.handled_ahead, job_id, now)
    return found


async def retract_ticks(connection: asyncpg.Connection, run_ids: Sequence[UUID]) -> list[datetime]:
    """Take back ticks that have not started; returns their nominal times."""
    if not run_ids:
        return []
    return [row["scheduled_for"] for row in await connection.fetch(SQL.retract_ticks, list(run_ids))]


async def refresh_ticks_ahead(connection: asyncpg.Connection, changed: job.Job, now: datetime) -> None:
    """Let the ticks that were made ahead of `now` go by a job's new definition."""
    spec = changed.spec
    key = job.target_key(spec.target)
    await connection.execute(SQL.refresh_ticks_ahead, changed.id, now, spec.queue, spec.priority, key, changed.version)


async def take_back_skip(connection: asyncpg.Connection, job_id: UUID, times: Sequence[datetime]) -> None:
    """Remove the line that said these ticks, the oldest first, were skipped for a pause."""
    await connection.execute(SQL.take_back_skip, job_id, times[0], times[-1], len(times))


async def lapsed_pauses(connection: asyncpg.Connection, now: datetime, limit: int) -> list[tuple[str, UUID]]:
    """(tenant, id) of paused jobs whose pause ends by itself at or before `now`."""
    return [(row[0], row[1]) for row in await connection.fetch(SQL.lapsed_pauses, now, limit)]


async def next_lapse(connection: asyncpg.Connection, now: datetime) -> datetime | None:
    """When the next pause ends by itself, later than `now`."""
    found: datetime | None = await connection.fetchval(SQL.next_lapse, now)
    return found


async def keep_paused(connection: asyncpg.Connection, job_id: UUID, reason: str) -> None:
    """Let a paused job stay so without an end, with the reason why it was not resumed."""
    await connection.execute(SQL.keep_paused, job_id, reason)


def of_row(row: asyncpg.Record) -> job.Job:
    """The job of a row of `jobs`."""
    return job.Job(
        id=row["id"],
        shard=row["shard"],
        tenant_id=row["tenant_id"],
        spec=_spec_of(row),
        anchor_at=row["anchor_at"],
        created_at=row["created_at"],
        created_by=row["created_by"],
        updated_at=row["updated_at"],
        updated_by=row["updated_by"],
        status=JobStatus(row["status"]),
        status_reason=row["status_reason"],
        pause=None if row["pause"] is None else _pause_of_json(row["pause"]),
        version=row["version"],
        deleted_at=row["deleted_at"],
    )


def _spec_of(row: asyncpg.Record) -> job.JobSpec:
    return job.JobSpec(
        **{name: row[name] for name in _AS_THEY_ARE},
        tags=tuple(row["tags"]),
        target=json.loads(row["target"]),
        misfire=Misfire(row["misfire"]),
        overlap=Overlap(row["overlap"]),
        retry=retry.from_json(json.loads(row["retry"])),
        expect=None if row["expect"] is None else json.loads(row["expect"]),
    )


def retry_to_json(policy: retry.RetryPolicy) -> str:
    """A retry policy as it is stored."""
    return "{}" if policy is retry.DEFAULT else json.dumps(retry.to_json(policy))


# The columns of a definition, in the order of the statements' parameters, and how each is written.
_WRITERS: dict[str, Callable[[job.JobSpec], Any]] = {
    **{name: attrgetter(name) for name in ("name", "payload", "run_at", "description", "owner", "tags", "managed_by")},
    "target": lambda spec: msgspec.json.encode(spec.target).decode(),
    **{name: attrgetter(name) for name in ("queue", "priority", "schedule", "interval_s", "run_at_local")},
    **{name: attrgetter(name) for name in ("run_at_fold", "timezone", "start_at", "end_at", "jitter_s")},
    **{
        name: attrgetter(name)
        for name in ("misfire", "misfire_grace_s", "catch_up_window_s", "max_catch_up", "overlap")
    },
    "retry": lambda spec: retry_to_json(spec.retry),
    "timeout_s": attrgetter("timeout_s"),
    "expect": lambda spec: None if spec.expect is None else json.dumps(spec.expect),
}
DEFINED = tuple(_WRITERS)  # the members of a definition
_AS_THEY_ARE = [name for name in _WRITERS if name not in ("tags", "target", "misfire", "overlap", "retry", "expect")]
_OWN_COLUMNS = ("id", "shard", "tenant_id", "anchor_at", "created_at", "created_by", "updated_at", "updated_by")

_stamps = attrgetter("created_at", "created_by", "updated_at", "updated_by")


def _definition(spec: job.JobSpec) -> list[Any]:
    """A definition as parameters."""
    return [write(spec) for write in _WRITERS.values()]


def _columns_that_differ(specs: Sequence[job.JobSpec]) -> list[str]:
    """The columns in which at least one definition differs from what the table fills in by itself."""
    usual = job.JobSpec(target={})
    # `count` compares in C, and by identity first: mostly all values are the very same object.
    return [
        column for column in _WRITERS if [*map(attrgetter(column), specs)].count(getattr(usual, column)) < len(specs)
    ]


def _name_filter(name: str | None) -> tuple[str | None, str | None]:
    """(exact name, prefix) of a filter such as `billing.nightly` or `billing.*`."""
    if name is not None and name.endswith("*"):
        return None, name.removesuffix("*")
    return name, None


def _last_run(row: asyncpg.Record) -> job.LastRun | None:
    if row["last_id"] is None:
        return None
    return job.LastRun(row["last_id"], row["last_state"], row["last_started_at"], row["last_finished_at"])


def _pause_to_json(pause: job.Pause) -> str:
    members = {
        "at": pause.at.isoformat(),
        "by": pause.by,
        "reason": pause.reason,
        "until": pause.until and pause.until.isoformat(),
        "settled_until": pause.settled_until and pause.settled_until.isoformat(),
        "retracted": [each.isoformat() for each in pause.retracted],
    }
    return json.dumps({name: value for name, value in members.items() if value})


def _pause_of_json(text: str) -> job.Pause:
    members = json.loads(text)
    return job.Pause(
        at=datetime.fromisoformat(members["at"]),
        by=members["by"],
        reason=members.get("reason"),
        until=_instant(members.get("until")),
        settled_until=_instant(members.get("settled_until")),
        retracted=tuple(datetime.fromisoformat(each) for each in members.get("retracted", ())),
    )


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
