"""Delete: nothing of the job starts any more, what is running goes on, its name is free again, its history stays."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta

import asyncpg

from horarium.domain import job
from horarium.domain.states import WAITING, JobStatus, RunState
from horarium.services import arming, catching_up, overdue
from horarium.services.holding import Held
from horarium.store import jobs, runs, skips, timers
from horarium.store.skips import SkipRow

_MICROSECOND = timedelta(microseconds=1)


async def delete(
    connection: asyncpg.Connection, held: Held, who: job.Actor, now: datetime
) -> tuple[job.Job, arming.Effects]:
    """Delete a held job: ticks ahead are taken back, waiting runs end as cancelled, missed ticks are written down."""
    reason = f"deleted by {who.name}"
    ahead = await runs.retract(connection, [held.job.id], now)
    waiting = [run["id"] for run in await runs.of_job(connection, held.job.id) if run["state"] == WAITING]
    ended = await runs.end_waiting(connection, waiting, RunState.CANCELLED, reason)
    await skips.insert(connection, _missed(held, now))
    await timers.delete(connection, [held.job.id])
    if held.job.spec.name is not None:
        await jobs.free_name(connection, held.job.tenant_id, held.job.spec.name, held.job.id)
    await jobs.mark_deleted(connection, held.job.id, reason, now, who.name)
    deleted = dataclasses.replace(
        held.job,
        status=JobStatus.CANCELLED,
        status_reason=reason,
        pause=None,
        deleted_at=now,
        version=held.job.version + 1,
        updated_at=now,
        updated_by=who.name,
    )
    return deleted, arming.Effects(removed=[*(tick.id for tick in ahead), *(run.id for run in ended)])


def _missed(held: Held, now: datetime) -> list[SkipRow]:
    """Lines about nominal times that have come and became no run: overdue ones, and those of a pause (rule E4)."""
    lines = [catching_up.fallen(held.job, now)]
    if catching_up.passed_in_pause(held.job, now) and held.job.spec.run_at is not None:
        lines.append(overdue.single(held.job, held.job.spec.run_at, "paused"))
    if held.timer is not None and held.timer.scheduled_for <= now:
        planned = job.schedule_of(held.job.spec, held.job.anchor_at)
        lines.append(overdue.stretch(held.job, planned, held.timer.scheduled_for - _MICROSECOND, now, "deleted"))
    return [line for line in lines if line is not None]
