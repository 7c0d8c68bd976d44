"""An edit: the new definition is stored, and what lies ahead follows it.

Runs whose nominal time has come keep the definition they were made with (rules E1, E4). A change of schedule, zone or bounds
plans anew from now, never backwards (E2); any other change leaves the next time alone (E3).
"""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta

import asyncpg

from horarium.domain import firing, ids, job, schedule
from horarium.domain.states import WAITING, JobStatus, Trigger
from horarium.services import arming, overdue
from horarium.services.holding import Held
from horarium.store import jobs, manual, past_schedules, runs, skips, timers

_MICROSECOND = timedelta(microseconds=1)
_SNAPSHOT = ("payload", "target", "retry", "timeout_s")


async def apply(
    connection: asyncpg.Connection, held: Held, spec: job.JobSpec, who: job.Actor, now: datetime
) -> tuple[job.Job, arming.Effects]:
    """Give a held job a new definition. Returns the job as it is now, and what leaders are to be told."""
    effects = arming.Effects(edited=[held.job.id])
    if any(getattr(held.job.spec, name) != getattr(spec, name) for name in _SNAPSHOT):
        await runs.snapshot(connection, held.job.id, now)
    edited = _edited(held.job, spec, who, now)
    settled = overdue.settle(held, now)
    await skips.insert(connection, settled.skips)
    effects.added += [arming.run_of(edited, tick) for tick in settled.ticks]
    if job.timing_changed(held.job.spec, spec):
        edited = await _retime(connection, held, edited, settled.next, now, effects)
    else:
        edited = await _keep_time(connection, held, edited, settled.next, now, effects)
    await jobs.update(connection, edited)
    await runs.insert(connection, effects.added)
    await timers.upsert(connection, effects.timers)
    return edited, effects.obeying(spec.overlap)


def _edited(old: job.Job, spec: job.JobSpec, who: job.Actor, now: datetime) -> job.Job:
    return dataclasses.replace(
        old, spec=spec, anchor_at=_anchor(old, spec, now), version=old.version + 1, updated_at=now, updated_by=who.name
    )


def _anchor(old: job.Job, spec: job.JobSpec, now: datetime) -> datetime:
    """An interval goes on counting from where it did, unless it, or the start it counts from, is changed (rule I2)."""
    if (spec.interval_s, spec.start_at) == (old.spec.interval_s, old.spec.start_at):
        return old.anchor_at
    return spec.start_at or now


async def _keep_time(
    connection: asyncpg.Connection,
    held: Held,
    edited: job.Job,
    pending: firing.Tick | None,
    now: datetime,
    effects: arming.Effects,
) -> job.Job:
    """The next occurrence stays (rule E3); only a changed jitter moves its due time."""
    await jobs.refresh_ticks_ahead(connection, edited, now)
    if pending is not None:
        planned = job.schedule_of(edited.spec, edited.anchor_at)
        if edited.spec.jitter_s != held.job.spec.jitter_s:
            pending = arming.tick_at(edited.id, planned, pending.scheduled_for)
        effects.timers.append(arming.timer_of(edited, pending))
    elif held.timer is not None:
        return await _end(connection, edited)
    return edited


async def _retime(
    connection: asyncpg.Connection,
    held: Held,
    edited: job.Job,
    pending: firing.Tick | None,
    now: datetime,
    effects: arming.Effects,
) -> job.Job:
    """Plan anew from now (rule E2)."""
    if edited.status is JobStatus.PAUSED:
        settled = None if edited.pause is None else edited.pause.settled_until
        handled = await jobs.handled_ahead(connection, edited.id, now)
        await past_schedules.end(connection, held.job, now, max(filter(None, (now, settled, handled))))
        return await _retime_paused(connection, held.job, edited, now)
    retracted = await runs.retract(connection, [edited.id], now)
    effects.removed += [tick.id for tick in retracted]
    await _judge_delayed(connection, held, edited, pending, now, effects)
    handled = await jobs.handled_ahead(connection, edited.id, now)
    await past_schedules.end(connection, held.job, now, handled)
    tick = await _first_tick(connection, held.job, edited, max(now, handled or now))
    if tick is None:
        return await _end(connection, edited)
    _arm(edited, tick, now, effects)
    if held.timer is not None and not effects.timers:
        await timers.delete(connection, [edited.id])
    return dataclasses.replace(edited, status=JobStatus.ACTIVE, status_reason=None)


