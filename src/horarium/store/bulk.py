"""What comes with jobs that were just made, copied: their first timers and runs, and their lines in the audit.

Nothing of theirs can be there yet, so there is no conflict to look for.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import asyncpg

from horarium.store.runs import RunRow
from horarium.store.timers import TimerRow

# What a run has that is as its job says: the columns that `runs.insert` writes of it, too.
_RUN_COLUMNS = RunRow._fields[:11]


class AuditLine(NamedTuple):
    """A line about something that was made; `after` is JSON text."""

    at: datetime
    tenant_id: str
    actor: str
    action: str
    object_type: str
    object_id: str
    after: str
    remote: str | None
    request_id: str | None


async def copy_timers(connection: asyncpg.Connection, rows: Sequence[TimerRow]) -> None:
    """Write the first occurrences of new jobs."""
    if rows:
        await connection.copy_records_to_table("timers", records=rows, columns=TimerRow._fields)


async def copy_runs(connection: asyncpg.Connection, rows: Sequence[RunRow]) -> None:
    """Write the runs of new jobs that are due at once. They have nothing of their own."""
    if rows:
        await connection.copy_records_to_table("runs", records=[row[:11] for row in rows], columns=_RUN_COLUMNS)


async def copy_audit(connection: asyncpg.Connection, lines: Sequence[AuditLine]) -> None:
    """Write lines of several actors. One alone writes by `audit.record`."""
    if lines:
        await connection.copy_records_to_table("audit", records=lines, columns=AuditLine._fields)
