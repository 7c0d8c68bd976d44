"""`kill -9` of the server and of its launcher: nothing acknowledged is lost, and the next start works at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from horarium import embedded
from horarium.embedded import leftovers, progress
from tests.embedded import asking

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl")


async def _write_until_cut(dsn: str, enough: asyncio.Event, acknowledged: list[int]) -> None:
    connection = await asyncpg.connect(dsn)
    # InternalClientError: asyncpg's word for a connection that was cut between two steps of a statement.
    cut = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, ConnectionError)
    with contextlib.suppress(*cut):
        for n in range(1_000_000):
            await connection.execute("INSERT INTO written VALUES ($1)", n)
            acknowledged.append(n)
            if n == 50:
                enough.set()
    connection.terminate()


async def test_what_was_acknowledged_survives_kill_9(data_dir: Path) -> None:
    cluster = embedded.EmbeddedCluster(data_dir)
    dsn = await asyncio.to_thread(cluster.start)
    connection = await asyncpg.connect(dsn)
    await connection.execute("CREATE TABLE written (n int PRIMARY KEY)")
    await connection.close()
    enough, acknowledged = asyncio.Event(), list[int]()
    writer = asyncio.create_task(_write_until_cut(dsn, enough, acknowledged))
    await enough.wait()
    assert cluster.pid is not None
    os.kill(cluster.pid, signal.SIGKILL)
    await writer
    await asyncio.to_thread(cluster.wait)

    assert await asyncio.to_thread(cluster.start) == dsn
    connection = await asyncpg.connect(dsn)
    kept = {row["n"] for row in await connection.fetch("SELECT n FROM written")}
    await connection.close()
    await asyncio.to_thread(cluster.stop)
    assert len(acknowledged) > 50
    assert kept >= set(acknowledged)
    assert "redo done" in cluster.log_file.read_text()


@linux_only
async def test_a_server_process_that_hangs_does_not_hinder_the_next_start(filled_dir: Path) -> None:
    """It holds the shared memory of the dead server, and PostgreSQL would refuse to start beside it."""
    cluster = embedded.EmbeddedCluster(filled_dir, durable=False)
    dsn = await asyncio.to_thread(cluster.start)
    connection = await asyncpg.connect(dsn)
    backend = await connection.fetchval("SELECT pg_backend_pid()")
    os.kill(backend, signal.SIGSTOP)
    assert cluster.pid is not None
    os.kill(cluster.pid, signal.SIGKILL)
    await asyncio.to_thread(cluster.wait)
    assert await asyncio.to_thread(cluster.start) == dsn
    connection.terminate()
    await asyncio.to_thread(cluster.stop)


LAUNCHER = """
import sys
from pathlib import Path
from horarium import embedded
cluster = embedded.EmbeddedCluster(Path(sys.argv[1]), durable=False)
cluster.start()
print(cluster.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def launcher(filled_dir: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that has started a cluster, and the server's process id. Ends without `stop` when stdin is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, filled_dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    yield process, int(process.stdout.readline())
    process.kill()
    process.communicate()


@linux_only
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "forgetful"])
def test_the_server_ends_with_its_launcher(
    launcher: tuple[subprocess.Popen[str], int], filled_dir: Path, killed: bool
) -> None:
    process, server = launcher
    ended = os.pidfd_open(server)
    if killed:
        process.kill()
    process.communicate()
    select.select([ended], [], [])
    os.close(ended)
    log = (filled_dir / "postgres.log").read_text()
    assert log.rstrip().endswith("database system is shut down")


@linux_only
def test_the_next_start_may_follow_the_launcher_s_death_at_once(
    launcher: tuple[subprocess.Popen[str], int], filled_dir: Path
) -> None:
    process, server = launcher
    process.kill()
    process.communicate()
    with embedded.EmbeddedCluster(filled_dir, durable=False) as cluster:
        assert cluster.pid != server
        assert asking.value(cluster.dsn, "SELECT 1") == 1


@linux_only
def test_a_server_without_launcher_is_stopped_and_started_again(filled_dir: Path) -> None:
    orphaned = embedded.EmbeddedCluster(filled_dir, durable=False)
    dsn = orphaned.start()
    asking.execute(dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    left = orphaned.pid
    orphaned._lock.release()  # as the kernel does when the launcher is killed

    heard: list[str] = []
    with embedded.EmbeddedCluster(filled_dir, durable=False, listener=heard.append) as cluster:
        assert heard == [f"stopping the PostgreSQL that an earlier launcher left running (process {left})"]
        assert not orphaned.is_running
        assert orphaned._process is not None
        assert orphaned._process.exit_status == 0  # in order, not killed
        assert asking.value(cluster.dsn, "SELECT answer FROM kept") == 42


@linux_only
def test_a_process_number_given_to_somebody_else_does_not_hinder_the_start(filled_dir: Path) -> None:
    """After the restart of a container the number in `postmaster.pid` may be that of any program of the account."""
    cluster = embedded.EmbeddedCluster(filled_dir, durable=False)
    cluster.start()
    assert cluster.pid is not None
    os.kill(cluster.pid, signal.SIGKILL)
    assert cluster.wait()
    leftovers.stop(filled_dir / "pgdata")
    noted = filled_dir / "pgdata" / "postmaster.pid"
    owner = noted.stat()
    somebody = subprocess.Popen(["sleep", "1000"], user=owner.st_uid if os.geteuid() == 0 else None)
    lines = noted.read_text().splitlines(keepends=True)
    noted.write_text("".join([f"{somebody.pid}\n", *lines[1:]]))

    cluster.start()
    assert asking.value(cluster.dsn, "SELECT 1") == 1
    cluster.stop()
    assert somebody.poll() is None
    somebody.kill()
    somebody.wait()


@linux_only
def test_recovery_is_told_of_and_leaves_no_traces(filled_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "INTERVAL", timedelta(0))
    heard: list[str] = []
    for _ in range(2):
        cluster = embedded.EmbeddedCluster(filled_dir, durable=False, listener=heard.append)
        cluster.start()
        assert not cluster.wait(timedelta(0))
        assert cluster.pid is not None
        os.kill(cluster.pid, signal.SIGKILL)
        assert cluster.wait()
        cluster.stop()
    assert any(text.startswith("PostgreSQL is starting: ") and " LOG: " in text for text in heard)

    with embedded.EmbeddedCluster(filled_dir, durable=False):
        assert len(list((filled_dir / "pgdata").glob(".s.PGSQL.*[0-9]"))) == 1


@linux_only
def test_a_shell_inside_the_data_directory_is_left_alone(filled_dir: Path) -> None:
    shell = subprocess.Popen(["sleep", "1000"], cwd=filled_dir / "pgdata")
    with embedded.EmbeddedCluster(filled_dir, durable=False):
        assert shell.poll() is None
    shell.kill()
    shell.wait()
