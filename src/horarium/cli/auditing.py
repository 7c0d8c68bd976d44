"""`horarium doctor --audit`: do the books balance? Straight on the databases, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from horarium import durations, errors
from horarium.cli import options, output

if TYPE_CHECKING:
    from horarium.domain.faults import Fault
    from horarium.store.database import Database

# More than anybody reads; programs that want all of them take `-o jsonl`.
AT_MOST = 10_000

COLUMNS = [
    output.Column("FAULT", lambda row: row["fault"]),
    output.Column("JOB", lambda row: row["job_id"] or ""),
    output.Column("RUN", lambda row: row["run_id"] or ""),
    output.Column("WHAT", lambda row: row["text"]),
    output.Column("WHAT TO DO", lambda row: row["repaired"] or row["advice"]),
]


@dataclass(frozen=True, slots=True)
class Asked:
    """What an audit is to do: since when it judges (None: a day ago by the database's clock), and whether it mends."""

    since: timedelta | datetime = timedelta(days=1)
    repair: bool = False


def since(text: str) -> timedelta | datetime:
    """`24h`, or an RFC 3339 time. Raises click.BadParameter."""
    try:
        return durations.parse_duration(text)
    except ValueError:
        pass
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither a duration like 24h nor an RFC 3339 time") from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def run(invocation: options.Invocation, databases: Iterable[tuple[str, str]], asked: Asked) -> int:
    """Audit databases, given by (name, address); print what is wrong. Returns the exit code: 1 if something is left wrong."""
    return asyncio.run(_audit(invocation, list(databases), asked))


async def _audit(invocation: options.Invocation, databases: list[tuple[str, str]], asked: Asked) -> int:
    rows: list[dict[str, Any]] = []
    left = 0
    for name, url in databases:
        async for row in _rows(url, asked):
            if len(databases) > 1:
                row["database"] = name
            left += row["repaired"] is None
            if invocation.output == "jsonl":
                output.show_list(invocation, [row], COLUMNS, "fault")
            elif len(rows) < AT_MOST:
                rows.append(row)
    if invocation.output != "jsonl":
        _show(invocation, rows, len(databases) > 1)
    return 1 if left else 0


def _show(invocation: options.Invocation, rows: list[dict[str, Any]], several: bool) -> None:
    if not rows:
        output.say(
            invocation, "The books balance: every tick is a run or a skip, and every row has what belongs to it."
        )
    if len(rows) == AT_MOST:
        output.say(invocation, f"These are the first {AT_MOST}; `-o jsonl` tells all.")
    if rows or invocation.output != "table":
        database = [output.Column("DATABASE", lambda row: row["database"])] if several else []
        output.show_list(invocation, rows, [*database, *COLUMNS], "fault")


async def _rows(url: str, asked: Asked) -> AsyncIterator[dict[str, Any]]:
    """What is wrong in one database, and what was done about it. Mended once everything is read: see `repairs`."""
    from horarium.services import auditor, repairs
    from horarium.store import migrator
    from horarium.store.database import Database

    database = Database(url, pool_size=2)
    await database.open()
    try:
        async with database.connection() as connection:
            if (await migrator.status(connection)).pending:
                raise errors.ConfigurationError("the database lacks migrations: run `horarium db migrate`")
        to_mend: list[Fault] = []
        async for fault in auditor.faults(database, await _since(database, asked.since)):
            if asked.repair and repairs.can(fault) and len(to_mend) < AT_MOST:
                to_mend.append(fault)
            else:
                yield _row(fault, None)
        for fault in to_mend:
            yield _row(fault, await repairs.repair(database, fault))
    finally:
        await database.close()


async def _since(database: Database, since: timedelta | datetime) -> datetime:
    return since if isinstance(since, datetime) else await database.now() - since


def _row(fault: Fault, repaired: str | None) -> dict[str, Any]:
    from horarium.domain.faults import ADVICE

    return {
        "fault": str(fault.kind),
        "tenant": fault.tenant_id,
        "job_id": None if fault.job_id is None else str(fault.job_id),
        "run_id": None if fault.run_id is None else str(fault.run_id),
        "shard": fault.shard,
        "first": _instant(fault.first),
        "last": _instant(fault.last),
        "count": fault.number,
        "text": fault.text,
        "advice": ADVICE[fault.kind],
        "repaired": repaired,
    }


def _instant(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat().replace("+00:00", "Z")
