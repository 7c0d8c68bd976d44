"""Two versions side by side: nodes of this version work on while, and after, a later one expands the schema under load.

What a later version may add without breaking this one (phase expand) is added: to every table columns that may be NULL or have a
default; an index, a table, a value in the facts of the cluster. Statements that were prepared before go on, too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from horarium.store import migrator
from tests.cluster import load, nodes, processes
from tests.cluster.nodes import Nodes

NEXT = 9_000
TABLES = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'horarium' AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> 'schema_version'
"""


@pytest.fixture
async def two(database_url: str, tmp_path: Path) -> AsyncIterator[Nodes]:
    async with nodes.started(tmp_path, [database_url] * 2) as made:
        yield made


async def record(rows: asyncpg.Connection, version: int, phase: str) -> None:
    """Write down a migration that this version does not know, as the later version does that applies it."""
    await rows.execute(migrator.SQL.record_applied, version, f"later_{version}", phase, "0" * 64)


async def expand(rows: asyncpg.Connection) -> None:
    """Add to every table, as a later version would: in small transactions, under load."""
    await rows.execute("SET lock_timeout = '10s'")
    for (table,) in await rows.fetch(TABLES):
        await rows.execute(
            f"ALTER TABLE {table} ADD COLUMN later text, ADD COLUMN later_count integer NOT NULL DEFAULT 0"
        )
    await rows.execute("CREATE INDEX later_runs ON runs (job_id, later)")
    await rows.execute("CREATE TABLE later (id bigint PRIMARY KEY)")
    await rows.execute("INSERT INTO cluster (key, value) VALUES ('later', 'yes')")
    await record(rows, NEXT, "expand")


@pytest.mark.cluster
async def test_the_schema_is_expanded_under_load_and_an_older_node_joins(two: Nodes) -> None:
    first, second = two.here
    async with first.database() as rows, load.under_load(first) as client:
        await expand(rows)
        await client.acknowledges(100)
        assert await two.servers[1].stop() == 0
        await second.start_server()
        await nodes.shared_by(rows, 2)
        second.worker_urls = second.url
        await second.start_worker()
        await load.balanced(first, client)
        repeated, _ = await nodes.start_lags(rows, await rows.fetchval("SELECT min(created_at) FROM jobs"))
        assert repeated == 0
        told = [line for each in (0, 1) for line in two.told(each) if line["event"] == "duty_failed"]
        assert told == [], "an expansion goes unnoticed"


@pytest.mark.cluster
async def test_a_node_does_not_start_on_a_schema_that_was_contracted_beyond_it(
    database_url: str, tmp_path: Path
) -> None:
    here = processes.Installation(tmp_path, database_url)
    async with here.database() as rows:
        await record(rows, NEXT, "contract")
    server = processes.Process(
        tmp_path / "server.log", "serve", "--port", "0", environment={"HORARIUM_DATABASE_URL": database_url}
    )
    await server.start()
    assert await server.wait() != 0
    assert f"contracted by migration {NEXT}" in (tmp_path / "server.log").read_text()
