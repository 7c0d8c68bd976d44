"""Rows of a shard on their way to another database, and the `shards` rows that tell how far it has come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import NamedTuple

import asyncpg

from horarium.domain.placement import State
from horarium.store import retention, statements

SQL = statements.load("moving")

MOVER_LEASE = timedelta(seconds=10)
LONGEST_STATEMENT_S = 3600.0
DAYS_AHEAD = 7
FIRST = datetime(1970, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 1, 1, tzinfo=UTC)


class Table(NamedTuple):
    """How the rows of a shard are read and deleted."""

    read: str
    delete: str


# What lives; and what is written once and read by people, of which much is closed (`copy_history`, `copy_logs`).
LIVE = {
    "jobs": Table(SQL.jobs_of, SQL.delete_jobs),
    "borrowed_names": Table(SQL.borrowed_names_of, SQL.delete_borrowed_names),
    "timers": Table(SQL.timers_of, SQL.delete_timers),
    "runs": Table(SQL.runs_of, SQL.delete_runs),
    "dead_letters": Table(SQL.dead_letters_of, SQL.delete_dead_letters),
    "skips": Table(SQL.skips_of, SQL.delete_skips),
    "past_schedules": Table(SQL.past_schedules_of, SQL.delete_past_schedules),
    "idempotency_keys": Table(SQL.idempotency_keys_of, SQL.delete_idempotency_keys),
}
FENCED = (*LIVE, "history", "run_logs")


class Standing(NamedTuple):
    """How a shard stands to a database. `alive`: its mover, `leader`, was heard of lately."""

    state: State
    peer: int | None
    leader: str | None
    term: int
    copied_until: datetime | None
    alive: bool


class Stretch(NamedTuple):
    """A stretch of time, the end left out."""

    first: datetime
    end: datetime


async def standing(connection: asyncpg.Connection, shard: int) -> Standing | None:
    """How a shard stands to this database; None when nothing is known of it."""
    row = await connection.fetchrow(SQL.standing, shard)
    return None if row is None else Standing(State(row[0]), *row[1:])


async def remains(connection: asyncpg.Connection) -> list[int]:
    """Shards that have left and whose rows are not taken away yet."""
    return [row[0] for row in await connection.fetch(SQL.remains)]


async def prepare(connection: asyncpg.Connection, shard: int, source: int, mover: str) -> Standing | None:
    """Let a shard be arriving; None when another mover is at it."""
    if not await connection.fetch(SQL.prepare, shard, source, mover, MOVER_LEASE):
        return None
    return await standing(connection, shard)


async def let_pass(connection: asyncpg.Connection) -> None:
    """For a transaction: the mover writes rows of a shard that does not live here."""
    await connection.execute(SQL.let_pass)


async def purge(connection: asyncpg.Connection, shard: int) -> None:
    """Delete what an earlier attempt has left, inside a transaction."""
    await let_pass(connection)
    for table in LIVE.values():
        await connection.execute(table.delete, shard, timeout=LONGEST_STATEMENT_S)
    await connection.execute(SQL.delete_history, shard, FIRST, LAST, timeout=LONGEST_STATEMENT_S)


async def stretches(connection: asyncpg.Connection, after: datetime | None, end: datetime) -> list[Stretch]:
    """The time up to `end`, day by day as history is divided in this database."""
    days = [row["day"] for row in await connection.fetch(SQL.days_of_history)]
    first = after or FIRST
    bounds = [first, *(start for day in days if first < (start := _start(day)) < end), end]
    return [Stretch(one, other) for one, other in pairwise(bounds) if one < other]


async def make_room(connection: asyncpg.Connection, first: datetime, now: datetime) -> None:
    """Make the partitions that what comes will need."""
    if first > FIRST:
        await retention.make_partitions(connection, first.date(), now.date() + timedelta(days=DAYS_AHEAD))


async def copy_history(
    source: asyncpg.Connection, target: asyncpg.Connection, shard: int, stretch: Stretch, mover: str
) -> int | None:
    """Copy runs that ended in a stretch of time, and note it; None when another mover is at it. In a transaction."""
    await let_pass(target)
    await target.execute(SQL.delete_history, shard, *stretch, timeout=LONGEST_STATEMENT_S)
    count = await copy(source, target, SQL.history_of, "history", shard, *stretch)
    noted = await target.fetchval(SQL.note_copied, shard, mover, stretch.end)
    return None if noted is None else count


async def copy_all(source: asyncpg.Connection, target: asyncpg.Connection, table: str, shard: int) -> int:
    """Copy what lives of a table in place of what is there of it; returns how many rows."""
    read, delete = LIVE[table]
    await target.execute(delete, shard, timeout=LONGEST_STATEMENT_S)
    return await copy(source, target, read, table, shard, None)


async def copy_late_history(source: asyncpg.Connection, target: asyncpg.Connection, shard: int, since: datetime) -> int:
    """Copy runs that ended since an instant; returns how many."""
    await target.execute(SQL.delete_history, shard, since, LAST, timeout=LONGEST_STATEMENT_S)
    return await copy(source, target, SQL.history_of, "history", shard, since, LAST)


async def note_arrived(source: asyncpg.Connection, target: asyncpg.Connection, shard: int, mover: str) -> bool:
    """Note in the target that all is there; False when another mover is at it."""
    await target.execute(SQL.raise_tokens, await source.fetchval(SQL.last_token))
    return await target.fetchval(SQL.note_arrived, shard, mover) is not None


async def copy_logs(source: asyncpg.Connection, target: asyncpg.Connection, shard: int, stretch: Stretch) -> int:
    """Copy log lines of a stretch of time; a line that is copied twice is shown once."""
    await let_pass(target)
    return await copy(source, target, SQL.run_logs_of, "run_logs", shard, *stretch)


async def delete_stretch(connection: asyncpg.Connection, shard: int, stretch: Stretch) -> None:
    """Delete log lines and history of a stretch of time, in a transaction."""
    await let_pass(connection)
    await connection.execute(SQL.delete_run_logs, shard, *stretch, timeout=LONGEST_STATEMENT_S)
    await connection.execute(SQL.delete_history, shard, *stretch, timeout=LONGEST_STATEMENT_S)


async def pause(connection: asyncpg.Connection, shard: int, target: int, mover: str) -> bool:
    """Stop whoever leads the shard; False when it does not work here any more."""
    return await connection.fetchval(SQL.pause, shard, target, mover, MOVER_LEASE) is not None


async def hold(connection: asyncpg.Connection, shard: int, target: int, mover: str) -> bool:
    """Go on in a pause; False when it is another mover's, or was undone."""
    return await connection.fetchval(SQL.hold, shard, target, mover, MOVER_LEASE) is not None


