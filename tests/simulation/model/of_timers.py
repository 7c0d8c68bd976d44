"""The statements of `timers.sql`, on the model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from horarium.store import timers
from tests.simulation.model.answers import Answer, answers
from tests.simulation.model.rows import NEW_RUN, TIMER, Fields, only
from tests.simulation.model.server import Transaction

SQL = timers.SQL


@answers(SQL.select_due)
async def select_due(
    tx: Transaction,
    led: Sequence[int],
    cursors: Sequence[datetime],
    limit: int,
    until: datetime,
    shards: Sequence[int],
    terms: Sequence[int],
) -> Answer:
    ours = tx.led(shards, terms)
    found: list[Fields] = []
    for shard, cursor in zip(led, cursors, strict=True):
        rows = [row for row in tx.rows("timers").values() if row["shard"] == shard and cursor <= row["due_at"] <= until]
        if shard in ours:
            found += tx.free_rows("timers", sorted(rows, key=lambda row: row["due_at"]), "job_id", limit)
    return [only(row, *TIMER[:-1]) for row in found]


@answers(SQL.fire)
async def fire(
    tx: Transaction,
    run_ids: Sequence[UUID],
    job_ids: Sequence[UUID],
    nominal: Sequence[datetime],
    following: Sequence[datetime],
) -> Answer:
    wanted = {job: each for job, *each in zip(job_ids, run_ids, nominal, following, strict=True)}
    rows = await tx.matching("timers", job_ids, lambda r: r["scheduled_for"] == wanted[r["job_id"]][1])
    for row in rows:
        run_id, fired, then = wanted[row["job_id"]]
        tx.put("timers", row["job_id"], {**row, "scheduled_for": then, "due_at": then, "last_scheduled_for": fired})
        taken = only(row, "job_id", "job_version", "shard", "priority", "tenant_id", "queue", "target_key")
        await tx.insert("runs", run_id, {**NEW_RUN, **taken, "id": run_id, "scheduled_for": fired, "ready_at": fired})
    return len(rows)


@answers(SQL.move)
async def move(tx: Transaction, *columns: Sequence[Any]) -> Answer:
    wanted = {each.job_id: each for each in map(timers.Move, *columns)}
    rows = await tx.matching("timers", wanted, lambda r: r["scheduled_for"] == wanted[r["job_id"]].scheduled_for)
    for row in rows:
        to = wanted[row["job_id"]]
        moved = {
            "scheduled_for": to.next_scheduled_for,
            "due_at": to.next_due_at,
            "last_scheduled_for": to.last,
        }
        tx.put("timers", row["job_id"], {**row, **moved})
    return len(rows)


@answers(SQL.delete)
async def delete(tx: Transaction, job_ids: Sequence[UUID]) -> Answer:
    rows = await tx.matching("timers", job_ids, lambda r: True)
    for row in rows:
        tx.put("timers", row["job_id"], None)
    return len(rows)


@answers(SQL.lock)
async def lock(tx: Transaction, job_ids: Sequence[UUID]) -> Answer:
    return [only(row, *TIMER) for row in await tx.matching("timers", job_ids, lambda r: True, in_order=True)]


@answers(SQL.upsert)
async def upsert(tx: Transaction, *columns: Sequence[Any]) -> Answer:
    for values in zip(*columns, strict=True):
        row = dict(zip(TIMER, values, strict=True))
        before = await tx.hold("timers", row["job_id"])
        if before is not None:
            kept = {"shard": before["shard"], "tenant_id": before["tenant_id"]}
            last = row["last_scheduled_for"] or before["last_scheduled_for"]
            row = {**row, **kept, "last_scheduled_for": last}
        tx.put("timers", row["job_id"], row)
    return len(columns[0])


@answers(SQL.finish_jobs)
async def finish_jobs(tx: Transaction, job_ids: Sequence[UUID]) -> Answer:
    rows = await tx.matching("jobs", job_ids, lambda r: r["status"] == "active" and r["run_at"] is None)
    for row in rows:
        tx.put("jobs", row["id"], {**row, "status": "finished", "updated_at": tx.now})
    return len(rows)


@answers(SQL.fail_jobs)
async def fail_jobs(tx: Transaction, job_ids: Sequence[UUID], reasons: Sequence[str]) -> Answer:
    why = dict(zip(job_ids, reasons, strict=True))
    rows = await tx.matching("jobs", job_ids, lambda r: r["status"] == "active")
    for row in rows:
        failed = {"status": "error", "status_reason": why[row["id"]], "updated_at": tx.now}
        tx.put("jobs", row["id"], {**row, **failed})
    return len(rows)


@answers(SQL.select_handled_ahead)
async def select_handled_ahead(
    tx: Transaction, shards: Sequence[int], later_than: datetime, after: UUID, limit: int
) -> Answer:
    wanted = set(shards)
    rows = [
        row
        for row in tx.rows("timers").values()
        if row["shard"] in wanted
        and row["last_scheduled_for"] is not None
        and row["last_scheduled_for"] > later_than
        and row["job_id"] > after
    ]
    ordered = sorted(rows, key=lambda row: row["job_id"])
    return [only(row, *TIMER[:-1]) for row in tx.free_rows("timers", ordered, "job_id", limit)]


@answers(SQL.rearm)
async def rearm(
    tx: Transaction, job_ids: Sequence[UUID], nominal: Sequence[datetime], due: Sequence[datetime]
) -> Answer:
    wanted = {job: times for job, *times in zip(job_ids, nominal, due, strict=True)}
    rows = await tx.matching("timers", job_ids, lambda r: True)
    for row in rows:
        scheduled_for, due_at = wanted[row["job_id"]]
        armed = {"scheduled_for": scheduled_for, "due_at": due_at, "last_scheduled_for": None}
        tx.put("timers", row["job_id"], {**row, **armed})
    return len(rows)


@answers(SQL.select_other_zone_version)
async def select_other_zone_version(
    tx: Transaction, shards: Sequence[int], version: str, after: UUID, limit: int
) -> Answer:
    wanted = set(shards)
    rows = [
        row
        for row in tx.rows("timers").values()
        if row["shard"] in wanted and "" < row["zone_version"] < version and row["job_id"] > after
    ]
    return tx.free_rows("timers", sorted(rows, key=lambda row: row["job_id"]), "job_id", limit)


@answers(SQL.count_overdue)
async def count_overdue(tx: Transaction, shards: Sequence[int], before: datetime, bound: int) -> Answer:
    wanted = set(shards)
    overdue = sum(row["shard"] in wanted and row["due_at"] < before for row in tx.rows("timers").values())
    return [{"count": min(overdue, bound)}]
