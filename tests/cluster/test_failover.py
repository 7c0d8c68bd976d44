"""The primary is lost or demoted, its synchronous standby promoted: the server, which knows both, goes on by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from horarium.store import migrator
from tests import postgres
from tests.cluster import load, processes, waiting
from tests.postgres import Server

Fault = Callable[[Server, Server], Awaitable[None]]


async def killed(primary: Server, standby: Server) -> None:
    """`kill -9`, and a promotion by whoever looks after the cluster."""
    await asyncio.to_thread(primary.kill)
    await asyncio.to_thread(standby.promote)


async def demoted(primary: Server, standby: Server) -> None:
    """The primary takes no writes any more, but stays, with all its connections."""
    connection = await asyncpg.connect(primary.url)
    await connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.close()
    await asyncio.to_thread(standby.promote)


@pytest.fixture
def pair() -> Iterator[tuple[Server, Server]]:
    """A migrated primary, and a standby that has everything that the primary acknowledged."""
    with postgres.open_folder() as folder, Server(folder, "primary") as primary, Server(folder, "standby") as standby:
        primary.create().start()
        standby.copy_of(primary).start()
        asyncio.run(synchronous(primary, standby))
        yield primary, standby


async def synchronous(primary: Server, standby: Server) -> None:
    connection = await asyncpg.connect(primary.url)
    await migrator.migrate(connection)
    await connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standby.name}'")
    await connection.execute("SELECT pg_reload_conf()")

    async def is_synchronous() -> bool:
        return bool(await connection.fetchval("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"))

    await waiting.until(is_synchronous, "the standby is synchronous")
    await connection.close()


@pytest.mark.cluster
@pytest.mark.parametrize("fault", [killed, demoted])
async def test_the_server_follows_to_the_promoted_standby(
    pair: tuple[Server, Server], tmp_path: Path, fault: Fault
) -> None:
    primary, standby = pair
    async with serving(tmp_path, postgres.url_of(pair)) as (here, server), load.under_load(here) as client:
        assert await connections(primary) > 1
        await fault(primary, standby)
        here.rows_url = standby.url
        began = asyncio.get_running_loop().time()
        await client.acknowledges(1)
        print(f"went on {asyncio.get_running_loop().time() - began:.2f} s after the promotion")
        await load.balanced(here, client)
        assert server.is_running
        assert await connections(standby) > 1
        if fault is demoted:
            assert await connections(primary) == 0


async def connections(server: Server) -> int:
    """How many of the server's connections PostgreSQL has."""
    connection = await asyncpg.connect(server.url)
    found: int = await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'horarium' AND datname IS NOT NULL"
    )
    await connection.close()
    return found


@asynccontextmanager
async def serving(folder: Path, url: str) -> AsyncIterator[tuple[processes.Installation, processes.Process]]:
    """An installation, with its server's process."""
    here = processes.Installation(folder, url, lease="3s")
    try:
        yield here, await here.start_server()
    finally:
        await here.close()
