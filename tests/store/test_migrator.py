"""Migrations: forward only, once, one migrator at a time, and final once they are applied."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest

from horarium import errors
from horarium.store import migrator
from horarium.store.migrator import Migration

EVERY = tuple(migration.version for migration in migrator.migrations())
NEXT = Migration(EVERY[-1] + 1, "next", "expand", "-- phase: expand\nCREATE TABLE later (id integer);")


@pytest.fixture
async def fresh(empty_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to a database with nothing in it."""
    opened = await asyncpg.connect(empty_database_url)
    yield opened
    await opened.close()


@pytest.fixture
async def migrated(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to a database with the newest schema, which the test may spoil."""
    opened = await asyncpg.connect(database_url)
    yield opened
    await opened.close()


def know(monkeypatch: pytest.MonkeyPatch, *more: Migration) -> None:
    """Let this version of Horarium know further migrations."""
    known = (*migrator.migrations(), *more)
    monkeypatch.setattr(migrator, "migrations", lambda: known)


async def test_an_empty_database_has_everything_before_it(fresh: asyncpg.Connection) -> None:
    assert await migrator.status(fresh) == migrator.Status((), migrator.migrations())


async def test_migrations_are_applied_once(fresh: asyncpg.Connection) -> None:
    assert await migrator.migrate(fresh) == list(migrator.migrations())
    facts = await migrator.facts(fresh)
    assert await migrator.migrate(fresh) == []
    assert await migrator.status(fresh) == migrator.Status(EVERY, ())
    assert await migrator.facts(fresh) == facts
    assert set(facts) == {"shards", "cluster_id", "cursor_secret", "database", "database_name"}
    assert (facts["database"], facts["database_name"]) == ("0", "a")
    assert (facts["shards"], len(bytes.fromhex(facts["cursor_secret"]))) == ("16", 32)
    assert UUID(facts["cluster_id"]).version == 4


async def test_two_installations_share_no_secret(migrated: asyncpg.Connection, fresh: asyncpg.Connection) -> None:
    await migrator.migrate(fresh)
    mine, theirs = await migrator.facts(fresh), await migrator.facts(migrated)
    assert not {mine["cursor_secret"], mine["cluster_id"]} & set(theirs.values())


async def test_this_and_later_sessions_find_the_schema(fresh: asyncpg.Connection, empty_database_url: str) -> None:
    await migrator.migrate(fresh)
    assert await fresh.fetchval("SELECT count(*) FROM runs") == 0
    later = await asyncpg.connect(empty_database_url)
    try:
        assert await later.fetchval("SELECT count(*) FROM runs") == 0
    finally:
        await later.close()


async def test_the_number_of_shards_is_fixed_by_the_first_migration(fresh: asyncpg.Connection) -> None:
    await migrator.migrate(fresh, shards=4)
    await migrator.migrate(fresh)
    assert (await migrator.facts(fresh))["shards"] == "4"
    assert await fresh.fetchval("SELECT array_agg(shard ORDER BY shard) FROM shards") == [0, 1, 2, 3]


async def test_the_first_runs_find_their_partitions(fresh: asyncpg.Connection) -> None:
    await migrator.migrate(fresh)
    query = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'history'::regclass"
    assert await fresh.fetchval(query) == 1 + 9  # the default one; yesterday to a week ahead


async def test_two_migrators_at_once_apply_each_step_once(fresh: asyncpg.Connection, empty_database_url: str) -> None:
    other = await asyncpg.connect(empty_database_url)
    try:
        both = await asyncio.gather(migrator.migrate(fresh), migrator.migrate(other))
    finally:
        await other.close()
    assert sorted(map(len, both)) == [0, len(EVERY)]
    assert (await migrator.status(fresh)).applied == EVERY


async def test_only_what_is_new_is_applied(migrated: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, NEXT)
    assert (await migrator.status(migrated)).pending == (NEXT,)
    assert await migrator.migrate(migrated) == [NEXT]
    assert await migrated.fetchval("SELECT to_regclass('horarium.later') IS NOT NULL")
    row = await migrated.fetchrow("SELECT * FROM schema_version WHERE version = $1", NEXT.version)
    assert row is not None
    assert (row["name"], row["phase"], row["checksum"]) == ("next", "expand", NEXT.checksum)


async def test_a_step_that_fails_leaves_nothing_behind(
    migrated: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Migration(NEXT.version + 1, "broken", "expand", "-- phase: expand\nCREATE TABLE nonsense (id nothing);")
    know(monkeypatch, NEXT, broken)
    with pytest.raises(asyncpg.UndefinedObjectError):
        await migrator.migrate(migrated)
    assert (await migrator.status(migrated)).pending == (NEXT, broken)
    assert await migrated.fetchval("SELECT to_regclass('horarium.later') IS NULL")


async def test_an_applied_migration_is_final(migrated: asyncpg.Connection) -> None:
    await migrated.execute("UPDATE schema_version SET checksum = 'other' WHERE version = 1")
    for ask in (migrator.status, migrator.migrate):
        with pytest.raises(errors.ConfigurationError, match="migration 1 was applied with another text"):
            await ask(migrated)


async def test_a_database_contracted_by_a_newer_version_is_refused(migrated: asyncpg.Connection) -> None:
    query = "INSERT INTO schema_version (version, name, phase, checksum) VALUES ($1, 'newer', $2, '')"
    await migrated.execute(query, NEXT.version, "expand")
    assert await migrator.migrate(migrated) == []  # an older node goes on working beside it
    await migrated.execute(query, NEXT.version + 1, "contract")
    with pytest.raises(errors.ConfigurationError, match=f"contracted by migration {NEXT.version + 1}.*upgrade"):
        await migrator.migrate(migrated)
    with pytest.raises(errors.ConfigurationError, match="upgrade"):
        await migrator.status(migrated)
