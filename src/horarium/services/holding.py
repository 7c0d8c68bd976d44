"""A job that is held for a change: its timer and its row, locked to the end of the transaction.

Always in this order: the scheduler, which holds a timer, may write its job. While the timer is held, no tick of the job
is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import asyncpg

from horarium import errors
from horarium.domain import job
from horarium.domain.states import JobStatus
from horarium.store import jobs, timers
from horarium.store.timers import TimerRow


@dataclass(frozen=True, slots=True)
class Held:
    """A locked job, and its timer if it has one."""

    job: job.Job
    timer: TimerRow | None


async def hold(connection: asyncpg.Connection, tenant_id: str, ref: UUID | str) -> Held | None:
    """Lock the job with an id, deleted or not, or the one that bears a name now; None when there is none.

    Looks a second time where the first look may have come too early: before a change that we waited for gave the job
    another name, or a timer.
    """
    found = await _look(connection, tenant_id, ref)
    if found is not None and _is_settled(found, ref):
        return found
    return await _look(connection, tenant_id, ref)


async def _look(connection: asyncpg.Connection, tenant_id: str, ref: UUID | str) -> Held | None:
    job_id = ref if isinstance(ref, UUID) else await jobs.id_of_name(connection, tenant_id, ref)
    if job_id is None:
        return None
    locked = await timers.lock(connection, [job_id])
    found = await jobs.lock(connection, tenant_id, job_id)
    return None if found is None else Held(found, locked.get(job_id))


def _is_settled(held: Held, ref: UUID | str) -> bool:
    if isinstance(ref, str) and held.job.spec.name != ref:
        return False
    return held.timer is not None or held.job.status is not JobStatus.ACTIVE


async def hold_existing(connection: asyncpg.Connection, tenant_id: str, ref: UUID | str) -> Held:
    """As `hold`. Raises NotFoundError when there is no such job."""
    held = await hold(connection, tenant_id, ref)
    if held is None:
        raise not_found(ref)
    return held


def not_found(ref: UUID | str) -> errors.NotFoundError:
    """That there is no such job, or that it belongs to another tenant."""
    return errors.NotFoundError(f"there is no job {ref!r}" if isinstance(ref, str) else f"there is no job {ref}")


def check_version(held: job.Job, if_match: int | None) -> None:
    """Refuse a change that was meant for another version (rule E5)."""
    if if_match is not None and if_match != held.version:
        raise errors.StaleVersionError(f"the job is at version {held.version}, not {if_match}")


def check_not_deleted(held: job.Job) -> None:
    """Refuse to change what has been deleted."""
    if held.status is JobStatus.CANCELLED:
        raise errors.ConflictError("the job has been deleted", "job_cancelled")
