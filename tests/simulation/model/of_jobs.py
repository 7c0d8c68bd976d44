"""The statements of `jobs.sql`, on the model; the rows that are copied, too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from horarium.store import jobs, one_offs
from tests.simulation.model.answers import Answer, answers
from tests.simulation.model.of_runs import _is_untouched_tick
from tests.simulation.model.rows import NEW_JOB, NEW_RUN, TIMER, Fields, only
from tests.simulation.model.server import Transaction

SQL = jobs.SQL
_COPIED_INTO: dict[str, Fields] = {"jobs": NEW_JOB, "runs": NEW_RUN, "timers": dict.fromkeys(TIMER), "audit": {}}
_KEYS = {"jobs": "id", "runs": "id", "timers": "job_id"}


@answers(SQL.insert)
async def insert(tx: Transaction, *values: Any) -> Answer:
    job_id, shard, tenant_id, at, by, anchor, *definition = values
    stamps = {"created_at": at, "created_by": by, "updated_at": at, "updated_by": by, "anchor_at": anchor}
    row = {**NEW_JOB, "id": job_id, "shard": shard, "tenant_id": tenant_id, **stamps, **_definition(definition)}
    if not await _name_is_free(tx, row):
        return []
    await tx.insert("jobs", job_id, row)
    return [{"id": job_id}]


@answers(SQL.insert_one_offs)
async def insert_one_offs(tx: Transaction, now: datetime, *columns: Sequence[Any]) -> Answer:
    stored = []
    for each in map(one_offs.OneOff._make, zip(*columns, strict=True)):
        by = each.created_by
        stamps = {"created_at": now, "created_by": by, "updated_at": now, "updated_by": by, "anchor_at": now}
        shared = {name: getattr(each, name) for name in ("shard", "tenant_id", "queue", "priority")}
        own = {
            name: getattr(each, name) for name in ("id", "name", "payload", "run_at", "target", "timeout_s", "retry")
        }
        row = {**NEW_JOB, **stamps, **shared, **own}
        if not await _name_is_free(tx, row):
            continue
        await tx.insert("jobs", each.id, row)
        stored.append({"id": each.id})
        shared |= {"job_id": each.id, "job_version": 1, "target_key": each.target_key, "scheduled_for": each.run_at}
        if each.run_id is not None:
            run = {**NEW_RUN, **shared, "id": each.run_id, "ready_at": each.run_at}
            await tx.insert("runs", each.run_id, run)
        else:
            keys = {"schedule_key": each.schedule_key, "policy_key": "", "zone_version": ""}
            timer = {**dict.fromkeys(TIMER), **shared, **keys, "due_at": each.run_at}
            await tx.insert("timers", each.id, timer)
        tx.append("audit", {"tenant_id": each.tenant_id, "object_id": str(each.id), "after": each.after})
    return stored


def _definition(values: Sequence[Any]) -> Fields:
    return dict(zip(jobs._WRITERS, values, strict=True))


async def _name_is_free(tx: Transaction, row: Fields) -> bool:
    """The unique index `jobs_name`: whoever wants the same name waits for the other's end."""
    if row["name"] is None:
        return True
    await tx.hold("jobs_name", (row["tenant_id"], row["name"]))
    others = (other for other in tx.rows("jobs").values() if other["id"] != row["id"] and other["deleted_at"] is None)
    return not any((other["tenant_id"], other["name"]) == (row["tenant_id"], row["name"]) for other in others)


async def copy(tx: Transaction, table: str, records: Sequence[Sequence[Any]], columns: Sequence[str]) -> None:
    """COPY … FROM STDIN."""
    for record in records:
        row = {**_COPIED_INTO[table], **dict(zip(columns, record, strict=True))}
        if table not in _KEYS:
            tx.append(table, row)
        elif (table == "jobs" and not await _name_is_free(tx, row)) or not await tx.insert(
            table, row[_KEYS[table]], row
        ):
            raise asyncpg.UniqueViolationError("duplicate key value violates unique constraint")


@answers(SQL.taken_names)
async def taken_names(tx: Transaction, tenants: Sequence[str], names: Sequence[str]) -> Answer:
    wanted = set(zip(tenants, names, strict=True))
    rows = (row for row in tx.rows("jobs").values() if row["deleted_at"] is None)
    return [only(row, "tenant_id", "name") for row in rows if (row["tenant_id"], row["name"]) in wanted]


@answers(SQL.update)
async def update(tx: Transaction, *values: Any) -> Answer:
    job_id, version, at, by, status, reason, pause, anchor, *definition = values
    rows = await tx.matching("jobs", [job_id], lambda r: r["version"] == version)
    for row in rows:
        stamps = {"updated_at": at, "updated_by": by, "status": status, "status_reason": reason, "pause": pause}
        changed = {**row, **stamps, "version": version + 1, "anchor_at": anchor, **_definition(definition)}
        if changed["name"] != row["name"] and not await _name_is_free(tx, changed):
            raise asyncpg.UniqueViolationError("duplicate key value violates unique constraint")
        tx.put("jobs", job_id, changed)
    return len(rows)


