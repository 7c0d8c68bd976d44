"""The command target: a program's output, its end, its environment, and that it can be stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import psutil
import pytest

from horarium.protocol import messages
from horarium.sdk import attempt as attempts
from horarium.sdk import outcome, worker
from horarium.targets import command

ENVIRON = {**os.environ, "HORARIUM_API_KEY": "hrm_secret", "HORARIUM_URL": "http://x", "OTHER": "not passed on"}


@pytest.fixture
async def carrier() -> AsyncIterator[worker.Carrier]:
    async with command.serving(ENVIRON) as carry:
        yield carry


def an_attempt(code: str, **members: Any) -> attempts.Attempt:
    """An attempt to run a piece of Python as a program."""
    target = {"command": {"argv": [sys.executable, "-c", code], **members}}
    lease = messages.Lease(
        "run-1", "job-1", 2, 7, msgspec.Raw(msgspec.json.encode(target)), msgspec.Raw(b"{}"), "2026-12-01T02:00:00Z",
        timeout_s=300, lease_s=15,
    )  # fmt: skip
    return attempts.Attempt(lease, 0.0)


def lines(attempt: attempts.Attempt) -> list[tuple[str, str]]:
    """(stream, text) of each line in the log."""
    assert attempt.log_book is not None
    return [
        (msgspec.json.decode(bytes(line.fields))["stream"], line.message)  # type: ignore[arg-type]
        for line in attempt.log_book.pending()
    ]


async def test_output_is_the_runs_log(carrier: worker.Carrier) -> None:
    attempt = an_attempt(
        r"import sys; print('one\ntwo', flush=True); sys.stdout.buffer.write(b'\xff no end'); sys.stdout.flush()"
    )
    assert await carrier(attempt) == {"exit_status": 0}
    assert lines(attempt) == [("stdout", "one"), ("stdout", "two"), ("stdout", "� no end")]


async def test_a_failing_program_tells_its_status_and_last_words(carrier: worker.Carrier) -> None:
    attempt = an_attempt("import sys; sys.stderr.write('no such customer\\n'); sys.exit(3)")
    with pytest.raises(outcome.RemoteError) as caught:
        await carrier(attempt)
    assert caught.value.info == messages.ErrorInfo("ExitStatus", "the command exited with status 3", "no such customer")
    assert lines(attempt) == [("stderr", "no such customer")]


async def test_a_program_that_ends_by_a_signal(carrier: worker.Carrier) -> None:
    with pytest.raises(outcome.RemoteError) as caught:
        await carrier(an_attempt("import os; os.kill(os.getpid(), 9)"))
    assert caught.value.info == messages.ErrorInfo("EndedBySignal", "the command was ended by SIGKILL")


async def test_a_program_that_does_not_exist(carrier: worker.Carrier) -> None:
    attempt = an_attempt("", argv=["/nowhere/program"])
    with pytest.raises(outcome.RemoteError) as caught:
        await carrier(attempt)
    assert caught.value.info.class_ == "CommandNotStarted"
    assert "/nowhere/program cannot be started: No such file" in caught.value.info.message


async def test_the_environment_is_small_and_without_the_workers_secrets(carrier: worker.Carrier, tmp_path: Any) -> None:
    attempt = an_attempt(
        "import os, json; print(json.dumps({'cwd': os.getcwd(), **os.environ}))",
        env={"MINE": "1", "HORARIUM_ATTEMPT": "99"},
        cwd=str(tmp_path),
    )
    await carrier(attempt)
    seen = msgspec.json.decode(lines(attempt)[0][1])
    assert seen.pop("cwd") == str(tmp_path)
    assert {name: value for name, value in seen.items() if name.startswith("HORARIUM_") or name == "MINE"} == {
        "MINE": "1", "HORARIUM_RUN_ID": "run-1", "HORARIUM_ATTEMPT": "2", "HORARIUM_FENCING_TOKEN": "7",
        "HORARIUM_SCHEDULED_FOR": "2026-12-01T02:00:00Z",
    }  # fmt: skip
    assert "OTHER" not in seen and seen["PATH"] == os.environ["PATH"]


async def test_no_shell_reads_the_arguments(carrier: worker.Carrier) -> None:
    attempt = an_attempt("", argv=[sys.executable, "-c", "import sys; print(sys.argv[1:])", "$HOME; ls", "*"])
    await carrier(attempt)
    assert lines(attempt) == [("stdout", "['$HOME; ls', '*']")]


async def test_standard_input(carrier: worker.Carrier) -> None:
    attempt = an_attempt("import sys; print(sys.stdin.read().upper())", stdin="ä\nb")
    await carrier(attempt)
    assert lines(attempt) == [("stdout", "Ä"), ("stdout", "B")]
    without = an_attempt("import sys; print(repr(sys.stdin.read()))")
    await carrier(without)
    assert lines(without) == [("stdout", "''")]


async def test_input_that_is_not_read_does_no_harm(carrier: worker.Carrier) -> None:
    assert await carrier(an_attempt("pass", stdin="x" * 60_000 * 20)) == {"exit_status": 0}


@pytest.mark.parametrize(("length", "least"), [(10, 10_000), (1000, 1000)])
async def test_a_flood_of_output_is_cut_with_a_note(carrier: worker.Carrier, length: int, least: int) -> None:
    attempt = an_attempt(f"for i in range(50_000): print('x' * {length})")
    assert await carrier(attempt) == {"exit_status": 0}
    assert attempt.log_book is not None
    kept = attempt.log_book.pending(10**9)
    assert least <= len(kept) <= 10_000
    assert sum(len(line.message) for line in kept) <= 1024 * 1024
    assert kept[-1].message == "the log of this attempt is full; further lines are dropped"


async def test_a_line_without_end_is_kept_in_parts(carrier: worker.Carrier) -> None:
    attempt = an_attempt("import sys; sys.stdout.write('x' * 200_000)")
    await carrier(attempt)
    assert len(lines(attempt)) >= 2


async def test_a_program_is_asked_to_stop(carrier: worker.Carrier) -> None:
    attempt = an_attempt(
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'cleaning up\\n'), sys.exit(0)))\n"
        "print('ready', flush=True)\ntime.sleep(3600)"
    )
    running = asyncio.ensure_future(carrier(attempt))
    await _said(attempt, "ready")
    attempt.mark_stopped(attempts.Stop.CANCELLED)
    attempt.interrupt()
    assert await running == {"exit_status": 0}
    assert [text for _, text in lines(attempt)] == ["ready", "cleaning up"]


async def test_a_program_that_does_not_stop_is_killed_with_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "KILL_AFTER_S", 0.2)
    attempt = an_attempt(
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'])\n"
        "print('ready', flush=True)\ntime.sleep(3600)"
    )
    async with command.serving(ENVIRON) as carry:
        running = asyncio.ensure_future(carry(attempt))
        await _said(attempt, "ready")
        attempt.interrupt()
        with pytest.raises(outcome.RemoteError, match="SIGKILL"):
            await running  # which it does only once the pipes are closed, or a second later


async def test_what_a_program_leaves_behind_does_not_hold_the_run(
    carrier: worker.Carrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "LAST_WORDS_S", 0.1)
    attempt = an_attempt(
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'])\n"
        "print(child.pid, flush=True)"
    )
    before = psutil.Process().num_fds()
    assert await carrier(attempt) == {"exit_status": 0}
    os.kill(int(lines(attempt)[0][1]), signal.SIGKILL)
    await asyncio.sleep(0)
    assert psutil.Process().num_fds() <= before


async def _said(attempt: attempts.Attempt, text: str) -> None:
    """Wait until the program has printed this."""
    said = asyncio.Event()
    keep = attempt.add_line

    class Listening(attempts.Attempt):
        __slots__ = ()

        def add_line(self, level: messages.Level, message: str, fields: Any) -> None:
            keep(level, message, fields)
            if message == text:
                said.set()

    attempt.__class__ = Listening
    if attempt.log_book is not None and any(line.message == text for line in attempt.log_book.pending()):
        said.set()
    await asyncio.wait_for(said.wait(), 20)
