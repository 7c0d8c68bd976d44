"""The home database is down: no new login, and the runs on the other database go on, with their workers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from tests import several
from tests.cluster.processes import installation
from tests.cluster.waiting import until


@asynccontextmanager
async def down(admin_url: str, url: str) -> AsyncIterator[None]:
    """A database that lets nobody in."""
    name = urlsplit(url).path[1:]
    admin = await asyncpg.connect(admin_url)
    try:
        await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
        yield
    finally:
        await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        await admin.close()


async def more_runs(url: str, shards: list[int]) -> None:
    """Wait until runs of these shards end that were not there at first."""
    connection = await asyncpg.connect(url, server_settings={"search_path": "horarium, public"})
    try:
        query = "SELECT count(*) FROM history WHERE state = 'succeeded' AND shard = ANY($1)"
        before = await connection.fetchval(query, shards)

        async def look() -> bool:
            return bool(await connection.fetchval(query, shards) >= before + 3)

        await until(look, f"further runs of shards {shards}")
    finally:
        await connection.close()


async def test_runs_of_the_other_database_go_on(database_urls: list[str], admin_url: str, tmp_path: Path) -> None:
    async with several.joined(database_urls, 4) as databases:
        shards = databases.living(1)
    async with installation(tmp_path, several.addressed(database_urls)) as made:
        await made.start_worker()
        body = {"target": {"handler": "tick"}, "interval_s": 1}
        for number in range(16):
            await made.call("POST", "/v1/jobs", {**body, "name": f"every-second-{number}"}, expect=201)
        unseen = (await made.call("POST", "/v1/api-keys", {"role": "viewer"}, expect=201))["token"]
        await more_runs(database_urls[1], shards)
        async with down(admin_url, database_urls[0]):
            await more_runs(database_urls[1], shards)
            page = await made.call("GET", "/v1/jobs?partial=true", expect=200)
            assert page["missing"] == ["a"]
            assert (await made.call("GET", "/readyz", expect=200))["faults"] == ["database a does not answer"]
            once = {"target": {"handler": "tick"}, "run_in_s": 3600}
            await made.call("POST", "/v1/jobs", once, expect=201)
            known = made.key_file.read_text()
            made.key_file.write_text(unseen)
            assert (await made.call("GET", "/v1/jobs", expect=503))["detail"].startswith("database a")
            made.key_file.write_text(known)
        await more_runs(database_urls[0], [0, 2])
        await made.call("GET", "/v1/jobs", expect=200)
