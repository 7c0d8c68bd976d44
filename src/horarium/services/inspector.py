"""Read models: runs, logs, queues, workers and dead letters as people see them.

Rows come from `store.inspect`; what only memory knows (the depth of queues, the progress of running runs) comes from
the node's `views.LiveView`, where there is one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from horarium import errors
from horarium.domain import job, retry, states
from horarium.services import views
from horarium.store import audit, inspect, jobs
from horarium.store.database import Database

LIST_TIME = timedelta(seconds=2)
LOGS_SHOWN = 1000

_MOST_COUNTED = 100_000
_WORKERS_SHOWN = timedelta(hours=1)
_WORKER_SILENT_S = 30.0


@dataclass(slots=True)
class _Serving:
    workers: int = 0
    slots: int = 0


@dataclass(slots=True)
class _Counted:
    states: list[views.QueueState] = field(default_factory=list)
    exact: bool = True


@dataclass(slots=True)
class Depths:
    """What one database tells of a tenant's queues: depths, queues of the last day, and rows of workers."""

    states: Sequence[views.QueueState]
    exact: bool
    recent: Sequence[str]
    workers: Sequence[asyncpg.Record]


class Inspector:
    """Answers questions about runs, queues, workers and dead letters of the actor's tenant."""

    def __init__(self, database: Database, live: views.LiveView | None = None) -> None:
        self._database = database
        self._live = live

    async def runs(
        self, who: job.Actor, wanted: inspect.RunFilter, before: UUID | None, limit: int
    ) -> list[views.RunSummary]:
        """Runs by id, newest first: live and finished ones together."""
        live, final = _where(wanted.state)
        async with self._list() as connection:
            rows = await inspect.runs(
                connection, who.tenant_id, wanted, live=live, final=final, before=before, limit=limit
            )
        return [views.RunSummary(**_summary(row, who.tenant_id)) for row in rows]

    async def run(self, who: job.Actor, run_id: UUID) -> views.RunDetail:
        """One run with its attempts and its last 1,000 log lines. NotFoundError when the tenant has none of this id."""
        async with self._database.connection() as connection:
            row = await inspect.run(connection, who.tenant_id, run_id)
            if row is None:
                raise _no_run(run_id)
            lines = await inspect.latest_logs(connection, run_id, LOGS_SHOWN)
        return views.RunDetail(
            **_summary(row, who.tenant_id),
            payload=_raw(row["payload"]),
            result=_raw(row["result"]),
            progress=await self._progress(row),
            cancel_requested_at=row["cancel_requested_at"],
            cancel_requested_by=row["cancel_requested_by"],
            attempts=attempts_of(row),
            logs=[_log_line(line) for line in lines],
        )

    async def state(self, who: job.Actor, run_id: UUID) -> str:
        """The state of a run. NotFoundError when the tenant has none of this id."""
        async with self._database.connection() as connection:
            row = await inspect.run(connection, who.tenant_id, run_id)
        if row is None:
            raise _no_run(run_id)
        state: str = row["state"]
        return state

    async def logs(self, run_id: UUID, after: inspect.LogPosition, limit: int) -> list[views.LogLine]:
        """Log lines of a run after a position; whether the actor may see the run is asked with `state` before."""
        async with self._database.connection() as connection:
            return [_log_line(line) for line in await inspect.logs(connection, run_id, after, limit)]

    async def job_id(self, who: job.Actor, ref: UUID | str) -> UUID:
        """The id of the job that a reference means: an id (deleted jobs too) or the name that it bears now."""
        async with self._database.connection() as connection:
            if isinstance(ref, UUID):
                found = await inspect.job_of_id(connection, who.tenant_id, ref)
            else:
                found = await jobs.id_of_name(connection, who.tenant_id, ref)
        if found is None:
            raise errors.NotFoundError(
                f"there is no job {ref}" if isinstance(ref, UUID) else f"no job is named {ref!r}"
            )
        return found

    async def queues(self, who: job.Actor) -> list[views.Queue]:
        """The queues that have live runs, workers, or had runs in the last day, by name."""
        return queues_of([await self.depths(who)])

    async def depths(self, who: job.Actor) -> Depths:
        """What this database tells of queues."""
        async with self._list() as connection:
            counted = await self._counted(connection, who.tenant_id)
            recent = await inspect.recent_queues(connection, who.tenant_id)
            workers = await inspect.workers(
                connection, who.tenant_id, timedelta(seconds=_WORKER_SILENT_S), None, 10_000
            )
        return Depths(counted.states, counted.exact, recent, workers)

    async def workers(self, who: job.Actor, after: str | None, limit: int) -> list[views.Worker]:
        """The workers that were heard of in the last hour, by id."""
        async with self._list() as connection:
            rows = await inspect.workers(connection, who.tenant_id, _WORKERS_SHOWN, after, limit)
        return [_worker(row) for row in rows]

    async def dead_letters(
        self, who: job.Actor, wanted: inspect.DeadFilter, before: UUID | None, limit: int
    ) -> list[views.DeadLetter]:
        """Dead letters, the newest run first."""
        async with self._list() as connection:
            rows = await inspect.dead_letters(connection, who.tenant_id, wanted, before, limit)
        return [views.DeadLetter(**row) for row in rows]

    async def dead_letter_groups(
        self, who: job.Actor, wanted: inspect.DeadFilter, limit: int
    ) -> list[views.DeadLetterGroup]:
        """Dead letters by error and job, the largest group first."""
        async with self._list() as connection:
            rows = await inspect.dead_letter_groups(connection, who.tenant_id, wanted, limit)
        return [views.DeadLetterGroup(**row) for row in rows]

    async def audit(
        self, who: job.Actor, wanted: audit.Filter, before: Sequence[int], limit: int
    ) -> Sequence[audit.Entry]:
        """What was changed in the actor's tenant, newest first, below an id; `before` is empty at first."""
        async with self._list() as connection:
            return await audit.page(connection, who.tenant_id, wanted, before[0] if before else None, limit)

    @asynccontextmanager
    async def _list(self) -> AsyncIterator[asyncpg.Connection]:
        try:
            async with inspect.bounded(self._database, LIST_TIME) as connection:
                yield connection
        except inspect.TooSlowError:
            detail = f"this list would take longer than {LIST_TIME.total_seconds():g} s: narrow the filter"
            raise errors.TooBroadError(detail) from None

    async def _counted(self, connection: asyncpg.Connection, tenant_id: str) -> _Counted:
        if self._live is not None:
            live = await self._live.queues()
            return _Counted([state for state in live.states if state.tenant_id == tenant_id], live.exact)
        rows = await inspect.count_queues(connection, tenant_id, _MOST_COUNTED)
        looked_at = sum(row["scheduled"] + row["queued"] + row["running"] for row in rows)
        found = [
            views.QueueState(
                row["queue"], tenant_id, row["scheduled"], row["queued"], row["running"], row["oldest_due_s"]
            )
            for row in rows
        ]
        return _Counted(found, exact=looked_at < _MOST_COUNTED)

    async def _progress(self, row: asyncpg.Record) -> msgspec.Raw | None:
        if row["state"] == states.RunState.RUNNING and self._live is not None:
            return _raw(await self._live.progress(row["id"]))
        return _raw(row["progress"])


