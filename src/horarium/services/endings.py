"""How attempts ended, and what is written of them: from a report and its row to the effects of a commit."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from horarium.domain import outcome as outcomes
from horarium.domain import retry
from horarium.domain.outcome import Outcome
from horarium.domain.states import RunState
from horarium.events import Name
from horarium.store import dead_letters, runs

KEPT_FAILURES = 50


class Report(NamedTuple):
    """How one attempt ended. `result`, `error` and `progress` are JSON texts; `error` has `class`, `message`, `traceback`.

    `by_leader`: the leader's own finding, which counts only while it leads the shard.
    """

    run_id: UUID
    token: int
    outcome: Outcome
    result: str | None = None
    error: dict[str, Any] | None = None
    retry_in: timedelta | None = None
    progress: str | None = None
    by_leader: bool = False

    @property
    def held(self) -> runs.Held:
        """The attempt that it is about."""
        return runs.Held(self.run_id, self.token)


class Plain(NamedTuple):
    """Attempts that succeeded and gave nothing back, as columns: most reports, so no object is made of each."""

    ids: list[UUID]
    tokens: list[int]


NOTHING_PLAIN = Plain([], [])


class Taken(NamedTuple):
    """Which reports counted, and which came too late."""

    accepted: list[UUID]
    lost: list[UUID]


@dataclass(slots=True)
class Effects:
    """What a decided batch writes, and what memory and listeners are told after the commit."""

    waiting: list[runs.WaitAgain] = field(default_factory=list)
    finished: list[runs.Finish] = field(default_factory=list)
    letters: list[dead_letters.DeadLetter] = field(default_factory=list)
    at_front: set[UUID] = field(default_factory=set)
    told: dict[UUID, Name] = field(default_factory=dict)


def decide(report: Report, row: asyncpg.Record, now: datetime, effects: Effects) -> None:
    """Turn one ended attempt into what is written of it."""
    failures: list[dict[str, Any]] = json.loads(row["failures"] or "[]")
    ended = outcomes.Attempt(
        row["attempt"],
        row["snoozes"],
        row["scheduled_for"],
        retry.from_json(json.loads(row["retry"])),
        row["cancel_requested_by"] is not None,
        any(failure["outcome"] == Outcome.LOST for failure in failures),
    )
    spread = random.uniform(-1, 1)  # noqa: S311 - spreads retries, no secret
    decision = outcomes.decide(ended, report.outcome, report.retry_in, now, spread)
    error = _error_of(report, decision.reason)
    if decision.is_failure:
        failures.append(_failure(row, report, error, now))
    kept = json.dumps(failures[-KEPT_FAILURES:]) if failures else None
    run_id = row["id"]
    if decision.final is None:
        assert decision.ready_at is not None  # noqa: S101 - a decision is either final or says when to go on
        effects.waiting.append(
            runs.WaitAgain(
                run_id, report.token, decision.ready_at, decision.attempt, decision.snoozes, kept, report.by_leader
            )
        )
        if decision.at_front:
            effects.at_front.add(run_id)
        effects.told[run_id] = Name.RUNS_RETRIED if decision.is_failure else Name.RUNS_INTERRUPTED
        return
    message = _ending(decision.final, row, error)
    effects.finished.append(
        runs.Finish(
            run_id, report.token, decision.final, message, kept, report.progress, decision.attempt, report.by_leader
        )
    )
    effects.told[run_id] = Name.RUNS_CANCELLED
    if decision.final is RunState.DEAD:
        effects.told[run_id] = Name.RUNS_DEAD
        mark = outcomes.fingerprint(row["target_key"], error["class"], error["message"])
        effects.letters.append(
            dead_letters.DeadLetter(
                run_id, row["job_id"], row["tenant_id"], row["queue"], row["shard"], mark, message, decision.attempt
            )
        )


def _ending(final: RunState, row: asyncpg.Record, error: dict[str, Any]) -> str:
    if final is RunState.CANCELLED:
        return f"cancelled by {row['cancel_requested_by'] or 'the operator'}"
    return f"{error['class']}: {error['message']}"[:2000]


def _error_of(report: Report, reason: str) -> dict[str, Any]:
    """The error of an attempt, in words that PostgreSQL can keep."""
    usual = {
        Outcome.LOST: ("WorkerLost", "the worker sent no heartbeat within the lease"),
        Outcome.TIMEOUT: ("TimeoutError", "the attempt took longer than its timeout"),
        Outcome.SNOOZE: ("SnoozeLimit", reason),
        Outcome.CANCELLED: ("Cancelled", "the run was cancelled"),
    }
    name, message = usual.get(report.outcome, ("Error", reason or "no reason was given"))
    given = report.error or {}
    traceback = given.get("traceback")
    return {
        "class": clean(str(given.get("class") or name))[:200],
        "message": clean(str(given.get("message") or message))[:4000],
        "traceback": clean(str(traceback))[:8192] if traceback else None,
    }


def _failure(row: asyncpg.Record, report: Report, error: dict[str, Any], now: datetime) -> dict[str, Any]:
    started = row["started_at"]
    outcome = Outcome.FAILED if report.outcome in (Outcome.DISCARD, Outcome.SNOOZE) else report.outcome
    return {
        "attempt": row["attempt"],
        "worker_id": row["worker_id"],
        "started_at": started.isoformat() if started else None,
        "ended_at": now.isoformat(),
        "outcome": str(outcome),
        "error": error,
    }


def clean(text: str) -> str:
    """Text without NUL and lone surrogates, which PostgreSQL cannot keep (rule N4)."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
