"""Jobs as people see them: the shown status, the coming nominal times, the latest run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

import asyncpg

from horarium import errors
from horarium.domain import job, schedule
from horarium.domain.states import JobStatus
from horarium.store import jobs

COMING = 5


async def of(connection: asyncpg.Connection, found: Sequence[job.Job], now: datetime) -> list[job.JobView]:
    """The views of some jobs, in their order."""
    outlooks = await jobs.outlooks(connection, [each.id for each in found], now)
    return [_view(each, outlooks.get(each.id, jobs.Outlook())) for each in found]


async def of_one(connection: asyncpg.Connection, found: job.Job, now: datetime) -> job.JobView:
    """The view of one job."""
    views = await of(connection, [found], now)
    return views[0]


def coming(each: job.Job, first: datetime | None, count: int) -> list[datetime]:
    """`first` and the nominal times after it, at most `count`; none where the zone has vanished (rule Z3)."""
    if first is None:
        return []
    planned = job.schedule_of(each.spec, each.anchor_at)
    times = [first]
    try:
        while len(times) < count and (following := schedule.next_fire(planned, times[-1])) is not None:
            times.append(following)
    except errors.InvalidScheduleError:
        return times
    return list(islice(times, count))


def _view(each: job.Job, outlook: jobs.Outlook) -> job.JobView:
    return job.JobView(
        each,
        _shown_status(each, outlook),
        outlook.next_run_at,
        coming(each, outlook.next_run_at, COMING),
        outlook.last_run,
    )


def _shown_status(each: job.Job, outlook: jobs.Outlook) -> JobStatus:
    """A one-off that is active, of which nothing is left, is finished: that is not written when its run ends."""
    if each.status is JobStatus.ACTIVE and job.is_one_off(each.spec) and not outlook.is_live:
        return JobStatus.FINISHED
    return each.status
