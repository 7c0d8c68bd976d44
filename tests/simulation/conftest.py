"""Fixtures: a real PostgreSQL for the tests of the model against it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

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
async def postgres(emptied_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to a database without rows."""
    opened = await asyncpg.connect(emptied_url)
    yield opened
    await opened.close()
