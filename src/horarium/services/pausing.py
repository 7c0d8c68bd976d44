"""Pause and resume (rules P1 to P4): a pause stops what has not started; a resume goes on from now.

Ticks that a pause stops are written down as skipped, with the pause as the reason, so that each nominal time is accounted
for at any moment; a resume that is asked to catch up takes that line back and runs what it was asked to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import asyncpg

from horarium import errors
from horarium.domain import firing, job, schedule
from horarium.domain.states import JobStatus
from horarium.services import arming, catching_up, overdue
from horarium.services.catching_up import CatchUp
from horarium.services.holding import Held
from horarium.store import jobs, past_schedules, runs, skips, timers
from horarium.store.skips import SkipRow

_MICROSECOND = timedelta(microseconds=1)

# So many ticks that a pause stopped can be brought back: as many as a catch-up runs at most.
MAX_RETRACTED = 1000


@dataclass(slots=True)
class _Resumed:
    """What a resume writes: the job, the ticks that run now, the one that comes next, and what was skipped."""

    job: job.Job
    amends: catching_up.Amends = field(default_factory=catching_up.Amends)
    next: firing.Tick | None = None


async def pause(
    connection: asyncpg.Connection,
    held: Held,
    who: job.Actor,
    now: datetime,
    reason: str | None,
    until: datetime | None,
) -> tuple[job.Job, arming.Effects]:
    """Stop a job that is active; of a paused one change reason and end, if they are given and other."""
    if held.job.status is JobStatus.PAUSED:
        return await _pause_again(connection, held.job, who, now, reason, until)
    _check_may_pause(held.job)
    retracted = await runs.retract(connection, [held.job.id], None)
    settled = max(now, await jobs.handled_ahead(connection, held.job.id, now) or now)
    stopped = sorted(tick.scheduled_for for tick in retracted if tick.scheduled_for <= settled)
    kept, lines = _account(held, stopped, now)
    await skips.insert(connection, lines)
    await timers.delete(connection, [held.job.id])
    paused = dataclasses.replace(
        _touched(held.job, who, now),
        status=JobStatus.PAUSED,
        status_reason=reason,
        pause=job.Pause(now, who.name, reason, until, settled_until=settled, retracted=tuple(kept)),
    )
    await jobs.update(connection, paused)
    return paused, arming.Effects(removed=[tick.id for tick in retracted], edited=[paused.id])


async def resume(
    connection: asyncpg.Connection, held: Held, who: job.Actor, now: datetime, catch_up: CatchUp | None
) -> tuple[job.Job, arming.Effects]:
    """Let a paused job go on from now; try to plan one in error again. An active job stays as it is."""
    if held.job.status is JobStatus.ACTIVE:
        return held.job, arming.Effects()
    if held.job.status is JobStatus.FINISHED:
        raise errors.ConflictError("the job is finished: it has no further run", "job_finished")
    resumed = await _decide(connection, held.job, who, now, catch_up)
    if held.job.status is JobStatus.ERROR:
        await past_schedules.forget(connection, held.job, now)
    effects = arming.Effects(edited=[resumed.job.id])
    effects.added = [arming.run_of(resumed.job, tick) for tick in resumed.amends.ticks]
    if resumed.next is not None:
        effects.timers.append(arming.timer_of(resumed.job, resumed.next))
    if resumed.amends.replaced:
        await jobs.take_back_skip(connection, resumed.job.id, resumed.amends.replaced)
    await skips.insert(connection, [resumed.amends.skip] if resumed.amends.skip else [])
    await jobs.update(connection, resumed.job)
    await runs.insert(connection, effects.added)
    await timers.upsert(connection, effects.timers)
    return resumed.job, effects.obeying(resumed.job.spec.overlap)


def _check_may_pause(held: job.Job) -> None:
    if held.status is JobStatus.FINISHED:
        raise errors.ConflictError("the job is finished: there is nothing to pause", "job_finished")
    if held.status is JobStatus.ERROR:
        raise errors.ConflictError(f"the job is in error and does not run: {held.status_reason}", "job_in_error")


async def _pause_again(
    connection: asyncpg.Connection,
    held: job.Job,
    who: job.Actor,
    now: datetime,
    reason: str | None,
    until: datetime | None,
) -> tuple[job.Job, arming.Effects]:
    if held.pause is None:
        return held, arming.Effects()
    changed = dataclasses.replace(held.pause, reason=reason or held.pause.reason, until=until or held.pause.until)
    if changed == held.pause:
        return held, arming.Effects()
    paused = dataclasses.replace(_touched(held, who, now), pause=changed, status_reason=changed.reason)
    await jobs.update(connection, paused)
    return paused, arming.Effects()


def _touched(held: job.Job, who: job.Actor, now: datetime) -> job.Job:
    return dataclasses.replace(held, version=held.version + 1, updated_at=now, updated_by=who.name)


def _account(held: Held, stopped: list[datetime], now: datetime) -> tuple[list[datetime], list[SkipRow]]:
    """The nominal times that a pause stops: those a catch-up may bring back, and the lines about all of them.

    `stopped` are those of waiting runs; to them come the ones that the timer stands for and no run was made of. The tick of
    a one-off gets no line: it runs on resume (rule P4). What waited of a schedule that the job had before is only written down.
    """
    planned = job.schedule_of(held.job.spec, held.job.anchor_at)
    first = held.timer.scheduled_for if held.timer is not None and held.timer.scheduled_for <= now else None
    unmade = [] if first is None else _latest(planned, first, now)
    every = [*stopped, *unmade]
    if job.is_one_off(held.job.spec):
        earlier = [nominal for nominal in every if nominal != held.job.spec.run_at]
        return [nominal for nominal in every if nominal not in earlier], [_line(held.job, earlier)] if earlier else []
    kept = every[-MAX_RETRACTED:]
    if not kept:
        return kept, []
    lines = [_line(held.job, kept)]
    if older := every[: -len(kept)]:
        lines.append(_line(held.job, older))
    if first is not None and len(unmade) == MAX_RETRACTED:
        beyond = overdue.stretch(held.job, planned, first - _MICROSECOND, unmade[0] - _MICROSECOND, "paused")
        lines += [beyond] if beyond else []
    return kept, lines


def _latest(planned: schedule.Schedule, first: datetime, now: datetime) -> list[datetime]:
    """The latest nominal times from `first` to now; `first` is one of them even where zone data have moved since."""
    fires = schedule.latest_fires(planned, first, now, MAX_RETRACTED)
    return [first, *fires] if len(fires) < MAX_RETRACTED else fires


def _line(of_job: job.Job, times: Sequence[datetime]) -> SkipRow:
    return SkipRow(of_job.id, of_job.tenant_id, of_job.shard, times[0], times[-1], len(times), True, "paused")


async def _decide(
    connection: asyncpg.Connection, held: job.Job, who: job.Actor, now: datetime, catch_up: CatchUp | None
) -> _Resumed:
    active = dataclasses.replace(_touched(held, who, now), status=JobStatus.ACTIVE, status_reason=None, pause=None)
    handled = await jobs.handled_ahead(connection, held.id, now)
    if job.is_one_off(held.spec):
        return _decide_one_off(held, active, now, catch_up, handled)
    following = arming.next_tick(active, max(now, handled or now, await _settled_ahead(connection, held, now)))
    if following is None:
        active = dataclasses.replace(active, status=JobStatus.FINISHED)
    return _Resumed(active, catching_up.amends(held, now, catch_up), following)


async def _settled_ahead(connection: asyncpg.Connection, held: job.Job, now: datetime) -> datetime:
    """Up to when ticks were written down before the clock was set back; now, where it was not, or by too much (rule M4)."""
    settled = held.pause.settled_until if held.pause is not None else None
    if held.pause is None or settled is None:
        return now
    ahead = held.pause.settled_ahead(now)
    if ahead < settled:
        await past_schedules.leave_open(connection, [past_schedules.Unknown(held.id, held.shard, now, settled)])
    return ahead


def _decide_one_off(
    held: job.Job, active: job.Job, now: datetime, catch_up: CatchUp | None, handled: datetime | None
) -> _Resumed:
    """Rule P4: a one-off whose time passed in the pause runs at once, or ends as skipped if that is asked for.

    One whose run was begun or cancelled ahead of its time (`handled`) has no other (rule I1).
    """
    run_at = held.spec.run_at
    if run_at is not None and run_at > now:
        if handled is not None and handled >= run_at:
            return _Resumed(active)
        tick = arming.tick_at(held.id, job.schedule_of(held.spec, held.anchor_at), run_at)
        return _Resumed(active, next=tick)
    if run_at is None or not catching_up.passed_in_pause(held, now):
        return _Resumed(active)
    if catch_up is CatchUp.SKIP:
        reason = "skipped: its time passed while it was paused"
        ended = dataclasses.replace(active, status=JobStatus.FINISHED, status_reason=reason)
        return _Resumed(ended, catching_up.Amends(skip=overdue.single(held, run_at, "paused")))
    return _Resumed(active, catching_up.Amends([firing.Tick(run_at, now)]))
