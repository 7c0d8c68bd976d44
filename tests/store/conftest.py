"""Fixtures of the control plane's tests: one database for the folder, emptied before each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from horarium.store import shards
from horarium.store.timers import Terms
from tests import builders, databases


@pytest.fixture(scope="session")
def shared_url(databases_of_run: databases.Session) -> Iterator[str]:
    """The address of a migrated database that the tests of this folder share."""
    url = databases_of_run.create_database()
    yield url
    databases_of_run.drop_database(url)


@pytest.fixture
async def emptied_url(shared_url: str) -> str:
    """The address of a migrated database without rows."""
    await builders.empty(shared_url)
    return shared_url


@pytest.fixture
async def core(emptied_url: str) -> AsyncIterator[builders.Core]:
    """The duties of a node that leads every shard, with a clock that is moved by hand."""
    async with builders.running_core(emptied_url) as running:
        yield running


@pytest.fixture
async def connection(emptied_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to a database without rows."""
    opened = await asyncpg.connect(emptied_url)
    yield opened
    await opened.close()


@pytest.fixture
async def other(emptied_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A second connection to the same database: somebody else."""
    opened = await asyncpg.connect(emptied_url)
    yield opened
    await opened.close()


@pytest.fixture
async def terms(connection: asyncpg.Connection) -> Terms:
    """The terms of a leader of every shard."""
    taken = await shards.take(connection, "node-1", builders.LONG, 4096)
    return Terms(list(taken), list(taken.values()))
