"""The databases of the tests themselves: fresh for each test, and gone with the run."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from horarium.store import migrator
from tests import databases, requirements_of_tests


async def test_a_database_is_migrated_and_fresh(databases_of_run: databases.Session, database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    assert not (await migrator.status(connection)).pending
    assert await connection.fetchval("SHOW search_path") == "horarium, public"
    await connection.execute("CREATE TABLE trace (n int)")

    other_url = databases_of_run.create_database()
    other = await asyncpg.connect(other_url)
    assert await other.fetchval("SELECT to_regclass('trace')") is None
    await other.close()
    await connection.close()
    databases_of_run.drop_database(other_url)


async def test_an_empty_database_holds_nothing(empty_database_url: str) -> None:
    connection = await asyncpg.connect(empty_database_url)
    assert (await migrator.status(connection)).applied == ()
    await connection.close()


async def test_a_database_is_dropped_although_somebody_is_connected(databases_of_run: databases.Session) -> None:
    url = databases_of_run.create_database(migrated=False)
    forgotten = await asyncpg.connect(url)
    databases_of_run.drop_database(url)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(url)
    forgotten.terminate()


OWNER = """
import sys
from tests import databases
with databases.Owner() as owner:
    session = databases.Session(owner.directory)
    print(owner.directory, flush=True)
    print(session.admin_url(), flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("ending", [None, signal.SIGKILL], ids=["in_order", "killed"])
def test_the_cluster_ends_with_its_run(ending: signal.Signals | None) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        directory = Path(owner.stdout.readline().strip())
        assert owner.stdout.readline().startswith("postgresql://")
        keeper = (directory / "keeper").open()
        if ending is not None:
            owner.send_signal(ending)
    fcntl.flock(keeper, fcntl.LOCK_SH)  # held by the keeper until it has cleaned up
    keeper.close()
    assert not directory.exists()


def test_a_missing_part_skips_with_the_name_of_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(requirements_of_tests.REQUIRE_ALL, raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt-get install util-linux"):
        requirements_of_tests.require("setpriv", False)


def test_a_missing_part_fails_where_all_must_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(requirements_of_tests.REQUIRE_ALL, "1")
    with pytest.raises(pytest.fail.Exception, match="apt-get install util-linux"):
        requirements_of_tests.require("setpriv", False)
    requirements_of_tests.require("setpriv", True)
