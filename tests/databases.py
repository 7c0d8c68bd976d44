"""Databases for tests: one embedded cluster for a whole run of pytest, one fresh database for a test.

The cluster is started by the first test that asks, in whichever xdist worker that is, and shared by all. Its launcher
is a process of its own (`database_keeper`), for a worker may end before the others. It lives as long as the run's
controller holds the lock `alive`, which the kernel gives back even when the controller is killed.

    <temporary directory>/
    ├── alive          locked by the controller, from the beginning to the end of the run
    ├── keeper         locked by the keeper while the cluster is there
    ├── starting       locked by whoever starts the cluster or makes the template
    ├── admin_url      there once the cluster is ready
    ├── template       there once the migrated template database is ready
    └── cluster/       the data directory
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
import urllib.parse
import uuid
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import asyncpg

TEMPLATE = "horarium_template"
_KEEPER = Path(__file__).with_name("database_keeper.py")


class Session:
    """The cluster of one run of pytest, as each of its processes sees it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._admin_url: str | None = None
        self._has_template = False

    def admin_url(self) -> str:
        """Return the superuser's address, starting the cluster if nobody has."""
        if self._admin_url is None:
            with locked(self.directory / "starting"):
                self._admin_url = self._recorded_url() or self._start_keeper()
        return self._admin_url

    def create_database(self, *, migrated: bool = True) -> str:
        """Create a database with a name of its own and return its address."""
        admin_url = self.admin_url()
        if migrated:
            self._ensure_template(admin_url)
        name = f"test_{uuid.uuid4().hex[:16]}"
        run(_create(admin_url, name, TEMPLATE if migrated else "template1"))
        return address_of(admin_url, name)

    def drop_database(self, url: str) -> None:
        """Drop a database, cutting whatever is still connected to it."""
        run(_execute(self.admin_url(), f"DROP DATABASE IF EXISTS {urllib.parse.urlsplit(url).path[1:]} WITH (FORCE)"))

    def _recorded_url(self) -> str | None:
        path = self.directory / "admin_url"
        return path.read_text(encoding="ascii") if path.exists() else None

    def _start_keeper(self) -> str:
        """Start the keeper, detached from this process, and wait for what it says."""
        errors_file = self.directory / "keeper.log"
        reading, writing = os.pipe()
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", str(_KEEPER), str(self.directory)],  # -P: our packages are no top-level modules
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, writing, 1),
                (os.POSIX_SPAWN_OPEN, 2, str(errors_file), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
            ],
            setsid=True,
        )
        os.close(writing)
        with os.fdopen(reading, encoding="ascii") as answers:
            url = answers.readline().strip()
        if not url:
            raise RuntimeError(f"the cluster of the tests did not start:\n{errors_file.read_text()}")
        return url

    def _ensure_template(self, admin_url: str) -> None:
        if self._has_template:
            return
        with locked(self.directory / "starting"):
            marker = self.directory / "template"
            if not marker.exists():
                run(_make_template(admin_url))
                marker.touch()
        self._has_template = True


class Owner:
    """The controller's side: the session lives from `__enter__` to `__exit__`, or to the end of this process."""

    def __enter__(self) -> Self:
        self.directory = Path(tempfile.mkdtemp(prefix="horarium-tests-"))
        self._alive = contextlib.ExitStack()
        self._alive.enter_context(locked(self.directory / "alive"))
        return self

    def __exit__(self, *_: object) -> None:
        self._alive.close()
        if (self.directory / "keeper").exists():
            with contextlib.suppress(FileNotFoundError), locked(self.directory / "keeper"):
                pass  # the keeper has stopped the cluster
        shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, waiting for it as long as it takes."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def address_of(url: str, database: str) -> str:
    """Return `url` with another database."""
    return urllib.parse.urlsplit(url)._replace(path=f"/{database}").geturl()


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a thread: this one may have an event loop of its own."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, coroutine).result()


async def _execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def _create(admin_url: str, name: str, template: str) -> None:
    # A copy does not take over what ALTER DATABASE set for its template.
    remember = [f"ALTER DATABASE {name} SET search_path = horarium, public"] if template == TEMPLATE else []
    await _execute(admin_url, f"CREATE DATABASE {name} TEMPLATE {template}", *remember)


async def _make_template(admin_url: str) -> None:
    from horarium.store import migrator  # only where a test needs the schema

    await _execute(admin_url, f"DROP DATABASE IF EXISTS {TEMPLATE} WITH (FORCE)", f"CREATE DATABASE {TEMPLATE}")
    connection = await asyncpg.connect(address_of(admin_url, TEMPLATE))
    try:
        await migrator.migrate(connection)
    finally:
        await connection.close()
