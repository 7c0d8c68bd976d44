"""The command target: a program, started without a shell by a worker that was started with `--commands`.

Its output is kept as the run's log. Exit status 0 succeeds, any other is a failed attempt. On timeout or cancel its
process group gets SIGTERM, and SIGKILL five seconds later.

The program sees a small environment: a few variables that programs need, those of the target, and who it is
(`HORARIUM_RUN_ID`, `…_ATTEMPT`, `…_FENCING_TOKEN`, `…_SCHEDULED_FOR`). The worker's own variables, its API key among them,
are not passed on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Mapping

import msgspec

from horarium import errors
from horarium.protocol import messages
from horarium.sdk import attempt as attempts
from horarium.sdk import outcome, process_group, runlog, text, worker

PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
CHUNK_BYTES = 64 * 1024
TAIL_LINES = 50
KILL_AFTER_S = process_group.KILL_AFTER_S
LAST_WORDS_S = 1.0  # how long output is awaited after the program ended: what it left behind may hold the pipe


class CommandTarget(msgspec.Struct, frozen=True):
    """The `command` member of a target."""

    argv: list[str]
    env: dict[str, str] = {}
    cwd: str | None = None
    stdin: str | None = None


class _Envelope(msgspec.Struct, frozen=True):
    command: CommandTarget


_decoder = msgspec.json.Decoder(_Envelope)


@contextlib.asynccontextmanager
async def serving(environ: Mapping[str, str]) -> AsyncIterator[worker.Carrier]:
    """A carrier of command targets. Programs that still run at the end are killed."""
    groups: set[process_group.ProcessGroup] = set()

    def carry(attempt: attempts.Attempt) -> Awaitable[object]:
        return execute(attempt, environ, groups)

    try:
        yield carry
    finally:
        for group in groups:
            group.kill()


async def execute(
    attempt: attempts.Attempt, environ: Mapping[str, str], groups: set[process_group.ProcessGroup]
) -> dict[str, int]:
    """Run the program; returns its exit status 0, raises RemoteError for any other."""
    target = _decoder.decode(attempt.lease.target).command
    process = await _start(target, environment(target, attempt.lease, environ))
    group = process_group.ProcessGroup(process, KILL_AFTER_S)
    attempt.interrupter = group.interrupt
    groups.add(group)
    try:
        if attempt.stop is not None:  # while the program was starting
            group.interrupt()
        tail = await _follow(attempt, process, group, target.stdin)
    finally:
        groups.discard(group)
        attempt.interrupter = None
    return _judge(await group.wait(), tail)


def environment(target: CommandTarget, lease: messages.Lease, environ: Mapping[str, str]) -> dict[str, str]:
    """All variables that the program sees."""
    passed_on = {name: environ[name] for name in PASSED_ON if name in environ}
    who = {
        "HORARIUM_RUN_ID": lease.run_id,
        "HORARIUM_ATTEMPT": str(lease.attempt),
        "HORARIUM_FENCING_TOKEN": str(lease.fencing_token),
        "HORARIUM_SCHEDULED_FOR": lease.scheduled_for,
    }
    return {**passed_on, **target.env, **who}


async def _start(target: CommandTarget, environ: dict[str, str]) -> asyncio.subprocess.Process:
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        return await asyncio.create_subprocess_exec(
            *target.argv, stdin=nothing if target.stdin is None else pipe, stdout=pipe, stderr=pipe,
            cwd=target.cwd, env=environ, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        message = f"{target.argv[0]} cannot be started: {error.strerror}: {error.filename}"
        raise outcome.RemoteError(messages.ErrorInfo("CommandNotStarted", message)) from None


async def _follow(
    attempt: attempts.Attempt,
    process: asyncio.subprocess.Process,
    group: process_group.ProcessGroup,
    stdin: str | None,
) -> deque[str]:
    """Feed the program, keep its output, until it has ended; returns its last lines."""
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    outputs = {"stdout": process.stdout, "stderr": process.stderr}
    streams = [
        asyncio.create_task(_keep_lines(attempt, stream, name, tail)) for name, stream in outputs.items() if stream
    ]
    if stdin is not None and process.stdin is not None:
        streams.append(asyncio.create_task(_feed(process.stdin, stdin)))
    try:
        await group.wait()
        await asyncio.wait(streams, timeout=LAST_WORDS_S)
    finally:
        for stream in streams:
            stream.cancel()
    return tail


async def _keep_lines(attempt: attempts.Attempt, stream: asyncio.StreamReader, name: str, tail: deque[str]) -> None:
    """Each line of a stream into the run's log, and among the last lines; a very long line in parts."""
    rest = b""
    while chunk := await stream.read(CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) >= runlog.MAX_LINE_CHARS:
            lines.append(rest)
            rest = b""
        for line in lines:
            _keep(attempt, line, name, tail)
    if rest:
        _keep(attempt, rest, name, tail)


def _keep(attempt: attempts.Attempt, line: bytes, name: str, tail: deque[str]) -> None:
    shown = line.decode("utf-8", "replace").rstrip("\r")
    tail.append(shown)
    with contextlib.suppress(errors.LeaseLostError):  # the program is being stopped, its last words are nobody's
        attempt.add_line("info", shown, {"stream": name})


async def _feed(stdin: asyncio.StreamWriter, content: str) -> None:
    with contextlib.suppress(ConnectionError):  # it ended, or closed its input, without reading everything
        stdin.write(content.encode())
        await stdin.drain()
    stdin.close()


def _judge(status: int, tail: deque[str]) -> dict[str, int]:
    if status == 0:
        return {"exit_status": 0}
    last = "\n".join(tail)
    name = "ExitStatus" if status > 0 else "EndedBySignal"
    message = f"the command {process_group.describe(status)}"
    raise outcome.RemoteError(
        messages.ErrorInfo(name, message, text.clean_tail(last, messages.MAX_TRACEBACK_CHARS) or None)
    )
