"""The migrations make the schema that is committed, whole and again."""

from __future__ import annotations

import os
import re

import asyncpg
import pytest

from horarium.store import migrator
from tests import postgres
from tests.rules import schema_dump, tree

committed_version = pytest.mark.skipif(
    bool(os.environ.get(postgres.BIN)), reason="each version of PostgreSQL writes the same schema in words of its own"
)


@committed_version
def test_the_migrated_schema_is_the_committed_one(database_url: str) -> None:
    committed = schema_dump.COMMITTED.read_text("utf-8")
    assert schema_dump.dump(database_url) == committed, "python -m tests.rules.schema_dump --write"


@committed_version
async def test_migrating_again_changes_nothing(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        assert await migrator.migrate(connection) == []
    finally:
        await connection.close()
    assert schema_dump.dump(database_url) == schema_dump.COMMITTED.read_text("utf-8")


def test_migrations_are_numbered_without_a_gap() -> None:
    migrations = migrator.migrations()
    assert [migration.version for migration in migrations] == list(range(1, len(migrations) + 1))
    assert {migration.phase for migration in migrations} <= {"expand", "contract"}


def test_every_table_of_the_schema_is_in_the_reference() -> None:
    tables = set(re.findall(r"^CREATE TABLE horarium\.(\w+)", schema_dump.COMMITTED.read_text("utf-8"), re.MULTILINE))
    explained = set(
        re.findall(r"^\| `(\w+)` \|", (tree.DOCS / "reference" / "sql.md").read_text("utf-8"), re.MULTILINE)
    )
    partitions = {"history_default", "run_logs_default", "audit_default"}
    assert tables - partitions - explained == set()
