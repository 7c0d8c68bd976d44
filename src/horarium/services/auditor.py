"""The auditor: do the books balance, and does every row have what belongs to it?

Each tick that the schedule of a job asked for is a run or a recorded skip, no more, no less. All is read in one transaction, as
of one moment, so that a moving system can be audited: what a timer stands at has not been made yet, everything before it has.
Jobs come by key order, some hundred at a time. For most of them it is enough that number and sum of their ticks are right;
where skips were written down, the schedule was changed, or the figures differ, ticks are looked at one by one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg

from horarium import errors
from horarium.domain import audit as books
from horarium.domain import ids, schedule
from horarium.domain.faults import Fault, Kind
from horarium.domain.states import JobStatus
from horarium.store import auditing
from horarium.store.auditing import Account, Trouble
from horarium.store.database import Database

JOBS_AT_ONCE = 500
# Looked for only where it is late by far more than a take-over or a restart of the database takes.
OVERDUE = timedelta(seconds=60)
# The lease of a long run is written down once a minute.
LEASE_ENDED = timedelta(minutes=10)
REMEMBERED = 20_000

_MICROSECOND = timedelta(microseconds=1)
_FIRST = UUID(int=0)
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS = {
    books.Wrong.MISSING: (Kind.MISSING_TICKS, "is neither a run nor a skip", "are neither runs nor skips"),
    books.Wrong.DOUBLED: (Kind.DOUBLED_TICKS, "is accounted for twice", "are accounted for more than once"),
    books.Wrong.UNEXPECTED: (Kind.UNEXPECTED_TICKS, "is not one of its schedule", "are not of its schedule"),
}


async def audit(database: Database, since: datetime, now: datetime | None = None) -> list[Fault]:
    """Everything that is wrong in a database; of ticks, what is wrong since an instant. See `faults`."""
    return [fault async for fault in faults(database, since, now)]


async def faults(database: Database, since: datetime, now: datetime | None = None) -> AsyncIterator[Fault]:
    """What is wrong, as it is found. `now` (the database's clock) says what is overdue.

    Ticks are judged since `since`, or since history is kept if that is later. At most a thousand rows of each kind are told.
    """
    async with (
        database.connection() as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        moment = await auditing.moment(connection)
        at = now or moment.now
        for fault in await _of_rows(connection, at, moment.kept_since):
            yield fault
        auditor = _Auditor(connection, max(since, moment.kept_since or since), at)
        async for fault in auditor.of_jobs():
            yield fault


class _Auditor:
    """Looks at jobs, one after the other."""

    def __init__(self, connection: asyncpg.Connection, since: datetime, now: datetime) -> None:
        self._connection = connection
        self._since = since
        self._now = now
        self._figures: dict[tuple[schedule.Schedule, books.Span], tuple[int, int]] = {}

    async def of_jobs(self) -> AsyncIterator[Fault]:
        """What is wrong with the ticks of jobs."""
        after = _FIRST
        while accounts := await auditing.accounts(self._connection, after, JOBS_AT_ONCE, self._since):
            for account in accounts:
                for fault in await self._of_job(account):
                    yield fault
            after = accounts[-1].job_id

    async def _of_job(self, account: Account) -> list[Fault]:
        try:
            return await self._judge(account)
        except (errors.InvalidScheduleError, ValueError) as error:
            return [_fault(account, Kind.UNPLANNABLE, f"its schedule cannot be told: {error}")]

    async def _judge(self, account: Account) -> list[Fault]:
        if _may_be_unarmed(account):
            unarmed = await self._unarmed(account)
            if unarmed is not None:
                return unarmed
        until = _until(account, self._now)
        if until is None or until <= self._since:
            return []
        return await self._balance(account, until)

    async def _balance(self, account: Account, until: datetime) -> list[Fault]:
        window = books.Span(self._since, until)
        if not account.is_special and self._figures_are_right(account, window):
            return []
        known = await auditing.books(self._connection, account, window, until)
        return [_of_finding(account, finding) for finding in books.judge(known)]

    def _figures_are_right(self, account: Account, window: books.Span) -> bool:
        """Whether as many ticks were made as were due, and the sum of their times is the same."""
        governed = books.Span(max(window.after, account.created_at), window.until)
        if isinstance(account.schedule.timing, schedule.Once):
            governed = window
        key = (account.schedule, governed)
        figures = self._figures.get(key)
        if figures is None:
            if len(self._figures) >= REMEMBERED:
                self._figures.clear()
            figures = self._figures[key] = _figures(books.due_in(books.Version(account.schedule, governed), window))
        return figures == (account.number, account.total_us)

    async def _unarmed(self, account: Account) -> list[Fault] | None:
        """An active job without a timer; None where it needs none, for all of its ticks have been made."""
        progress = await auditing.progress(self._connection, account.job_id)
        first = first_owed(account.schedule, progress, account.created_at)
        if first is None:
            return None
        lost = 0 if first > self._now else 1 + schedule.count_between(account.schedule, first, self._now)[0]
        text = f"it is active and has no timer; its next tick is {_shown(first)}, {lost} are overdue"
        fault = _fault(account, Kind.MISSING_TIMER, text, first, number=max(1, lost))
        accounted = progress.accounted
        return [fault, *(await self._balance(account, accounted) if accounted and accounted > self._since else [])]


def first_owed(planned: schedule.Schedule, progress: auditing.Progress, created_at: datetime) -> datetime | None:
    """The first tick of a job's schedule that is not accounted for. A one-off may be made for a moment that has just passed."""
    accounted = progress.accounted or _NEVER
    if isinstance(planned.timing, schedule.Once):
        return None if accounted >= planned.timing.at else planned.timing.at
    return schedule.next_fire(planned, max(accounted, progress.changed or created_at))


def _may_be_unarmed(account: Account) -> bool:
    """Whether a job ought to have a timer and has none. Of a one-off that ran there is none any more."""
    if account.status is not JobStatus.ACTIVE or account.timer is not None:
        return False
    return account.is_special or account.number == 0 or not isinstance(account.schedule.timing, schedule.Once)


def _until(account: Account, now: datetime) -> datetime | None:
    """Up to when all ticks of a job have been made; None where that cannot be said."""
    if account.status is JobStatus.ERROR:
        return None
    if account.status is JobStatus.CANCELLED:
        return account.deleted_at
    if account.status is JobStatus.PAUSED:
        # A paused one-off runs when it is resumed, and is written down then (rule P4).
        return None if isinstance(account.schedule.timing, schedule.Once) else account.settled_until
    if account.timer is not None:
        return account.timer.scheduled_for - _MICROSECOND
    return max(now, _ahead(account))


def _ahead(account: Account) -> datetime:
    """The last tick of a schedule that has ended may have been made some seconds ahead of its time."""
    timing = account.schedule.timing
    if isinstance(timing, schedule.Once):
        return timing.at if account.number else timing.at - _MICROSECOND
    return account.schedule.end_at or account.created_at


def _figures(ticks: Iterable[datetime]) -> tuple[int, int]:
    number = total = 0
    for tick in ticks:
        number += 1
        total += ids.microseconds(tick)
    return number, total


async def _of_rows(connection: asyncpg.Connection, now: datetime, kept_since: datetime | None) -> list[Fault]:
    """Rows that lack what belongs to them, or that should not be there."""
    return [
        *(_of_trouble(Kind.SHARD_WITHOUT_LEADER, each) for each in await auditing.leaderless(connection, now)),
        *(_of_trouble(Kind.OVERDUE_TIMER, each) for each in await auditing.overdue(connection, now - OVERDUE)),
        *(_of_trouble(Kind.STRAY_TIMER, each) for each in await auditing.stray_timers(connection)),
        *(_of_trouble(Kind.RUN_WITHOUT_JOB, each) for each in await auditing.runs_without_job(connection)),
        *(
            _of_trouble(Kind.STUCK_LEASE, each)
            for each in await auditing.stuck_leases(connection, now, now - LEASE_ENDED)
        ),
        *(_of_trouble(Kind.LIVE_AND_ENDED, each) for each in await auditing.live_and_ended(connection)),
        *(
            _of_trouble(Kind.LETTER_WITHOUT_RUN, each)
            for each in await auditing.letters_without_run(connection, kept_since)
        ),
    ]


def _of_trouble(kind: Kind, found: Trouble) -> Fault:
    return Fault(kind, _told(kind, found), found.shard, found.tenant_id, found.job_id, found.run_id, found.at)


def _told(kind: Kind, found: Trouble) -> str:
    match kind:
        case Kind.SHARD_WITHOUT_LEADER:
            return f"shard {found.shard} has no leader" + (f"; {found.state} was the last" if found.state else "")
        case Kind.OVERDUE_TIMER:
            return f"its tick {_shown(found.at)} is due and was not made"
        case Kind.STRAY_TIMER:
            return f"it has a timer and is {found.state or 'gone'}"
        case Kind.RUN_WITHOUT_JOB:
            return f"a {found.state} run of a job that is gone"
        case Kind.STUCK_LEASE:
            return f"its lease by {found.state} ended {_shown(found.at)} and was not taken back"
        case Kind.LIVE_AND_ENDED:
            return f"it has ended, and is {found.state} all the same"
        case _:
            return "a dead letter of a run that is not in history"


def _of_finding(account: Account, found: books.Finding) -> Fault:
    kind, one, many = _KINDS[found.wrong]
    if found.number == 1 and found.first == found.last:
        text = f"tick {_shown(found.first)} {one}"
    else:
        text = f"{found.number} ticks from {_shown(found.first)} to {_shown(found.last)} {many}"
    return _fault(account, kind, text, found.first, found.last, found.number)


def _fault(
    account: Account,
    kind: Kind,
    text: str,
    first: datetime | None = None,
    last: datetime | None = None,
    number: int = 1,
) -> Fault:
    return Fault(kind, text, account.shard, account.tenant_id, account.job_id, None, first, last or first, number)


def _shown(instant: datetime | None) -> str:
    return "" if instant is None else instant.isoformat().replace("+00:00", "Z")
