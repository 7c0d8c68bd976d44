"""Forward-only, numbered, checksummed migrations under an advisory lock.

A migration is a file `NNNN_name.sql` whose first line names its phase: `-- phase: expand` adds (an older node goes on
working beside it), `-- phase: contract` takes away. A migration that was applied is final: a changed text is refused.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import asyncpg

from horarium import errors
from horarium.store import statements

SQL = statements.load("migrator")

_FILE = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")
_PHASE = re.compile(r"\A-- phase: (expand|contract)\n")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    version: int
    name: str
    phase: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Status:
    """How far a database is: versions applied, and the migrations that are still to come."""

    applied: tuple[int, ...]
    pending: tuple[Migration, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """What a new database is: its number and name among those of its cluster, and the shards that live in it at first."""

    shards: int
    here: Sequence[int]
    number: int = 0
    name: str = "a"
    cluster_id: str = ""
    cursor_secret: str = ""


@cache
def migrations() -> tuple[Migration, ...]:
    """All migrations that this version of Horarium knows, in order."""
    folder = resources.files("horarium.store").joinpath("sql", "migrations")
    return tuple(sorted((_read(entry.name, entry.read_text("utf-8")) for entry in folder.iterdir()), key=_version))


async def migrate(connection: asyncpg.Connection, *, shards: int = 16, place: Place | None = None) -> list[Migration]:
    """Bring a database to the newest schema; returns what was applied. Safe to call from several nodes at once.

    `shards` and `place` count in a new database only: their number never changes. Without `place` it is one of its own,
    and all shards live in it.
    """
    place = place or Place(shards, range(shards))
    async with connection.transaction():
        await connection.execute(SQL.lock_migrations)
        await connection.execute(SQL.prepare_schema)
        await connection.execute(SQL.create_schema_version)
        await connection.execute(SQL.set_search_path)
        pending = (await status(connection)).pending
        for migration in pending:
            await connection.execute(migration.text)
            await connection.execute(
                SQL.record_applied, migration.version, migration.name, migration.phase, migration.checksum
            )
        await _settle(connection, place)
        await connection.execute(SQL.make_partitions)
        await connection.execute(SQL.remember_search_path)
    await connection.execute(SQL.use_schema)
    return list(pending)


async def _settle(connection: asyncpg.Connection, place: Place) -> None:
    """Write down what a new database is; one that knows already stays as it is."""
    cluster_id = place.cluster_id or str(uuid.uuid4())
    secret = place.cursor_secret or secrets.token_hex(32)
    is_new = await connection.fetchval(
        SQL.insert_cluster_facts, place.shards, cluster_id, secret, place.number, place.name
    )
    if is_new:
        await connection.execute(SQL.insert_shards, list(place.here))
        if place.number:
            await connection.execute(SQL.number_ids, place.number)


async def status(connection: asyncpg.Connection) -> Status:
    """What is applied and what is pending.

    Raises ConfigurationError when a migration's text is not the one that was applied, or when the database was contracted
    beyond what this version knows.
    """
    if not await connection.fetchval(SQL.schema_exists):
        return Status((), migrations())
    rows = await connection.fetch(SQL.applied)
    known = {migration.version: migration for migration in migrations()}
    for row in rows:
        _check(row["version"], row["phase"], row["checksum"], known)
    applied = tuple(row["version"] for row in rows)
    return Status(applied, tuple(migration for migration in migrations() if migration.version not in applied))


async def facts(connection: asyncpg.Connection) -> dict[str, str]:
    """What never changes: `shards`, `cluster_id`, `cursor_secret`; and of this database: `database` (number), `database_name`."""
    return {row["key"]: row["value"] for row in await connection.fetch(SQL.cluster_facts)}


async def next_number(connection: asyncpg.Connection, last: int) -> int:
    """Draw the number of another database, in the home database; `last` counts where no number was drawn before."""
    number: int = await connection.fetchval(SQL.next_number, last)
    return number


def _check(version: int, phase: str, checksum: str, known: dict[int, Migration]) -> None:
    migration = known.get(version)
    if migration is None and phase == "contract":
        raise errors.ConfigurationError(
            f"the database was contracted by migration {version}, which this version of Horarium does not know: upgrade this node"
        )
    if migration is not None and migration.checksum != checksum:
        raise errors.ConfigurationError(
            f"migration {version} was applied with another text: an applied migration is final"
        )


def _read(file_name: str, text: str) -> Migration:
    name = _FILE.match(file_name)
    phase = _PHASE.match(text)
    if name is None or phase is None:
        raise errors.ConfigurationError(f"migration {file_name}: the name or the phase line is malformed")
    return Migration(int(name[1]), name[2], phase[1], text)


def _version(migration: Migration) -> int:
    return migration.version
