"""`horarium dev` as a person starts it: one process, with PostgreSQL, a server and workers behind it."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from horarium.cli import client

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

READY = re.compile(r"^HORARIUM READY url=(http://127\.0\.0\.1:\d+) key_file=(\S+)$")
ENDS_WITHIN_S = 40


@dataclass(frozen=True, slots=True)
class Dev:
    """A `horarium dev` that is ready: what it printed up to then, and who speaks for it."""

    process: subprocess.Popen[str]
    printed: list[str]
    url: str
    key_file: Path

    @property
    def server(self) -> client.Client:
        return client.Client([self.url], self.key_file.read_text(encoding="utf-8").strip())

    def family(self) -> list[psutil.Process]:
        """Everything that was started by it."""
        return psutil.Process(self.process.pid).children(recursive=True)


def start(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HORARIUM_")}
    environment |= {"HORARIUM_PROFILE": str(directory / "profile.toml"), "PYTHONPATH": str(directory)}
    command = [sys.executable, "-m", "horarium", "dev", "--data-dir", str(directory / "data"), *arguments]
    return subprocess.Popen(
        command, cwd=directory, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


@contextmanager
def running(directory: Path, *arguments: str) -> Iterator[Dev]:
    """One that is ready; what still runs at the end is killed."""
    with start(directory, "--port", "0", *arguments) as process:
        try:
            yield ready(process)
        finally:
            process.kill()


def ready(process: subprocess.Popen[str]) -> Dev:
    assert process.stdout is not None
    printed = []
    for line in process.stdout:
        printed.append(line.rstrip("\n"))
        if found := READY.match(printed[-1]):
            return Dev(process, printed, found[1], Path(found[2]))
    raise AssertionError("\n".join(printed))


def ended(process: subprocess.Popen[str]) -> str:
    """Wait for its end; what it printed."""
    printed, _ = process.communicate(timeout=ENDS_WITHIN_S)
    return printed


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(
        "from horarium import Horarium\nh = Horarium()\n\n@h.job('own.hello')\nasync def hello(ctx):\n    return 'hi'\n",
        encoding="utf-8",
    )
    return tmp_path


def follow(server: client.Client, run_id: str) -> None:
    """Until the run has ended: the server ends the stream then."""
    events = list(server.events(f"/v1/runs/{run_id}/logs", {"follow": 1}))
    assert events[-1][0] == "end"


def test_everything_works_and_stops_in_order(directory: Path) -> None:
    with running(directory, "own:h") as dev:
        assert stat.S_IMODE(dev.key_file.stat().st_mode) == 0o600
        assert sum(line.startswith("HORARIUM ") for line in dev.printed) == 1
        assert sum(line.startswith("  horarium ") for line in dev.printed) == 3
        profile = (directory / "profile.toml").read_text(encoding="utf-8")
        assert dev.url in profile

        job = dev.server.post("/v1/jobs", {"target": {"handler": "own.hello"}, "run_at": "now"})
        follow(dev.server, job["run_id"])
        assert dev.server.get(f"/v1/runs/{job['run_id']}")["result"] == "hi"
        run = dev.server.post("/v1/jobs/name:sample.http/run", {})
        follow(dev.server, run["id"])
        assert dev.server.get(f"/v1/runs/{run['id']}")["state"] == "succeeded"
        assert names(dev) >= {
            "sample.every_second",
            "sample.every_minute",
            "sample.flaky",
            "sample.hopeless",
            "sample.http",
        }

        second = start(directory, "--port", "0")
        assert f"in use by process {dev.process.pid}" in ended(second)
        assert second.returncode == 1

        family = dev.family()
        assert len(family) >= 4
        dev.process.send_signal(signal.SIGINT)
        lines = ended(dev.process).splitlines()
        assert lines[-3:] == ["stopping the workers", "stopping the server", "stopping PostgreSQL"]
        assert dev.process.returncode == 0
        _, alive = psutil.wait_procs(family, timeout=0)
        assert not alive


def test_what_was_made_is_there_again_and_nothing_outlives_a_kill(directory: Path) -> None:
    with running(directory, "--no-samples") as first:
        assert names(first) == set()
        key = first.key_file.read_text(encoding="utf-8")
        first.server.post("/v1/jobs", {"name": "kept", "schedule": "@daily", "target": {"handler": "x"}})
        family = first.family()
        first.process.kill()
        ended(first.process)
        _, alive = psutil.wait_procs(family, timeout=ENDS_WITHIN_S)
        assert not alive

    with running(directory, "--no-samples") as again:
        assert again.key_file.read_text(encoding="utf-8") == key
        assert names(again) == {"kept"}
        again.process.send_signal(signal.SIGTERM)
        ended(again.process)
        assert again.process.returncode == 0


def test_a_port_that_is_taken_is_told_before_anything_starts(directory: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with start(directory, "--port", str(port)) as process:
            assert f"port {port} cannot be used" in ended(process)
    assert process.returncode == 2
    assert not (directory / "data").exists()


def shown_within(seconds: float, look: Callable[[], bool]) -> None:
    """Look until it is so: the samples' worker declares its jobs while others work already."""
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline
        threading.Event().wait(0.1)


def names(dev: Dev) -> set[str]:
    jobs: list[dict[str, Any]] = list(dev.server.pages("/v1/jobs"))
    return {job["name"] for job in jobs if job["name"]}
