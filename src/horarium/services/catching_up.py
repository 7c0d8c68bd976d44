"""What a resume makes up for of the ticks that a pause kept from running (rule P2): nothing unless it is asked to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from horarium.domain import firing, ids, job, schedule
from horarium.services import overdue
from horarium.store.skips import SkipRow


class CatchUp(StrEnum):
    """What a resume does about the ticks that the pause kept from running."""

    SKIP = "skip"
    RUN_ONCE = "run_once"
    RUN_ALL = "run_all"


@dataclass(slots=True)
class Amends:
    """What runs now, oldest first; the line about the others; and the ticks of an earlier line that it replaces."""

    ticks: list[firing.Tick] = field(default_factory=list)
    skip: SkipRow | None = None
    replaced: Sequence[datetime] = ()


def fallen(paused: job.Job, now: datetime) -> SkipRow | None:
    """The line about the ticks of a recurring job that came during its pause and are written down nowhere yet."""
    if paused.pause is None or job.is_one_off(paused.spec):
        return None
    return overdue.stretch(paused, _schedule(paused), _since(paused.pause), now, "paused")


def passed_in_pause(paused: job.Job, now: datetime) -> bool:
    """Whether the moment of a paused one-off has come without its run (rule P4)."""
    pause, run_at = paused.pause, paused.spec.run_at
    if pause is None or run_at is None or run_at > now:
        return False
    return run_at in pause.retracted or run_at > _since(pause)


def amends(paused: job.Job, now: datetime, catch_up: CatchUp | None) -> Amends:
    """Decide for a recurring job; what it was stopped from running when the pause began counts, too, as far as it is due."""
    line = fallen(paused, now)
    limit = _limit(paused.spec, catch_up)
    stopped = paused.pause.retracted if paused.pause is not None else ()
    late = [nominal for nominal in stopped if nominal <= now]
    if paused.pause is None or not limit or (line is None and not late):
        return Amends(skip=line)
    late += schedule.latest_fires(_schedule(paused), _since(paused.pause), now, limit)
    chosen = late[-limit:]
    if catch_up is CatchUp.RUN_ALL:
        window = now - timedelta(seconds=paused.spec.catch_up_window_s)
        chosen = [nominal for nominal in chosen if nominal > window]
    ticks = [firing.Tick(nominal, now) for nominal in chosen]
    return Amends(ticks, _line_about_others(paused, stopped, line, chosen), stopped)


def _limit(spec: job.JobSpec, catch_up: CatchUp | None) -> int:
    if catch_up is CatchUp.RUN_ONCE:
        return 1
    return spec.max_catch_up if catch_up is CatchUp.RUN_ALL else 0


def _line_about_others(
    paused: job.Job, stopped: Sequence[datetime], line: SkipRow | None, chosen: Sequence[datetime]
) -> SkipRow | None:
    """One line about the ticks, stopped or fallen into the pause, that do not run after all."""
    count = len(stopped) + (line.count if line else 0) - len(chosen)
    if count <= 0:
        return None
    first = stopped[0] if stopped else line.first if line else chosen[0]
    last = line.last if line else stopped[-1]
    if chosen:
        ahead = [nominal for nominal in stopped if nominal > chosen[-1]]
        last = ahead[-1] if ahead else _before(paused, stopped, line, chosen[0])
    into = ids.tick_run_id(paused.id, paused.shard, chosen[0]) if len(chosen) == 1 else None
    exact = line.exact if line else True
    return SkipRow(paused.id, paused.tenant_id, paused.shard, first, last, count, exact, "paused", into)


def _before(paused: job.Job, stopped: Sequence[datetime], line: SkipRow | None, chosen: datetime) -> datetime:
    """The tick before the first one that runs; there is one, or nothing would be left to write down."""
    if line is not None and chosen > line.first:
        return schedule.previous_fire(_schedule(paused), chosen) or line.first
    return max(nominal for nominal in stopped if nominal < chosen)


def _schedule(paused: job.Job) -> schedule.Schedule:
    return job.schedule_of(paused.spec, paused.anchor_at)


def _since(pause: job.Pause) -> datetime:
    return pause.settled_until or pause.at