def queues_of(depths: Sequence[Depths]) -> list[views.Queue]:
    """The queues of a tenant, by name, from what each database tells. A worker may be known to several."""
    by_name: dict[str, views.QueueState] = {}
    for state in (state for each in depths for state in each.states):
        by_name[state.name] = _sum(by_name[state.name], state) if state.name in by_name else state
    serving = _serving({row["id"]: row for each in depths for row in each.workers}.values())
    exact = all(each.exact for each in depths)
    names = sorted({*by_name, *serving, *(name for each in depths for name in each.recent)})
    return [
        _queue(by_name.get(name, views.QueueState(name, "")), serving.get(name, _Serving()), exact) for name in names
    ]


def _sum(one: views.QueueState, other: views.QueueState) -> views.QueueState:
    waits = [each.oldest_due_s for each in (one, other) if each.oldest_due_s is not None]
    return views.QueueState(
        one.name,
        one.tenant_id,
        one.scheduled + other.scheduled,
        one.queued + other.queued,
        one.running + other.running,
        max(waits, default=None),
    )


def attempts_of(row: asyncpg.Record) -> list[views.Attempt]:
    """The attempts of a run: those that failed, as they were kept, and the one that goes on or ended well."""
    kept: list[dict[str, Any]] = msgspec.json.decode(row["failures"]) if row["failures"] else []
    attempts = [
        views.Attempt(
            attempt=failure.get("attempt", 0),
            worker_id=failure.get("worker_id"),
            started_at=_instant(failure.get("started_at")),
            ended_at=_instant(failure.get("ended_at")),
            outcome=failure.get("outcome"),
            error=failure.get("error"),
        )
        for failure in kept
    ]
    if row["started_at"] is not None and all(attempt.attempt != row["attempt"] for attempt in attempts):
        attempts.append(_latest_attempt(row))
    return attempts


