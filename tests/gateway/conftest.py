"""Fixtures of the gateway's tests: one database for the folder, and a node on it for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests import builders, databases
from tests.gateway import wire as wires


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
async def wire(emptied_url: str) -> AsyncIterator[wires.Wire]:
    """A node that leads all shards, over HTTP."""
    async with wires.open_wire(emptied_url) as running:
        yield running


@pytest.fixture
async def taking_over(emptied_url: str) -> AsyncIterator[wires.Wire]:
    """A node that has just taken all shards and has not loaded what lives in them."""
    async with wires.open_wire(emptied_url, started=False) as running:
        yield running
