"""The server or PostgreSQL is killed under load: nothing acknowledged is lost, and every tick of the outage has its entry."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import asyncpg
import pytest

from horarium.embedded import EmbeddedCluster
from horarium.store import migrator
from tests.cluster import processes
from tests.cluster.load import survive


@pytest.mark.cluster
async def test_the_server_is_killed_and_started_again(database_url: str, tmp_path: Path) -> None:
    here = processes.Installation(tmp_path, database_url, lease="3s")
    try:
        server = await here.start_server()

        async def fault() -> None:
            await server.kill()
            await here.start_server()

        await survive(here, fault)
    finally:
        await here.close()


@pytest.mark.cluster
async def test_postgresql_is_killed_and_started_again_without_a_restart_of_the_server(tmp_path: Path) -> None:
    cluster = EmbeddedCluster(tmp_path / "data")
    await asyncio.to_thread(cluster.start)
    try:
        connection = await asyncpg.connect(cluster.dsn)
        await migrator.migrate(connection)
        await connection.close()
        async with processes.installation(tmp_path, cluster.dsn, lease="3s") as here:

            async def fault() -> None:
                assert cluster.pid is not None
                os.kill(cluster.pid, signal.SIGKILL)
                await asyncio.to_thread(cluster.stop)
                await asyncio.to_thread(cluster.start)

            await survive(here, fault)
    finally:
        await asyncio.to_thread(cluster.stop)
