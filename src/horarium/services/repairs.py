"""What an audit found and may be mended without a person's judgement. Each repair looks again, under locks, before it writes.

What is mended is what the engine would have written: a timer is armed by the same code as after a change, and stands at the first
tick that is not accounted for, so that the job's misfire policy speaks about what is overdue.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import asyncpg

from horarium.domain import job, roles
from horarium.domain.faults import Fault, Kind
from horarium.domain.states import JobStatus, RunState
from horarium.services import arming, auditor, holding
from horarium.store import audit, auditing, runs, timers
from horarium.store.database import Database

ACTOR = "doctor"

_Repair = Callable[[asyncpg.Connection, Fault], Awaitable[str | None]]


def can(fault: Fault) -> bool:
    """Whether a fault is of a kind that may be mended without a person's judgement."""
    return fault.kind in _REPAIRS and fault.tenant_id is not None


async def repair(database: Database, fault: Fault) -> str | None:
    """Mend a fault and write that to the audit; returns what was done, None where nothing can or need be done."""
    mend = _REPAIRS.get(fault.kind)
    if mend is None or fault.tenant_id is None:
        return None
    who = job.Actor(fault.tenant_id, ACTOR, roles.Role.ADMIN)
    async with database.transaction() as connection:
        done = await mend(connection, fault)
        if done is not None:
            kind, object_id = ("run", fault.run_id) if fault.run_id is not None else ("job", fault.job_id)
            await audit.record(
                connection, who, "repair", kind, str(object_id), None, json.dumps({"fault": fault.kind, "done": done})
            )
    return done


async def _arm(connection: asyncpg.Connection, fault: Fault) -> str | None:
    if fault.tenant_id is None or fault.job_id is None:
        return None
    held = await holding.hold(connection, fault.tenant_id, fault.job_id)
    if held is None or held.timer is not None or held.job.status is not JobStatus.ACTIVE:
        return None
    planned = job.schedule_of(held.job.spec, held.job.anchor_at)
    first = auditor.first_owed(planned, await auditing.progress(connection, held.job.id), held.job.created_at)
    if first is None:
        return None
    await timers.upsert(connection, [arming.timer_of(held.job, arming.tick_at(held.job.id, planned, first))])
    return f"armed it for {first.isoformat()}"


async def _drop_timer(connection: asyncpg.Connection, fault: Fault) -> str | None:
    if fault.job_id is None or not await auditing.drop_timer(connection, fault.job_id):
        return None
    return "took its timer away"


async def _end_run(connection: asyncpg.Connection, fault: Fault) -> str | None:
    if fault.run_id is None:
        return None
    ended = await runs.end_waiting(connection, [fault.run_id], RunState.CANCELLED, "its job is gone")
    return "ended it as cancelled" if ended else None


async def _drop_live(connection: asyncpg.Connection, fault: Fault) -> str | None:
    if fault.run_id is None or not await auditing.drop_live(connection, fault.run_id):
        return None
    return "took the live row away"


_REPAIRS: dict[Kind, _Repair] = {
    Kind.MISSING_TIMER: _arm,
    Kind.STRAY_TIMER: _drop_timer,
    Kind.RUN_WITHOUT_JOB: _end_run,
    Kind.LIVE_AND_ENDED: _drop_live,
}
