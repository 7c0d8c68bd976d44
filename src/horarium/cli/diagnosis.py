"""What `horarium doctor` judges: from a measurement to ok, warn or fail, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from horarium.store import diagnosis as store
    from horarium.store import migrator

OLDEST_POSTGRESQL = 150_000
SNAPSHOT_WARN_S = 300.0
SNAPSHOT_FAIL_S = 3600.0
# Below this many dead rows nobody notices, whatever the ratio.
DEAD_ROWS_NOTICED = 100_000
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


def snapshot(oldest: store.Snapshot | None) -> Check:
    """Whether somebody's forgotten transaction keeps the tables from being cleaned."""
    if oldest is None or oldest.age_s < SNAPSHOT_WARN_S:
        return Check("snapshots", Level.OK, "no old snapshot is held")
    level = Level.FAIL if oldest.age_s >= SNAPSHOT_FAIL_S else Level.WARN
    holder = f"process {oldest.pid}" + (f" ({oldest.application})" if oldest.application else "")
    text = f"{holder} has held a snapshot for {oldest.age_s / 60:.0f} min; dead rows cannot be taken away"
    return Check("snapshots", level, text, f"end that transaction: SELECT pg_terminate_backend({oldest.pid})")


def dead_rows(tables: Sequence[store.DeadRows]) -> Check:
    """Whether vacuum keeps up with the hot tables."""
    swollen = [table for table in tables if table.dead > max(DEAD_ROWS_NOTICED, 2 * table.live)]
    if not swollen:
        return Check("dead rows", Level.OK, "vacuum keeps up")
    text = ", ".join(f"{table.table}: {table.dead} dead, {table.live} live" for table in swollen)
    return Check("dead rows", Level.WARN, text, "look for old snapshots, then VACUUM these tables")


def leadership(found: store.Leadership) -> Check:
    """Whether every shard has a leader."""
    if found.leaderless:
        text = f"{found.leaderless} of {found.shards} shards have no leader; their jobs do not run"
        return Check("shards", Level.FAIL, text, "start a node: `horarium serve`")
    return Check("shards", Level.OK, f"all {found.shards} shards are led")
