"""The books of each job, from the rows of the model: is each tick of its schedule a run or a recorded skip?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from horarium.domain import audit, job, schedule
from horarium.domain.states import JobStatus
from horarium.store import jobs as job_rows
from tests.simulation.model.rows import Fields, Row
from tests.simulation.model.server import START, Server

_MICROSECOND = timedelta(microseconds=1)
BEGINNING = START - timedelta(days=2)


def unbalanced(server: Server) -> Iterator[str]:
    """What is wrong with ticks, in words."""
    for row in server.tables["jobs"].values():
        for finding in _findings(server, row):
            yield f"{finding.number} ticks {finding.wrong} of {_shown(row)}: {finding.first} to {finding.last}"


def _findings(server: Server, row: Fields) -> list[audit.Finding]:
    until = _until(server, row)
    if until is None:
        return []
    changes = [each for each in server.tables["past_schedules"].values() if each["job_id"] == row["id"]]
    return audit.judge(
        audit.Books(
            audit.Span(BEGINNING, until),
            [*_past(changes), _present(row, changes, until)],
            [*_ran(server, row["id"])],
            [
                audit.Stretch(each["first"], each["last"], each["count"], each["exact"])
                for each in server.tables["skips"].values()
                if each["job_id"] == row["id"]
            ],
            [audit.Span(each["valid_from"], each["valid_until"]) for each in changes if each["schedule_key"] is None],
        )
    )


def _until(server: Server, row: Fields) -> datetime | None:
    """Up to when all ticks of a job have been made; None where that cannot be said."""
    each = job_rows.of_row(Row(row))  # type: ignore[arg-type]
    if each.status is JobStatus.ERROR:
        return None
    if each.status is JobStatus.CANCELLED:
        return each.deleted_at
    if each.status is JobStatus.PAUSED:
        return None if each.spec.run_at is not None or each.pause is None else each.pause.settled_until
    timer = server.tables["timers"].get(each.id)
    if timer is not None:
        return timer["scheduled_for"] - _MICROSECOND
    ahead: datetime = each.spec.run_at or each.spec.end_at or each.created_at
    return max(server.now(), ahead)


def _past(changes: list[Fields]) -> list[audit.Version]:
    return [
        audit.Version(schedule.decode(each["schedule_key"]), audit.Span(each["valid_from"], each["valid_until"]))
        for each in changes
        if each["schedule_key"] is not None
    ]


def _present(row: Fields, changes: list[Fields], until: datetime) -> audit.Version:
    each = job_rows.of_row(Row(row))  # type: ignore[arg-type]
    ends = [change["valid_until"] for change in changes if change["schedule_key"] is not None]
    since = max(ends, default=each.created_at)
    return audit.Version(job.schedule_of(each.spec, each.anchor_at), audit.Span(since, until))


def _ran(server: Server, job_id: Any) -> Iterator[datetime]:
    for table in ("runs", "history"):
        for row in server.tables[table].values():
            if row["job_id"] == job_id and row["trigger"] == "schedule":
                yield row["scheduled_for"]


def _shown(row: Fields) -> str:
    rule = row["schedule"] or row["interval_s"] or row["run_at"]
    return f"job {row['id']} ({rule}, {row['status']}, misfire {row['misfire']}, overlap {row['overlap']})"
