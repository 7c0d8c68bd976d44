"""Fixtures that every part shares: a fresh database, from a cluster that starts when the first test asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import databases

_OWNER = pytest.StashKey[databases.Owner]()
_SESSION = pytest.StashKey[databases.Session]()
_WORKER_KEY = "horarium_databases"


def pytest_configure(config: pytest.Config) -> None:
    """Begin the session in the controller; join it in a worker of xdist."""
    handed_over = getattr(config, "workerinput", {}).get(_WORKER_KEY)
    if handed_over is None:
        config.stash[_OWNER] = databases.Owner().__enter__()
        handed_over = str(config.stash[_OWNER].directory)
    config.stash[_SESSION] = databases.Session(Path(handed_over))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist where the session is."""
    node.workerinput[_WORKER_KEY] = str(node.config.stash[_SESSION].directory)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the session in the controller: the cluster stops, if it was ever started."""
    owner = config.stash.get(_OWNER, None)
    if owner is not None:
        owner.__exit__()


@pytest.fixture(scope="session")
def databases_of_run(pytestconfig: pytest.Config) -> databases.Session:
    """The cluster of this run, to create databases in."""
    return pytestconfig.stash[_SESSION]


@pytest.fixture(scope="session")
def admin_url(databases_of_run: databases.Session) -> str:
    """The superuser's address of the run's cluster. Databases made there by hand are the test's to drop."""
    return databases_of_run.admin_url()


@pytest.fixture
def database_url(databases_of_run: databases.Session) -> Iterator[str]:
    """The address of a fresh database with the newest schema, dropped after the test."""
    url = databases_of_run.create_database()
    yield url
    databases_of_run.drop_database(url)


@pytest.fixture
def empty_database_url(databases_of_run: databases.Session) -> Iterator[str]:
    """The address of a fresh database with nothing in it, dropped after the test."""
    url = databases_of_run.create_database(migrated=False)
    yield url
    databases_of_run.drop_database(url)


@pytest.fixture
def empty_database_urls(databases_of_run: databases.Session) -> Iterator[list[str]]:
    """The addresses of two fresh databases with nothing in them, dropped after the test."""
    urls = [databases_of_run.create_database(migrated=False) for _ in range(2)]
    yield urls
    for url in urls:
        databases_of_run.drop_database(url)


@pytest.fixture
def database_urls(databases_of_run: databases.Session) -> Iterator[list[str]]:
    """The addresses of two fresh databases with the newest schema, dropped after the test."""
    urls = [databases_of_run.create_database() for _ in range(2)]
    yield urls
    for url in urls:
        databases_of_run.drop_database(url)
