"""A cluster's ordinary life: created, started, stopped, started again."""

from __future__ import annotations

import socket
import stat
import threading
import urllib.parse
from pathlib import Path

import asyncpg
import pytest

from horarium import embedded, errors
from horarium.embedded import ports
from tests.embedded import asking


def test_data_are_kept_from_one_run_to_the_next(data_dir: Path) -> None:
    heard: list[str] = []
    with embedded.EmbeddedCluster(data_dir, listener=heard.append) as cluster:
        assert cluster.is_running
        asking.execute(cluster.dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    assert heard == [f"creating a PostgreSQL cluster in {data_dir}"]
    assert cluster.pid is None

    with embedded.EmbeddedCluster(data_dir) as later:
        assert asking.value(later.dsn, "SELECT answer FROM kept") == 42


def test_a_cluster_is_durable_and_tuned_unless_told_otherwise(filled_dir: Path) -> None:
    with embedded.EmbeddedCluster(filled_dir, settings={"work_mem": "7MB", "max_connections": "33"}) as cluster:
        shown = {name: asking.value(cluster.dsn, f"SHOW {name}") for name in ("fsync", "synchronous_commit", "jit")}
        assert shown == {"fsync": "on", "synchronous_commit": "on", "jit": "off"}
        assert asking.value(cluster.dsn, "SHOW work_mem") == "7MB"
        assert asking.value(cluster.dsn, "SHOW max_connections") == "33"
        assert asking.value(cluster.dsn, "SHOW listen_addresses") == "127.0.0.1"
        assert asking.value(cluster.dsn, "SHOW server_encoding") == "UTF8"
        assert asking.value(cluster.dsn, "SELECT datlocale FROM pg_database WHERE datname = 'horarium'") == "C.UTF-8"
        assert asking.value(cluster.dsn, "SELECT upper('älter')") == "ÄLTER"


def test_a_volatile_cluster_does_not_sync(filled_dir: Path) -> None:
    with embedded.EmbeddedCluster(filled_dir, durable=False) as cluster:
        assert asking.value(cluster.dsn, "SHOW fsync") == "off"


def test_only_who_can_read_the_password_gets_in(filled_dir: Path) -> None:
    assert stat.S_IMODE((filled_dir / "password").stat().st_mode) == 0o600
    with embedded.EmbeddedCluster(filled_dir, durable=False) as cluster:
        address = urllib.parse.urlsplit(cluster.dsn)
        assert address.password == (filled_dir / "password").read_text().strip()
        guessed = address._replace(netloc=f"horarium:guess@127.0.0.1:{address.port}").geturl()
        with pytest.raises(asyncpg.InvalidPasswordError):
            asking.value(guessed, "SELECT 1")


def test_a_lost_password_is_replaced(filled_dir: Path) -> None:
    lost = (filled_dir / "password").read_text()
    (filled_dir / "password").unlink()
    with embedded.EmbeddedCluster(filled_dir, durable=False) as cluster:
        assert asking.value(cluster.dsn, "SELECT 1") == 1
    assert (filled_dir / "password").read_text() != lost


def test_the_socket_is_an_address_too(filled_dir: Path) -> None:
    with embedded.EmbeddedCluster(filled_dir, durable=False) as cluster:
        assert cluster.socket_dsn is not None
        assert asking.value(cluster.socket_dsn, "SELECT inet_client_addr() IS NULL")


def test_a_long_path_has_no_socket_address(closed_dir: Path) -> None:
    with embedded.EmbeddedCluster(closed_dir / ("long" * 30), durable=False) as cluster:
        assert cluster.socket_dsn is None
        assert asking.value(cluster.dsn, "SELECT 1") == 1


def test_starting_and_stopping_twice_changes_nothing(filled_dir: Path) -> None:
    cluster = embedded.EmbeddedCluster(filled_dir, durable=False)
    cluster.stop()
    cluster.start()
    pid = cluster.pid
    assert cluster.start() == cluster.dsn
    assert cluster.pid == pid
    cluster.stop()
    cluster.stop()


def test_a_restarted_cluster_keeps_its_port(filled_dir: Path) -> None:
    cluster = embedded.EmbeddedCluster(filled_dir, durable=False)
    dsn = cluster.start()
    cluster.stop()
    assert cluster.start() == dsn
    cluster.stop()


def test_a_chosen_port_is_used(filled_dir: Path) -> None:
    port = ports.free_port()
    with embedded.EmbeddedCluster(filled_dir, port=port, durable=False) as cluster:
        assert urllib.parse.urlsplit(cluster.dsn).port == port


def test_a_port_taken_meanwhile_is_given_up(filled_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((ports.HOST, 0)) as other:
        free = ports.free_port()
        offered = iter([other.getsockname()[1], free])
        monkeypatch.setattr(ports, "free_port", lambda: next(offered))
        with embedded.EmbeddedCluster(filled_dir, durable=False) as cluster:
            assert urllib.parse.urlsplit(cluster.dsn).port == free


def test_there_is_no_address_before_the_first_start(data_dir: Path) -> None:
    with pytest.raises(errors.EmbeddedPostgresError, match="has not been started"):
        _ = embedded.EmbeddedCluster(data_dir).dsn


def test_the_server_outlives_the_thread_that_started_it(filled_dir: Path) -> None:
    """Linux sends the parent-death signal when a thread ends; `asyncio.to_thread` may end its threads early."""
    cluster = embedded.EmbeddedCluster(filled_dir, durable=False)
    starter = threading.Thread(target=cluster.start)
    starter.start()
    starter.join()
    assert asking.value(cluster.dsn, "SELECT 1") == 1
    assert "shutdown request" not in cluster.log_file.read_text().split("starting PostgreSQL")[-1]
    cluster.stop()


def test_a_large_log_is_put_aside(filled_dir: Path) -> None:
    log = filled_dir / "postgres.log"
    log.write_bytes(b"an old line\n" * 1_000_000)
    with embedded.EmbeddedCluster(filled_dir, durable=False):
        assert log.stat().st_size < 100_000
    assert (filled_dir / "postgres.log.1").stat().st_size == 12_000_000


def test_a_broken_creation_is_done_again(data_dir: Path) -> None:
    broken = data_dir / "pgdata.new-killed"
    broken.mkdir(parents=True)
    (broken / "PG_VERSION").write_text("18\n")
    with embedded.EmbeddedCluster(data_dir, durable=False) as cluster:
        assert asking.value(cluster.dsn, "SELECT 1") == 1
    assert not broken.exists()


def test_the_directory_is_kept_out_of_version_control(filled_dir: Path) -> None:
    assert (filled_dir / ".gitignore").read_text() == "*\n"
