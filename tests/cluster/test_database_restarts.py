"""PostgreSQL is stopped, cut off or shut for seconds under load: nothing is lost, and the server's process stays."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import pytest

from horarium.store import migrator
from tests import postgres
from tests.cluster import load, processes
from tests.gate import Gate

SHUT_FOR_S = 3
AT_ONCE_S = 2.0
BACK_WITHIN_S = 3.0  # a second by design; this machine may have other things to do


@pytest.mark.cluster
async def test_cut_refused_and_stopped_under_load(tmp_path: Path) -> None:
    async with started() as database, Gate.before(database.url) as gate:
        here = processes.Installation(tmp_path, gate.url, lease="3s")
        here.rows_url = database.url
        try:
            server = await here.start_server()
            async with load.under_load(here) as client:
                for _ in range(3):
                    await cut_all(database.url)
                    await client.acknowledges(20)
                await refused_for_a_while(here, gate, client)
                await asyncio.to_thread(database.stop, signal.SIGQUIT)
                await asyncio.to_thread(database.start)
                await load.balanced(here, client)
                assert server.is_running
        finally:
            await here.close()


async def refused_for_a_while(here: processes.Installation, gate: Gate, client: load.Client) -> None:
    """Nobody listens for three seconds; meanwhile people are told so at once, and without a busy loop."""
    loop = asyncio.get_running_loop()
    refused = client.refused
    await gate.shut()
    with suppress(TimeoutError):
        async with asyncio.timeout(SHUT_FOR_S):
            await asyncio.Event().wait()
    began = loop.time()
    problem = await here.call("GET", "/v1/jobs", expect=503)
    assert problem["type"] == "urn:horarium:problem:unavailable"
    assert loop.time() - began < AT_ONCE_S
    assert client.refused > refused
    await gate.open()
    opened = loop.time()
    await client.acknowledges(1)
    print(f"went on {loop.time() - opened:.2f} s after the port was open again")
    assert loop.time() - opened < BACK_WITHIN_S


async def cut_all(url: str) -> None:
    """End all sessions but this one."""
    connection = await asyncpg.connect(url)
    ended = await connection.fetchval(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname IS NOT NULL AND pid <> pg_backend_pid()"
    )
    assert ended > 0
    await connection.close()


@asynccontextmanager
async def started() -> AsyncIterator[postgres.Server]:
    """A PostgreSQL with the schema."""
    with postgres.open_folder() as folder, postgres.Server(folder) as server:
        await asyncio.to_thread(server.create)
        await asyncio.to_thread(server.start)
        connection = await asyncpg.connect(server.url)
        await migrator.migrate(connection)
        await connection.close()
        yield server
