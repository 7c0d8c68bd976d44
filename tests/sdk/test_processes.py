"""Handlers in child processes: their results, their death, and that they can be stopped and killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from horarium.protocol import messages
from horarium.sdk import executor, processes, threads, worker
from tests.sdk import peer as peers
from tests.sdk import process_app


@pytest.fixture
async def children() -> AsyncIterator[processes.Processes]:
    """Children of the test application, all killed at the end."""
    running = processes.Processes("tests.sdk.process_app:h", kill_after_s=0.2)
    yield running
    await running.close()


@pytest.fixture
def carriers(children: processes.Processes) -> dict[str, worker.Carrier]:
    return executor.carriers_of(process_app.h.handlers, threads.Threads(), children)


def value(result: messages.Result) -> Any:
    assert result.outcome == "succeeded", result
    return json.loads(bytes(result.result))  # type: ignore[arg-type]


async def test_a_run_in_a_child_and_the_child_is_kept(peer: peers.Peer, carriers: dict[str, worker.Carrier]) -> None:
    async with peers.working(peer, carriers):
        (first,) = await peer.offer("process.who", {"name": "ä"})
        result = await peer.result(first)
        (second,) = await peer.offer("process.who", {"name": "b"})
        again = value(await peer.result(second))
        (third,) = await peer.offer("process.async")
        assert value(await peer.result(third)) == again["pid"]
    assert value(result) == {"pid": again["pid"], "run": first, "name": "ä"}
    assert again["pid"] != os.getpid()
    assert result.progress == messages.Progress(0.5, "half")
    assert [(line.message, bytes(line.fields)) for line in result.logs] == [("hello", '{"name":"ä"}'.encode())]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("what", "outcome", "delay", "error"),
    [
        ("retry", "failed", 300.0, ("Retry", "later")),
        ("snooze", "snooze", 3600.0, ("Snooze", "snoozed for 3600 s")),
        ("discard", "discard", None, ("Discard", "never")),
        ("oops", "failed", None, ("ValueError", "oops")),
        ("exit", "failed", None, ("SystemExit", "3")),
        ("die", "failed", None, ("ProcessDied", "the handler's process was ended by SIGKILL")),
        ("os_exit", "failed", None, ("ProcessDied", "the handler's process exited with status 7")),
    ],
)
async def test_what_a_child_raises(
    peer: peers.Peer, carriers: dict[str, worker.Carrier], what: str, outcome: str, delay: float, error: tuple[str, str]
) -> None:
    async with peers.working(peer, carriers):
        (run_id,) = await peer.offer("process.raise", {"what": what})
        result = await peer.result(run_id)
    assert (result.outcome, result.retry_in_s) == (outcome, delay)
    assert result.error is not None and (result.error.class_, result.error.message) == error
    if what == "oops":
        assert result.error.traceback is not None and "process_app.py" in result.error.traceback


async def test_a_value_that_cannot_be_kept_and_a_payload_that_does_not_fit(
    peer: peers.Peer, carriers: dict[str, worker.Carrier]
) -> None:
    async with peers.working(peer, carriers):
        (odd,) = await peer.offer("process.odd")
        (wrong,) = await peer.offer("process.who", {"name": 7})
        result = await peer.result(odd)
        assert result.outcome == "succeeded" and "cannot be written as JSON" in result.logs[0].message
        assert (await peer.result(wrong)).outcome == "discard"


async def test_a_timeout_raises_in_the_child(
    peer: peers.Peer, carriers: dict[str, worker.Carrier], tmp_path: Path
) -> None:
    note = tmp_path / "note"
    async with peers.working(peer, carriers):
        (warm,) = await peer.offer("process.who", {"name": "warm"})
        await peer.result(warm)
        (run_id,) = await peer.offer("process.wait", {"note": str(note)}, timeout_s=0.5)
        result = await peer.result(run_id)
    assert result.error is not None and result.error.class_ == "Timeout"
    assert [line.message for line in result.logs] == ["waiting"]
    assert note.read_text() == "stopped True"


async def test_a_child_that_does_not_stop_is_killed_with_its_own_children(
    peer: peers.Peer, carriers: dict[str, worker.Carrier], tmp_path: Path
) -> None:
    note = tmp_path / "note"
    peer.lease_s = 0.6
    async with peers.working(peer, carriers, slots=1):
        (run_id,) = await peer.offer("process.deaf", {"note": str(note)})
        await peer.beat_of(run_id, lambda run: run.logs)
        family = [psutil.Process(int(pid)) for pid in note.read_text().split()]
        peer.cancelled.add(run_id)
        result = await peer.result(run_id)
        assert result.error is not None and result.error.class_ == "Cancelled"
        await _gone(family)
        (after,) = await peer.offer("process.who", {"name": "x"})
        assert value(await peer.result(after))["pid"] != family[0].pid


async def test_the_grace_period_counts_for_children_too(
    peer: peers.Peer, carriers: dict[str, worker.Carrier], tmp_path: Path
) -> None:
    note = tmp_path / "note"
    peer.lease_s = 0.6
    async with peers.working(peer, carriers, grace_s=0.1) as running:
        (run_id,) = await peer.offer("process.wait", {"note": str(note)})
        await peer.beat_of(run_id, lambda run: run.logs)
        running.stop()
        assert (await peer.result(run_id)).outcome == "interrupted"


async def test_an_application_that_cannot_be_loaded_is_told(peer: peers.Peer) -> None:
    children = processes.Processes("tests.sdk.nowhere:h")
    async with peers.working(peer, executor.carriers_of(process_app.h.handlers, threads.Threads(), children)):
        (run_id,) = await peer.offer("process.who", {"name": "x"})
        result = await peer.result(run_id)
    assert result.outcome == "failed" and result.error is not None
    assert result.error.class_ == "ConfigurationError" and "tests.sdk.nowhere" in result.error.message


async def test_a_child_dies_with_its_worker(tmp_path: Path) -> None:
    """The worker is killed outright while its child is at work."""
    note = tmp_path / "note"
    code = (
        "import asyncio, msgspec; from horarium.protocol import messages; from horarium.sdk import attempt, processes;"
        "from tests.sdk import process_app as app; raw = lambda text: msgspec.Raw(text.encode());"
        f'payload = raw(\'{{"note": "{note}"}}\');'
        "lease = messages.Lease('r', 'j', 1, 1, raw('{}'), payload, '2026-12-01T02:00:00Z', 300, 15);"
        "call = processes.Processes('tests.sdk.process_app:h').call;"
        "asyncio.run(call(app.h.handlers['process.deaf'], attempt.Attempt(lease, 0.0)))"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    family = [psutil.Process(int(pid)) for pid in (await parent.stdout.readline()).split()]
    parent.send_signal(signal.SIGKILL)
    await parent.wait()
    await _gone(family)


async def _gone(family: list[psutil.Process]) -> None:
    """Wait until these processes have ended."""
    await asyncio.to_thread(psutil.wait_procs, family, peers.PATIENCE_S)
    assert not any(member.is_running() and member.status() != psutil.STATUS_ZOMBIE for member in family)