async def keep_lease(connection: asyncpg.Connection, shard: int, mover: str) -> bool:
    """Tell that the mover is alive; False when another one is at it."""
    return await connection.fetchval(SQL.keep_lease, shard, mover, MOVER_LEASE) is not None


async def fence(connection: asyncpg.Connection, table: str, but: int | None = None) -> None:
    """Let a table refuse what is written for shards that do not live here, `but` for one."""
    gone = await connection.fetchval(SQL.shards_elsewhere, but)
    await connection.execute(SQL.fence, table, gone)


async def take_arrival(connection: asyncpg.Connection, shard: int, mover: str) -> None:
    """Take over a dead mover's row in the target."""
    await connection.execute(SQL.take_arrival, shard, mover)


async def leave(connection: asyncpg.Connection, shard: int, mover: str) -> bool:
    """From now on the rows are the target's; False when another mover is at it."""
    return await connection.fetchval(SQL.leave, shard, mover) is not None


async def stay(connection: asyncpg.Connection, shard: int, mover: str) -> bool:
    """Undo the pause; False when another mover is at it."""
    return await connection.fetchval(SQL.stay, shard, mover) is not None


async def arrive(connection: asyncpg.Connection, shard: int, above: int) -> bool:
    """Let the shard be led here under a term above `above`; False when that was done already."""
    return await connection.fetchval(SQL.arrive, shard, above) is not None


async def note_gone(connection: asyncpg.Connection, shard: int) -> None:
    """Nothing of the shard is here any more."""
    await connection.execute(SQL.note_gone, shard)


def _start(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


async def copy(source: asyncpg.Connection, target: asyncpg.Connection, query: str, table: str, *values: object) -> int:
    """Stream the rows of a query into a table of the same columns, without holding them all."""
    columns = [attribute.name for attribute in (await source.prepare(query)).get_attributes()]
    chunks: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=64)

    async def read() -> None:
        try:
            await source.copy_from_query(
                query, *values, output=chunks.put, format="binary", timeout=LONGEST_STATEMENT_S
            )
        finally:
            await chunks.put(None)

    async def given() -> AsyncIterator[bytes]:
        while (chunk := await chunks.get()) is not None:
            yield chunk

    reading = asyncio.create_task(read())
    try:
        tag: str = await target.copy_to_table(
            table, source=given(), columns=columns, format="binary", timeout=LONGEST_STATEMENT_S
        )
        await reading
    finally:
        reading.cancel()
    return int(tag.rpartition(" ")[2])
