"""Rows of a shard that are copied to another database while the shard works, and what has changed in them since.

What was written since a copy is told by the transaction that wrote it (`xmin`): no writer has to note anything. What has gone
since is told by the keys, which are compared only where the numbers of rows differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from horarium.store import moving, statements

SQL = statements.load("moving_changes")


class Change(NamedTuple):
    """How the keys of a table's rows are asked for, and how rows are dropped by them."""

    keys: str
    drop: str


# The tables that are copied ahead: those with many rows that seldom change.
CHANGES = {
    "jobs": Change(SQL.keys_of_jobs, SQL.drop_jobs),
    "timers": Change(SQL.keys_of_timers, SQL.drop_timers),
    "runs": Change(SQL.keys_of_runs, SQL.drop_runs),
    "dead_letters": Change(SQL.keys_of_dead_letters, SQL.drop_dead_letters),
    "skips": Change(SQL.keys_of_skips, SQL.drop_skips),
    "idempotency_keys": Change(SQL.keys_of_idempotency_keys, SQL.drop_idempotency_keys),
}


class Ahead(NamedTuple):
    """What has been copied ahead: everything written before `position`, but for the jobs that were `left_out`."""

    position: str
    left_out: Sequence[UUID]


async def copy_ahead(
    source: asyncpg.Connection, target: asyncpg.Connection, shard: int, ahead: Ahead | None, mover: str
) -> tuple[Ahead, dict[str, int]] | None:
    """Copy what lives, or what has changed since it was copied `ahead`. In a transaction of the target, and in one of the source
    that sees one state all along (repeatable read).

    Returns how far the copy has come, and how many rows of each table were copied; None when another mover is at it.
    """
    await moving.let_pass(target)
    position = await source.fetchval(SQL.position)
    counts = {table: await follow(source, target, table, shard, ahead) for table in CHANGES}
    # A name that such a job gives up goes to a job of this database, beside which the old copy could not stand (index jobs_name).
    left_out = [row[0] for row in await target.fetch(SQL.borrowers, shard)]
    await target.execute(SQL.drop_jobs, shard, left_out)
    if not await moving.keep_lease(target, shard, mover):
        return None
    return Ahead(position, left_out), counts


async def follow(
    source: asyncpg.Connection, target: asyncpg.Connection, table: str, shard: int, ahead: Ahead | None
) -> int:
    """Let the copy of a table be as its source is: by what has changed since it was copied ahead, otherwise by copying all of it.

    In transactions as `copy_ahead` has them, or while nobody writes the source. Returns how many rows were copied.
    """
    copied = None
    if ahead is not None and table in CHANGES:
        copied = await _follow(source, target, table, shard, ahead)
    return await moving.copy_all(source, target, table, shard) if copied is None else copied


async def _follow(
    source: asyncpg.Connection, target: asyncpg.Connection, table: str, shard: int, ahead: Ahead
) -> int | None:
    """Bring a copy up to date; None when it lacks something all the same."""
    change = CHANGES[table]
    total, changed = await _keys(source, change, shard, ahead.position)
    await target.execute(change.drop, shard, changed, timeout=moving.LONGEST_STATEMENT_S)
    copied = await moving.copy(source, target, moving.LIVE[table].read, table, shard, ahead.position)
    if table == "jobs" and (unchanged := list(set(ahead.left_out) - set(changed))):
        copied += await moving.copy(source, target, SQL.these_jobs, table, shard, unchanged)
    here, _ = await _keys(target, change, shard, await target.fetchval(SQL.position))
    if here > total:
        here -= await _drop_gone(source, target, change, shard)
    return copied if here == total else None


async def _drop_gone(source: asyncpg.Connection, target: asyncpg.Connection, change: Change, shard: int) -> int:
    """Drop what the source no longer has; returns how many rows."""
    _, wanted = await _keys(source, change, shard, None)
    _, copied = await _keys(target, change, shard, None)
    gone = list(set(copied) - set(wanted))
    await target.execute(change.drop, shard, gone, timeout=moving.LONGEST_STATEMENT_S)
    return len(gone)


async def _keys(
    connection: asyncpg.Connection, change: Change, shard: int, position: str | None
) -> tuple[int, list[Any]]:
    row = await connection.fetchrow(change.keys, shard, position, timeout=moving.LONGEST_STATEMENT_S)
    return row["total"], row["keys"]
