"""Statements that write down what happened, on the model: skips, dead letters, figures, lines of the audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from horarium.store import audit, dead_letters, past_schedules, rollups, run_logs, skips, workers
from tests.simulation.model.answers import Answer, answers
from tests.simulation.model.rows import Fields
from tests.simulation.model.server import Transaction


def _each(columns: Sequence[Sequence[Any]], names: Sequence[str]) -> list[Fields]:
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


@answers(skips.SQL.insert)
async def insert_skips(tx: Transaction, *columns: Sequence[Any]) -> Answer:
    for row in _each(columns, skips.SkipRow._fields):
        tx.append("skips", row)
    return len(columns[0])


@answers(skips.SQL.over)
async def skips_over(tx: Transaction, job_id: UUID, instant: datetime) -> Answer:
    latest = [row for row in tx.rows("skips").values() if row["job_id"] == job_id][-200:]
    return [
        {"first": row["first"], "last": row["last"]} for row in latest[::-1] if row["first"] <= instant <= row["last"]
    ]


@answers(dead_letters.SQL.insert)
async def insert_dead_letters(tx: Transaction, *columns: Sequence[Any]) -> Answer:
    return sum(
        [await tx.insert("dead_letters", row["run_id"], row) for row in _each(columns, dead_letters.DeadLetter._fields)]
    )


@answers(dead_letters.SQL.count)
async def count_dead_letters(tx: Transaction) -> Answer:
    counts = Counter((row["tenant_id"], row["queue"]) for row in tx.rows("dead_letters").values())
    return [{"tenant_id": tenant, "queue": queue, "count": number} for (tenant, queue), number in counts.items()]


@answers(rollups.SQL.add)
async def add_rollups(tx: Transaction, *columns: Sequence[Any]) -> Answer:
    for row in _each(columns, rollups.RollupRow._fields):
        key = (row["minute"], row["tenant_id"], row["queue"], row["outcome"], row["shard"])
        before = await tx.hold("rollups", key)
        tx.put("rollups", key, {**row, "count": row["count"] + (before["count"] if before else 0)})
    return len(columns[0])


@answers(run_logs.SQL.insert)
async def insert_logs(tx: Transaction, *columns: Sequence[Any]) -> Answer:
    for row in _each(columns, run_logs.LogRow._fields):
        tx.append("run_logs", row)
    return len(columns[0])


@answers(workers.SQL.upsert)
async def upsert_workers(tx: Transaction, *columns: Sequence[Any]) -> Answer:
    for row in _each(columns, workers.WorkerRow._fields):
        await tx.hold("workers", row["id"])
        tx.put("workers", row["id"], row)
    return len(columns[0])


@answers(workers.SQL.remove)
async def remove_workers(tx: Transaction, names: Sequence[str]) -> Answer:
    rows = await tx.matching("workers", names, lambda r: True)
    for row in rows:
        tx.put("workers", row["id"], None)
    return len(rows)


@answers(audit.SQL.insert_entry)
async def insert_entry(
    tx: Transaction, tenant: str, actor: str, action: str, kind: str, object_id: str, *_: Any
) -> Answer:
    line = {"tenant_id": tenant, "actor": actor, "action": action, "object_type": kind, "object_id": object_id}
    tx.append("audit", line)
    return 1


@answers(past_schedules.SQL.end)
async def end_schedule(
    tx: Transaction, job_id: UUID, shard: int, since: datetime, key: str | None, until: datetime
) -> Answer:
    before = [row["valid_until"] for row in tx.rows("past_schedules").values() if row["job_id"] == job_id]
    span = {"job_id": job_id, "shard": shard, "valid_from": max(before, default=since), "valid_until": until}
    tx.append("past_schedules", {**span, "schedule_key": key})
    return 1


@answers(past_schedules.SQL.leave_open)
async def leave_open(tx: Transaction, *columns: Sequence[Any]) -> Answer:
    for job_id, shard, since, until in zip(*columns, strict=True):
        span = {"job_id": job_id, "shard": shard, "valid_from": since, "valid_until": until}
        tx.append("past_schedules", {**span, "schedule_key": None})
    return len(columns[0])
