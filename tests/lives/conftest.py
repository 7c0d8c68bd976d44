"""Fixtures of whole lives: one database for the folder, emptied before each test."""

from __future__ import annotations

from collections.abc import Iterator

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
