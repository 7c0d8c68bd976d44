"""The parent of several nodes: what it passes on, and when it says that all answer."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from horarium import errors, server
from horarium.cli import node_processes


def test_flags_go_on_as_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not as arguments, which everybody on the machine may read; and they win over a file that a variable names."""
    monkeypatch.setenv("HORARIUM_DATABASE_URL_FILE", str(tmp_path / "url"))
    monkeypatch.setenv("HORARIUM_LEASE", "7s")
    flags = {"database_url": "postgresql://me:secret@db/x", "port": 0, "log_level": None}
    found = node_processes._environment(flags, 8123)
    assert found["HORARIUM_DATABASE_URL"] == "postgresql://me:secret@db/x"
    assert (found["HORARIUM_PORT"], found["HORARIUM_LEASE"]) == ("8123", "7s")
    assert "HORARIUM_DATABASE_URL_FILE" not in found
    assert "HORARIUM_LOG_LEVEL" not in found
    monkeypatch.setenv("HORARIUM_DATABASE_URL_FILE", "")
    assert "HORARIUM_DATABASE_URL_FILE" in node_processes._environment({}, 8123)


def test_it_says_once_that_all_answer() -> None:
    told: list[bool] = []
    nodes = node_processes.Nodes(2, {}, lambda: told.append(True))
    for said in ("ready", "", "ready", "ready"):
        node = subprocess.Popen([sys.executable, "-c", f"print({said!r}, end='')"], stdout=subprocess.PIPE)
        node.wait()
        nodes._starting.append(node)
        nodes._living.append(node)
        nodes.look()
        assert (nodes._starting, nodes._living) == ([], [])
    assert told == [True]


def test_a_port_that_somebody_listens_on_is_refused_and_a_held_one_is_shared() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(errors.ConfigurationError, match="cannot listen"),
    ):
        server.hold_port("127.0.0.1", other.getsockname()[1])
    with server.hold_port("127.0.0.1", 0) as held:
        port = held.getsockname()[1]
        with server._listen("127.0.0.1", port, shared=True) as listener:
            assert listener.getsockname()[1] == port