async def _judge_delayed(
    connection: asyncpg.Connection,
    held: Held,
    edited: job.Job,
    pending: firing.Tick | None,
    now: datetime,
    effects: arming.Effects,
) -> None:
    """Occurrences between their nominal and their due time stay if the new schedule has them, too (rule J3)."""
    planned = job.schedule_of(edited.spec, edited.anchor_at)
    delayed = [
        run
        for run in await runs.of_job(connection, edited.id)
        if run["state"] == WAITING
        and run["trigger"] == Trigger.SCHEDULE
        and run["attempt"] == 0
        and run["scheduled_for"] <= now < run["ready_at"]
    ]
    lost = [run["id"] for run in delayed if not _has(planned, run["scheduled_for"])]
    dropped = await jobs.retract_ticks(connection, lost)
    effects.removed += lost
    if pending is not None and pending.scheduled_for <= now:
        if _has(planned, pending.scheduled_for):
            effects.added.append(arming.run_of(edited, pending))
        else:
            dropped.append(pending.scheduled_for)
    await skips.insert(connection, [overdue.single(edited, nominal, "edited") for nominal in sorted(dropped)])


def _has(planned: schedule.Schedule, nominal: datetime) -> bool:
    return schedule.next_fire(planned, nominal - _MICROSECOND) == nominal


async def _first_tick(
    connection: asyncpg.Connection, old: job.Job, edited: job.Job, after: datetime
) -> firing.Tick | None:
    """The first occurrence of the new schedule: later than now, and than ticks ahead that are claimed or cancelled.

    A one-off may have been given the very time of a tick that has ended or was skipped: that one is accounted for, and gets no
    second run (rule I1).
    """
    run_at = edited.spec.run_at
    if run_at is not None and run_at != old.spec.run_at:
        if await _is_accounted_for(connection, old, run_at):
            return None
        return arming.tick_at(edited.id, job.schedule_of(edited.spec, edited.anchor_at), run_at)
    return arming.next_tick(edited, after)


async def _is_accounted_for(connection: asyncpg.Connection, old: job.Job, nominal: datetime) -> bool:
    """Whether a tick has ended, or was written down as skipped. A stretch of skips tells of ticks that its schedule had."""
    run_id = ids.tick_run_id(old.id, old.shard, nominal)
    if await manual.final_state(connection, old.tenant_id, run_id) is not None:
        return True
    skipped = await skips.over(connection, old.id, nominal)
    return any(first == last for first, last in skipped) or (
        bool(skipped) and _has(job.schedule_of(old.spec, old.anchor_at), nominal)
    )


def _arm(edited: job.Job, tick: firing.Tick, now: datetime, effects: arming.Effects) -> None:
    """A timer for the occurrence; for a one-off that is due at once, its run."""
    if job.is_one_off(edited.spec) and tick.scheduled_for <= now + job.AT_ONCE:
        effects.added.append(arming.run_of(edited, tick))
    else:
        effects.timers.append(arming.timer_of(edited, tick))


async def _retime_paused(connection: asyncpg.Connection, old: job.Job, edited: job.Job, now: datetime) -> job.Job:
    """What fell into the pause so far is written down by the old schedule; the rest of the pause goes by the new one.

    Ticks ahead that the pause has accounted for stay so, unless the clock was set back by too much since (rule M4). The time of a
    one-off that has passed already is for the resume to make up for, unless it is accounted for.
    """
    pause, run_at = edited.pause, edited.spec.run_at
    if pause is None or (run_at is not None and run_at == old.spec.run_at):
        return edited
    planned = job.schedule_of(old.spec, old.anchor_at)
    fallen = overdue.stretch(edited, planned, pause.settled_until or pause.at, now, "paused")
    if fallen is not None:
        await skips.insert(connection, [fallen])
    retracted = pause.retracted
    if run_at is not None:
        is_missed = run_at <= now and not await _is_accounted_for(connection, old, run_at)
        retracted = (run_at,) if is_missed else ()
    settled = dataclasses.replace(pause, settled_until=pause.settled_ahead(now), retracted=retracted)
    return dataclasses.replace(edited, pause=settled)


async def _end(connection: asyncpg.Connection, edited: job.Job) -> job.Job:
    """There is no further occurrence: a recurring job is finished (rule B1); of a one-off that is not written."""
    await timers.delete(connection, [edited.id])
    if job.is_one_off(edited.spec):
        return edited
    return dataclasses.replace(edited, status=JobStatus.FINISHED)
