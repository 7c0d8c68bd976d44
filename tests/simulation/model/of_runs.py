"""The statements of `runs.sql` and `manual.sql`: each transition of a run, on the model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from horarium.store import manual, runs
from tests.simulation.model.answers import Answer, answers
from tests.simulation.model.rows import KEPT_IN_HISTORY, NEW_RUN, Fields, only
from tests.simulation.model.server import Transaction

SQL = runs.SQL
_INSERTED = runs.RunRow._fields


@answers(SQL.insert)
@answers(SQL.insert_with_snapshot)
async def insert(tx: Transaction, *columns: Sequence[Any]) -> Answer:
    names = _INSERTED[: len(columns)]
    made = 0
    for values in zip(*columns, strict=True):
        row = {**NEW_RUN, **dict(zip(names, values, strict=True))}
        made += await tx.insert("runs", row["id"], row)
    return made


@answers(SQL.claim)
async def claim(
    tx: Transaction,
    ids: Sequence[UUID],
    named: str | None,
    usual: str,
    lease: timedelta,
    shards: Sequence[int],
    terms: Sequence[int],
) -> Answer:
    led = tx.led(shards, terms)
    others = json.loads(named) if named else {}
    jobs = tx.rows("jobs")
    claimed = []
    for row in await tx.matching("runs", ids, lambda r: r["state"] == "waiting" and r["shard"] in led):
        running = {
            **row,
            "state": "running",
            "attempt": row["attempt"] + 1,
            "fencing_token": tx.server.next_token(),
            "worker_id": others.get(str(row["id"]), usual),
            "started_at": max(tx.now, row["ready_at"]),
            "lease_expires_at": tx.now + lease,
        }
        tx.put("runs", row["id"], running)
        if (job := jobs.get(row["job_id"])) is not None:
            claimed.append(_claimed(running, job))
    return claimed


def _claimed(run: Fields, job: Fields) -> Fields:
    return {
        "id": run["id"],
        "fencing_token": run["fencing_token"],
        "attempt": run["attempt"],
        "timeout_s": _own(run["timeout_s"], job["timeout_s"]),
        "scheduled_for": run["scheduled_for"],
        "trigger": run["trigger"],
        "name": job["name"],
        "target": _own(run["target"], job["target"]),
        "payload": _own(run["payload"], job["payload"]),
    }


def _own(value: Any, usual: Any) -> Any:
    return usual if value is None else value


def _end(tx: Transaction, run: Fields, **members: Any) -> None:
    """Out of the live rows, into history."""
    tx.put("runs", run["id"], None)
    ended = {**only(run, *KEPT_IN_HISTORY), "finished_at": tx.now, "result": None, "error": None, "progress": None}
    tx.append("history", {**ended, **members})


async def _running_under(tx: Transaction, ids: Iterable[UUID], tokens: Iterable[int]) -> list[Fields]:
    allowed = set(tokens)
    return await tx.matching("runs", ids, lambda r: r["fencing_token"] in allowed and r["state"] == "running")


@answers(SQL.succeed)
async def succeed(
    tx: Transaction, ids: Sequence[UUID], tokens: Sequence[int], results: Sequence[Any], progress: Sequence[Any]
) -> Answer:
    said = {token: (result, told) for token, result, told in zip(tokens, results, progress, strict=True)}
    done = await _running_under(tx, ids, tokens)
    for row in done:
        result, told = said[row["fencing_token"]]
        _end(tx, row, state="succeeded", result=result, progress=told)
    return [only(row, "id", "fencing_token") for row in done]


@answers(SQL.succeed_plain)
async def succeed_plain(tx: Transaction, ids: Sequence[UUID], tokens: Sequence[int]) -> Answer:
    done = await _running_under(tx, ids, tokens)
    for row in done:
        _end(tx, row, state="succeeded")
    return len(done)


@answers(SQL.ended_under)
async def ended_under(tx: Transaction, ids: Sequence[UUID], tokens: Sequence[int]) -> Answer:
    allowed = set(tokens)
    ended = [row for run_id in dict.fromkeys(ids) for row in tx.server.ended.get(run_id, ())]
    return [only(row, "id", "fencing_token") for row in ended if row["fencing_token"] in allowed]


_HELD = (
    "id", "job_id", "shard", "tenant_id", "queue", "target_key", "scheduled_for", "ready_at", "started_at", "attempt", "snoozes",
    "fencing_token", "worker_id", "failures", "cancel_requested_by", "trigger", "priority",
)  # fmt: skip


@answers(SQL.lock_held)
async def lock_held(
    tx: Transaction,
    ids: Sequence[UUID],
    tokens: Sequence[int],
    by_leader: Sequence[bool],
    shards: Sequence[int],
    terms: Sequence[int],
) -> Answer:
    led = tx.led(shards, terms)
    jobs = tx.rows("jobs")
    held = []
    for run_id, token, leaders in sorted(zip(ids, tokens, by_leader, strict=True)):
        rows = await tx.matching(
            "runs",
            [run_id],
            lambda r, token=token, leaders=leaders: (
                r["fencing_token"] == token and r["state"] == "running" and (not leaders or r["shard"] in led)
            ),
        )
        held += [{**only(row, *_HELD), **_policy(row, jobs.get(row["job_id"]))} for row in rows]
    return held


def _policy(run: Fields, job: Fields | None) -> Fields:
    usual = job or {"retry": None, "timeout_s": None}
    return {
        "retry": _own(run["retry"], _own(usual["retry"], "{}")),
        "timeout_s": _own(run["timeout_s"], usual["timeout_s"]),
    }


@answers(SQL.wait_again)
async def wait_again(tx: Transaction, *columns: Sequence[Any]) -> Answer:
    wanted = {row.id: row for row in map(runs.WaitAgain, *columns)}
    rows = await tx.matching(
        "runs", wanted, lambda r: r["state"] == "running" and r["fencing_token"] == wanted[r["id"]].token
    )
    for row in rows:
        again = wanted[row["id"]]
        token = tx.server.next_token() if again.by_leader else row["fencing_token"]
        waiting = {
            "fencing_token": token,
            "state": "waiting",
            "ready_at": again.ready_at,
            "attempt": again.attempt,
            "snoozes": again.snoozes,
            "failures": again.failures,
            "started_at": None,
            "lease_expires_at": None,
            "worker_id": None,
        }
        tx.put("runs", row["id"], {**row, **waiting})
    return [only(row, "id") for row in rows]


@answers(SQL.finish)
async def finish(tx: Transaction, *columns: Sequence[Any]) -> Answer:
    wanted = {row.id: row for row in map(runs.Finish, *columns)}
    tokens = {row.token for row in wanted.values()}
    rows = await tx.matching("runs", wanted, lambda r: r["fencing_token"] in tokens)
    for row in rows:
        end = wanted[row["id"]]
        token = tx.server.next_token() if end.by_leader else row["fencing_token"]
        _end(
            tx, row, fencing_token=token, attempt=end.attempt, state=end.final, failures=end.failures, error=end.error,
            progress=end.progress,
        )  # fmt: skip
    return [only(row, "id") for row in rows]


@answers(SQL.already_reported)
async def already_reported(tx: Transaction, ids: Sequence[UUID], tokens: Sequence[int]) -> Answer:
    live = tx.rows("runs")
    found = []
    for run_id, token in zip(ids, tokens, strict=True):
        row = live.get(run_id)
        waits = row is not None and row["fencing_token"] == token and row["state"] == "waiting" and token > 0
        if waits or any(each["fencing_token"] == token for each in tx.server.ended.get(run_id, ())):
            found.append({"id": run_id, "token": token})
    return found


@answers(SQL.end_waiting)
async def end_waiting(tx: Transaction, ids: Sequence[UUID], finals: Sequence[str], reasons: Sequence[str]) -> Answer:
    said = {run_id: (final, reason) for run_id, final, reason in zip(ids, finals, reasons, strict=True)}
    rows = await tx.matching("runs", ids, lambda r: r["state"] == "waiting")
    for row in rows:
        final, reason = said[row["id"]]
        _end(tx, row, state=final, error=reason, started_at=None, worker_id=None)
    return [only(row, "id", "job_id", "tenant_id", "shard", "scheduled_for", "queue") for row in rows]


def _is_untouched_tick(row: Fields) -> bool:
    return row["state"] == "waiting" and row["trigger"] == "schedule" and row["attempt"] == 0


_RETRACTED = runs.Retracted._fields


@answers(SQL.retract)
async def retract(tx: Transaction, job_ids: Sequence[UUID], after: datetime | None) -> Answer:
    jobs = set(job_ids)
    rows = await tx.matching(
        "runs",
        None,
        lambda r: (
            r["job_id"] in jobs
            and _is_untouched_tick(r)
            and r["fencing_token"] == 0
            and (after is None or r["scheduled_for"] > after)
        ),
    )
    for row in rows:
        tx.put("runs", row["id"], None)
    return [only(row, *_RETRACTED) for row in rows]


@answers(SQL.drop_waiting)
async def drop_waiting(tx: Transaction, ids: Sequence[UUID], shards: Sequence[int], terms: Sequence[int]) -> Answer:
    led = tx.led(shards, terms)
    rows = await tx.matching("runs", ids, lambda r: r["state"] == "waiting" and r["shard"] in led)
    for row in rows:
        tx.put("runs", row["id"], None)
    return [only(row, *_RETRACTED) for row in rows]


@answers(SQL.of_job)
async def of_job(tx: Transaction, job_id: UUID) -> Answer:
    rows = (row for row in tx.rows("runs").values() if row["job_id"] == job_id)
    return sorted(rows, key=lambda row: row["id"])


@answers(SQL.snapshot)
async def snapshot(tx: Transaction, job_id: UUID, until: datetime) -> Answer:
    job = tx.get("jobs", job_id)
    if job is None:
        return 0
    rows = await tx.matching(
        "runs",
        None,
        lambda r: (
            r["job_id"] == job_id and (r["scheduled_for"] <= until or r["attempt"] > 0 or r["trigger"] != "schedule")
        ),
    )
    for row in rows:
        kept = {name: _own(row[name], job[name]) for name in ("payload", "target", "retry", "timeout_s")}
        tx.put("runs", row["id"], {**row, **kept})
    return len(rows)


@answers(SQL.request_cancel)
async def request_cancel(tx: Transaction, ids: Sequence[UUID], by: str) -> Answer:
    rows = await tx.matching("runs", ids, lambda r: r["state"] == "running")
    for row in rows:
        asked = {
            "cancel_requested_at": _own(row["cancel_requested_at"], tx.now),
            "cancel_requested_by": _own(row["cancel_requested_by"], by),
        }
        tx.put("runs", row["id"], {**row, **asked})
    return [only(row, "id") for row in rows]


def _loaded(tx: Transaction, row: Fields) -> Fields:
    job = tx.get("jobs", row["job_id"]) or {"timeout_s": None, "overlap": None}
    columns = only(
        row, "id", "job_id", "shard", "tenant_id", "queue", "target_key", "priority", "ready_at", "state", "attempt",
        "fencing_token", "worker_id", "started_at", "trigger", "cancel_requested_at",
    )  # fmt: skip
    timeout_s = _own(row["timeout_s"], _own(job["timeout_s"], 300))
    return {**columns, "timeout_s": timeout_s, "overlap": _own(job["overlap"], "allow")}


@answers(SQL.load)
async def load(
    tx: Transaction, shards: Sequence[int], after: UUID, limit: int, queues: Sequence[str], tenants: Sequence[str]
) -> Answer:
    wanted, crowded = set(shards), set(zip(queues, tenants, strict=True))
    rows = (
        row
        for row in tx.rows("runs").values()
        if row["shard"] in wanted
        and row["id"] > after
        and not (row["state"] == "waiting" and (row["queue"], row["tenant_id"]) in crowded)
    )
    return [_loaded(tx, row) for row in sorted(rows, key=lambda row: row["id"])[:limit]]


@answers(SQL.load_begun)
async def load_begun(tx: Transaction, shards: Sequence[int]) -> Answer:
    rows = (row for row in tx.rows("runs").values() if row["shard"] in shards)
    return [_loaded(tx, row) for row in rows if row["state"] == "running" or row["fencing_token"]]


@answers(SQL.load_of_job)
async def load_of_job(tx: Transaction, job_id: UUID) -> Answer:
    return [_loaded(tx, row) for row in tx.rows("runs").values() if row["job_id"] == job_id]


@answers(SQL.load_by_id)
async def load_by_id(tx: Transaction, ids: Sequence[UUID]) -> Answer:
    rows = (tx.get("runs", run_id) for run_id in dict.fromkeys(ids))
    return [_loaded(tx, row) for row in rows if row is not None]


@answers(SQL.refresh_leases)
async def refresh_leases(tx: Transaction, ids: Sequence[UUID], tokens: Sequence[int], lease: timedelta) -> Answer:
    rows = await _running_under(tx, ids, tokens)
    for row in rows:
        tx.put("runs", row["id"], {**row, "lease_expires_at": tx.now + lease})
    return len(rows)


@answers(SQL.of_others)
async def of_others(tx: Transaction, ids: Sequence[UUID], tenant_id: str) -> Answer:
    rows = (tx.get("runs", run_id) for run_id in dict.fromkeys(ids))
    return [only(row, "id") for row in rows if row is not None and row["tenant_id"] != tenant_id]


@answers(manual.SQL.find_finished)
async def find_finished(tx: Transaction, run_id: UUID, tenant_id: str, earliest: datetime) -> Answer:
    return [only(row, *manual.Finished._fields) for row in _latest_end(tx, run_id, tenant_id, earliest)]


@answers(manual.SQL.state_of_finished)
async def state_of_finished(tx: Transaction, run_id: UUID, tenant_id: str, earliest: datetime) -> Answer:
    return [only(row, "state") for row in _latest_end(tx, run_id, tenant_id, earliest)]


def _latest_end(tx: Transaction, run_id: UUID, tenant_id: str, earliest: datetime) -> list[Fields]:
    rows = [
        row
        for row in tx.server.ended.get(run_id, ())
        if row["tenant_id"] == tenant_id and row["finished_at"] >= earliest
    ]
    return sorted(rows, key=lambda row: row["finished_at"])[-1:]


@answers(manual.SQL.find_live)
async def find_live(tx: Transaction, run_id: UUID, tenant_id: str) -> Answer:
    row = tx.get("runs", run_id)
    return [only(row, "state")] if row is not None and row["tenant_id"] == tenant_id else []


@answers(manual.SQL.lock_live)
async def lock_live(tx: Transaction, run_id: UUID, tenant_id: str) -> Answer:
    rows = await tx.matching("runs", [run_id], lambda r: r["tenant_id"] == tenant_id)
    return [only(row, "id", "job_id", "state") for row in rows]


@answers(manual.SQL.close_dead_letter)
async def close_dead_letter(tx: Transaction, run_id: UUID) -> Answer:
    rows = await tx.matching("dead_letters", [run_id], lambda r: True)
    for row in rows:
        tx.put("dead_letters", row["run_id"], None)
    return len(rows)