@answers(SQL.mark_deleted)
async def mark_deleted(tx: Transaction, job_id: UUID, reason: str, at: datetime, by: str) -> Answer:
    rows = await tx.matching("jobs", [job_id], lambda r: True)
    for row in rows:
        gone = {"status": "cancelled", "status_reason": reason, "pause": None, "deleted_at": at, "updated_at": at}
        tx.put("jobs", job_id, {**row, **gone, "updated_by": by, "version": row["version"] + 1})
    return len(rows)


@answers(SQL.find_by_id)
async def find_by_id(tx: Transaction, tenant_id: str, job_id: UUID) -> Answer:
    row = tx.get("jobs", job_id)
    return [row] if row is not None and row["tenant_id"] == tenant_id else []


@answers(SQL.id_of_name)
async def id_of_name(tx: Transaction, tenant_id: str, name: str) -> Answer:
    rows = (row for row in tx.rows("jobs").values() if row["deleted_at"] is None)
    return [only(row, "id") for row in rows if (row["tenant_id"], row["name"]) == (tenant_id, name)]


@answers(SQL.lock)
async def lock(tx: Transaction, tenant_id: str, job_id: UUID) -> Answer:
    return await tx.matching("jobs", [job_id], lambda r: r["tenant_id"] == tenant_id)


@answers(SQL.borrowers)
async def borrowers(tx: Transaction, tenant_id: str, names: Sequence[str]) -> Answer:
    return []


@answers(SQL.free_names)
async def free_names(tx: Transaction, tenant_id: str, names: Sequence[str], job_id: UUID) -> Answer:
    return 0


@answers(SQL.outlook)
async def outlook(tx: Transaction, job_ids: Sequence[UUID], now: datetime) -> Answer:
    """Only what a pause asks for: whether anything of a one-off is left."""
    return [
        {
            "id": job_id,
            "next_run_at": None,
            "is_live": tx.get("timers", job_id) is not None
            or any(row["job_id"] == job_id for row in tx.rows("runs").values()),
            "last_id": None,
        }
        for job_id in job_ids
        if tx.get("jobs", job_id) is not None
    ]


@answers(SQL.handled_ahead)
async def handled_ahead(tx: Transaction, job_id: UUID, now: datetime) -> Answer:
    long_ago = tx.now - timedelta(hours=6)
    live = [row for row in tx.rows("runs").values() if row["job_id"] == job_id]
    ended = [row for row in tx.rows("history").values() if row["job_id"] == job_id and row["finished_at"] > long_ago]
    times = [
        row["scheduled_for"] for row in (*live, *ended) if row["trigger"] == "schedule" and row["scheduled_for"] > now
    ]
    skipped = [row["last"] for row in tx.rows("skips").values() if row["job_id"] == job_id][-100:]
    times += [last for last in skipped if now < last <= tx.server.now()]
    return [{"max": max(times, default=None)}]


@answers(SQL.retract_ticks)
async def retract_ticks(tx: Transaction, run_ids: Sequence[UUID]) -> Answer:
    rows = await tx.matching("runs", run_ids, _is_untouched_tick)
    for row in rows:
        tx.put("runs", row["id"], None)
    return [only(row, "id", "scheduled_for") for row in rows]


@answers(SQL.refresh_ticks_ahead)
async def refresh_ticks_ahead(
    tx: Transaction, job_id: UUID, now: datetime, queue: str, priority: int, target_key: str, version: int
) -> Answer:
    rows = await tx.matching(
        "runs", None, lambda r: r["job_id"] == job_id and r["scheduled_for"] > now and _is_untouched_tick(r)
    )
    new = {"queue": queue, "priority": priority, "target_key": target_key, "job_version": version}
    for row in rows:
        tx.put("runs", row["id"], {**row, **new})
    return len(rows)


@answers(SQL.take_back_skip)
async def take_back_skip(tx: Transaction, job_id: UUID, first: datetime, last: datetime, count: int) -> Answer:
    wanted = (job_id, "paused", first, last, count)
    rows = [
        key
        for key, row in tx.rows("skips").items()
        if (row["job_id"], row["reason"], row["first"], row["last"], row["count"]) == wanted
    ]
    for key in rows:
        await tx.hold("skips", key)
        tx.put("skips", key, None)
    return len(rows)


def _ends_at(row: Fields) -> datetime | None:
    until = json.loads(row["pause"]).get("until") if row["status"] == "paused" and row["pause"] else None
    return None if until is None else datetime.fromisoformat(until)


@answers(SQL.lapsed_pauses)
async def lapsed_pauses(tx: Transaction, now: datetime, limit: int) -> Answer:
    ends = [(end, row) for row in tx.rows("jobs").values() if (end := _ends_at(row)) is not None and end <= now]
    return [only(row, "tenant_id", "id") for _, row in sorted(ends, key=lambda each: each[0])[:limit]]


@answers(SQL.next_lapse)
async def next_lapse(tx: Transaction, now: datetime) -> Answer:
    ends = [end for row in tx.rows("jobs").values() if (end := _ends_at(row)) is not None and end > now]
    return [{"min": min(ends, default=None)}]
