"""First timers and runs of jobs that were just made, copied: nothing of theirs can be there yet."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from horarium.store.runs import RunRow
from horarium.store.timers import TimerRow

# What a run has that is as its job says: the columns that `runs.insert` writes of it, too.
_RUN_COLUMNS = RunRow._fields[:11]


async def copy_timers(connection: asyncpg.Connection, rows: Sequence[TimerRow]) -> None:
    """Write the first occurrences of new jobs."""
    if rows:
        await connection.copy_records_to_table("timers", records=rows, columns=TimerRow._fields)


async def copy_runs(connection: asyncpg.Connection, rows: Sequence[RunRow]) -> None:
    """Write the runs of new jobs that are due at once. They have nothing of their own."""
    if rows:
        await connection.copy_records_to_table("runs", records=[row[:11] for row in rows], columns=_RUN_COLUMNS)
