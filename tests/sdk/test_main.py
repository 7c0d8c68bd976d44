"""`horarium worker` as a process: signals, exit statuses, several processes, reloading."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from horarium import errors
from horarium.sdk import main, supervisor
from tests.sdk import peer as peers

RUN = "import sys, json; from horarium.sdk import main; sys.exit(main.run_worker(**json.loads(sys.argv[1])))"
SETTINGS = {"app": "tests.sdk.cron_app:other", "queues": None, "slots": 4, "grace_s": 5.0, "reload": False}
ROOT = Path(__file__).parents[2]


@contextlib.asynccontextmanager
async def started(peer: peers.Peer, cwd: Path = ROOT, **settings: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker process for this peer; killed at the end if need be."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUN, json.dumps({**SETTINGS, **settings}), cwd=cwd, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "HORARIUM_URL": peer.url, "HORARIUM_API_KEY": "hrm_test", "HORARIUM_PROFILE": "/nowhere"},
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()  # until its own children, who have its standard error, have ended, too


async def ended(process: asyncio.subprocess.Process) -> tuple[int, str]:
    """Exit status and what was written to standard error."""
    async with asyncio.timeout(peers.PATIENCE_S):
        _, error = await process.communicate()
    return process.returncode or 0, error.decode()


async def test_sigterm_gives_back_what_does_not_end_within_the_grace_period(peer: peers.Peer) -> None:
    async with started(peer, app="tests.sdk.cron_app:h", grace_s=0.2) as process:
        (run_id,) = await peer.offer("wait")
        (done,) = await peer.offer("pid")
        await peer.result(done)
        process.send_signal(signal.SIGTERM)
        assert (await peer.result(run_id)).outcome == "interrupted"
        status, said = await ended(process)
    assert status == 0, said
    assert len(peer.stopped) == 1 and "4 slots, queues default" in said


async def test_a_second_signal_does_not_wait(peer: peers.Peer) -> None:
    async with started(peer, app="tests.sdk.cron_app:h", grace_s=3600) as process:
        (run_id,) = await peer.offer("wait")
        (done,) = await peer.offer("pid")
        await peer.result(done)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        assert (await peer.result(run_id)).outcome == "interrupted"
        assert (await ended(process))[0] == 0


async def test_built_in_targets_need_no_application(peer: peers.Peer) -> None:
    async with started(peer, app=None, http=True, commands=True) as process:
        (run_id,) = await peer.offer(None, target={"command": {"argv": ["echo", "hello"]}})
        result = await peer.result(run_id)
        (refused,) = await peer.offer(None, target={"http": {"url": peer.url}})
        assert (await peer.result(refused)).outcome == "discard"
        process.send_signal(signal.SIGTERM)
        assert (await ended(process))[0] == 0
    assert peer.requests[0].handlers == ["@http", "@command"]
    assert [line.message for line in result.logs] == ["hello"]


async def test_several_processes(peer: peers.Peer) -> None:
    async with started(peer, processes=2, app="tests.sdk.cron_app:h") as process:
        workers = await peer.until(
            lambda: two if len(two := {asked.worker.pid for asked in peer.requests}) == 2 else None
        )
        os.kill(next(iter(workers)), signal.SIGKILL)
        await peer.until(lambda: len({asked.worker.pid for asked in peer.requests}) == 3)
        process.send_signal(signal.SIGTERM)
        assert (await ended(process))[0] == 0
    assert len(peer.stopped) == 2


async def test_workers_whose_parent_was_killed_stop_by_themselves(peer: peers.Peer) -> None:
    async with started(peer, processes=2, app="tests.sdk.cron_app:h") as process:
        await peer.until(lambda: len({asked.worker.pid for asked in peer.requests}) == 2)
        process.kill()
        await peer.until(lambda: len(peer.stopped) == 2)


@pytest.mark.parametrize("processes", [1, 2])
async def test_wrong_settings_end_it_with_2(peer: peers.Peer, processes: int) -> None:
    async with started(peer, app="tests.sdk.nowhere:h", processes=processes) as process:
        status, said = await ended(process)
    assert status == 2 and "error: there is no module 'tests.sdk.nowhere'" in said and "Traceback" not in said


async def test_a_refused_worker_ends_with_1(peer: peers.Peer) -> None:
    peer.fail("lease", lambda: web.json_response({"title": "no", "detail": "unknown key"}, status=401))
    async with started(peer) as process:
        status, said = await ended(process)
    assert status == 1 and "error: the server refuses this worker: unknown key" in said


async def test_it_starts_anew_when_the_code_changes(peer: peers.Peer, tmp_path: Path) -> None:
    app = tmp_path / "changing_app.py"
    code = "from horarium import Horarium\nh = Horarium()\n@h.job('NAME')\ndef handler(ctx): pass\n"
    app.write_text(code.replace("NAME", "first"))
    async with started(peer, cwd=tmp_path, app="changing_app:h", reload=True) as process:
        await peer.until(lambda: any(asked.handlers == ["first"] for asked in peer.requests))
        app.write_text("syntax error")
        await peer.until(lambda: peer.stopped)
        app.write_text(code.replace("NAME", "second one"))
        await peer.until(lambda: any(asked.handlers == ["second one"] for asked in peer.requests))
        process.send_signal(signal.SIGTERM)
        assert (await ended(process))[0] == 0


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"app": None}, "nothing to run"),
        ({"slots": 0}, "slots: 0 is not between 1 and 10000"),
        ({"queues": "a,b=1"}, "queues"),
    ],
)
def test_settings_are_checked_before_anything_starts(changes: dict[str, Any], text: str) -> None:
    settings = {"app": "tests.sdk.cron_app:h", "queues": None, "slots": 1, "grace_s": 1.0}
    with pytest.raises(errors.ConfigurationError, match=text):
        main.prepare(main.Settings(**{**settings, **changes}))


def test_the_watch_sees_changes_of_python_files_only(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    (tmp_path / ".venv").mkdir()
    watch = supervisor.Watch(tmp_path)
    assert not watch.has_changed()
    (tmp_path / "note.txt").write_text("1")
    (tmp_path / ".venv" / "b.py").write_text("1")
    assert not watch.has_changed()
    (tmp_path / "c.py").write_text("1")
    assert watch.has_changed() and not watch.has_changed()
    os.utime(tmp_path / "a.py", (1, 1))
    assert watch.has_changed()
    (tmp_path / "c.py").unlink()
    assert watch.has_changed()