def _latest_attempt(row: asyncpg.Record) -> views.Attempt:
    goes_on = row["state"] == states.RunState.RUNNING
    return views.Attempt(
        attempt=row["attempt"],
        worker_id=row["worker_id"],
        started_at=row["started_at"],
        ended_at=row["finished_at"],
        outcome=None if goes_on else row["state"],
        error=None,
    )


def _where(state: str | None) -> tuple[bool, bool]:
    """Whether runs in this state are among the live rows, and whether in history."""
    if state is None:
        return True, True
    return state in states.LIVE_STATES, state in states.FINAL_STATES


def _summary(row: asyncpg.Record, tenant_id: str) -> dict[str, Any]:
    return {
        "id": row["id"],
        "job_id": row["job_id"],
        "job_name": row["job_name"],
        "state": row["state"],
        "trigger": row["trigger"],
        "queue": row["queue"],
        "priority": row["priority"],
        "tenant": tenant_id,
        "scheduled_for": row["scheduled_for"],
        "due_at": row["ready_at"],
        "started_at": row["started_at"],
        "finished_at": row["finished_at"],
        "attempt": row["attempt"],
        "max_attempts": row["max_attempts"] or retry.DEFAULT.max_attempts,
        "worker_id": row["worker_id"],
        "fencing_token": row["fencing_token"],
        "timeout_s": row["timeout_s"],
        "rerun_of": row["rerun_of"],
        "error": row["error"],
    }


def _log_line(row: asyncpg.Record) -> views.LogLine:
    return views.LogLine(row["at"], row["attempt"], row["seq"], row["level"], row["message"], _raw(row["fields"]))


def _worker(row: asyncpg.Record) -> views.Worker:
    return views.Worker(
        id=row["id"],
        state="silent" if row["silent_s"] > _WORKER_SILENT_S else "alive",
        node_id=row["node_id"],
        version=row["version"],
        host=row["host"],
        pid=row["pid"],
        queues=msgspec.Raw(row["queues"].encode()),
        handlers=_raw(row["handlers"]),
        slots=row["slots"],
        running=row["running"],
        started_at=row["started_at"],
        last_seen_at=row["last_seen_at"],
    )


def _queue(state: views.QueueState, serving: _Serving, exact: bool) -> views.Queue:
    return views.Queue(
        name=state.name,
        paused=False,
        waiting=state.scheduled + state.queued,
        scheduled=state.scheduled,
        queued=state.queued,
        running=state.running,
        oldest_due_s=state.oldest_due_s,
        workers=serving.workers,
        slots=serving.slots,
        exact=exact,
    )


def _serving(workers: Iterable[asyncpg.Record]) -> dict[str, _Serving]:
    """How many workers and slots serve each queue; a worker of several queues counts in each."""
    found: dict[str, _Serving] = {}
    for row in workers:
        for queue in msgspec.json.decode(row["queues"]):
            entry = found.setdefault(queue["name"] if isinstance(queue, dict) else queue, _Serving())
            entry.workers += 1
            entry.slots += row["slots"]
    return found


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())


def _no_run(run_id: UUID) -> errors.NotFoundError:
    return errors.NotFoundError(f"there is no run {run_id}")
