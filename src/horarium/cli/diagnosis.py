"""What `horarium doctor` judges: from a measurement to ok, warn or fail, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from horarium.cli import times

if TYPE_CHECKING:
    from horarium.store import diagnosis as store
    from horarium.store import migrator

OLDEST_POSTGRESQL = 150_000
SNAPSHOT_WARN_S = 300.0
SNAPSHOT_FAIL_S = 3600.0
# Below this many dead rows nobody notices, whatever the ratio.
DEAD_ROWS_NOTICED = 100_000
BLOAT_NOTICED = 1024**3
# A slot tells no time: so many transactions were begun since it was read last.
SLOT_WARN_XIDS = 1_000_000
XIDS_FAIL = 1_500_000_000
HOLDERS_TOLD = 3
SKEW_WARN = timedelta(seconds=2)
CONNECTIONS_WARN = 0.8


class Level(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor. `advice` says what to do; empty when all is well."""

    name: str
    level: Level
    text: str
    advice: str = ""


def schema(status: migrator.Status) -> Check:
    """Whether the schema is the one that this version needs."""
    if not status.applied:
        return Check("schema", Level.FAIL, "the database is empty", "run `horarium db init`")
    if status.pending:
        names = ", ".join(f"{step.version:04}" for step in status.pending)
        return Check("schema", Level.FAIL, f"migrations are pending: {names}", "run `horarium db migrate`")
    return Check("schema", Level.OK, f"version {max(status.applied)}, up to date")


def postgresql(room: store.Room) -> Check:
    """Whether the server is one that we run on, with connections to spare."""
    major = room.version_num // 10_000
    text = f"PostgreSQL {major}, {room.used} of {room.most} connections in use"
    if room.version_num < OLDEST_POSTGRESQL:
        return Check("postgresql", Level.FAIL, text, "PostgreSQL 15 or later is needed")
    if room.used > CONNECTIONS_WARN * room.most:
        return Check("postgresql", Level.WARN, text, "raise max_connections, or lower pool_size of the nodes")
    return Check("postgresql", Level.OK, text)


def clock(database_now: datetime, before: datetime, after: datetime) -> Check:
    """This machine's clock against the database's, which was asked between `before` and `after`."""
    ahead = max(before - database_now, timedelta(0))
    behind = max(database_now - after, timedelta(0))
    skew = max(ahead, behind)
    text = f"this machine's clock and the database's differ by {skew.total_seconds():.2f} s"
    if skew >= SKEW_WARN:
        advice = "jobs still run by the database's clock; set this one by NTP so that logs and previews agree"
        return Check("clock", Level.WARN, text, advice)
    return Check("clock", Level.OK, text)


def snapshots(holders: Sequence[store.Holder]) -> list[Check]:
    """Whether somebody's forgotten transaction, or a slot that nobody reads, keeps the tables from being cleaned."""
    old = [(each, level) for each in holders if (level := _level_of(each)) is not Level.OK]
    if not old:
        oldest = max((each.age_s or 0.0 for each in holders), default=0.0)
        return [Check("snapshots", Level.OK, f"the oldest is {oldest:.0f} s old")]
    return [Check("snapshots", level, _held(each), _let_go(each)) for each, level in old[:HOLDERS_TOLD]]


def _level_of(holder: store.Holder) -> Level:
    if holder.age_s is None:
        return Level.WARN if (holder.xids or 0) >= SLOT_WARN_XIDS else Level.OK
    if holder.age_s >= SNAPSHOT_FAIL_S:
        return Level.FAIL
    return Level.WARN if holder.age_s >= SNAPSHOT_WARN_S else Level.OK


def _held(holder: store.Holder) -> str:
    since = f"{holder.xids} transactions" if holder.age_s is None else f"{holder.age_s / 60:.0f} min"
    query = "" if holder.query_s is None else f"; its latest statement began {holder.query_s / 60:.0f} min ago"
    return f"{holder} has held a snapshot for {since}{query}; dead rows cannot be taken away"


def _let_go(holder: store.Holder) -> str:
    match holder.kind:
        case "prepared":
            return f"commit it or roll it back: ROLLBACK PREPARED '{holder.name}'"
        case "slot":
            return f"start what reads it, or SELECT pg_drop_replication_slot('{holder.name}')"
        case _:
            return f"end that transaction: SELECT pg_terminate_backend({holder.pid})"


def tables(found: Sequence[store.Table], now: datetime) -> list[Check]:
    """Whether vacuum keeps up with the tables that are written all the time; a line for each."""
    return [_table(each, now) for each in found]


def _table(table: store.Table, now: datetime) -> Check:
    share = 100 * table.dead / max(1, table.live + table.dead)
    vacuumed = "never vacuumed" if table.vacuumed_at is None else f"vacuumed {times.relative(table.vacuumed_at, now)}"
    bloat = max(0, table.bytes - (table.needed if table.needed is not None else table.bytes))
    text = (
        f"{table.dead} of {table.live + table.dead} rows dead ({share:.0f} %), {vacuumed}, about {_mib(bloat)} to spare"
    )
    name = f"table {table.name}"
    if not table.is_vacuumed:
        return Check(name, Level.WARN, text, f"switch autovacuum_enabled of horarium.{table.name} on again")
    if table.dead > max(DEAD_ROWS_NOTICED, 2 * table.live):
        return Check(name, Level.WARN, text, f"look for old snapshots, then VACUUM horarium.{table.name}")
    if bloat > max(BLOAT_NOTICED, table.bytes // 2):
        return Check(name, Level.WARN, text, f"at a quiet time: VACUUM FULL horarium.{table.name}, or pg_repack")
    return Check(name, Level.OK, text)


def _mib(size: int) -> str:
    return f"{size / 1024**2:.0f} MiB"


def upkeep(found: store.Upkeep) -> list[Check]:
    """Whether vacuum comes by itself, and whether transaction ids run out."""
    age = f"the oldest row is {found.frozen_age / 1e6:.0f} million transactions old"
    if not (found.autovacuum and found.counts):
        vacuum = Check("autovacuum", Level.FAIL, "it is switched off", "set autovacuum and track_counts to on")
    else:
        vacuum = Check("autovacuum", Level.OK, "it is on")
    if found.frozen_age >= XIDS_FAIL:
        advice = "soon nothing can be written: end old transactions, then VACUUM (FREEZE) the whole database"
        return [vacuum, Check("wraparound", Level.FAIL, age, advice)]
    if found.frozen_age >= 2 * found.freeze_at:
        return [vacuum, Check("wraparound", Level.WARN, age, "vacuum does not get through: look for old snapshots")]
    return [vacuum, Check("wraparound", Level.OK, age)]


def leadership(found: store.Leadership) -> Check:
    """Whether every shard has a leader."""
    if found.leaderless:
        text = f"{found.leaderless} of {found.shards} shards have no leader; their jobs do not run"
        return Check("shards", Level.FAIL, text, "start a node: `horarium serve`")
    return Check("shards", Level.OK, f"all {found.shards} shards are led")
