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
import os
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from typing import IO

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
    outputs = [await _Output.open("stdout"), await _Output.open("stderr")]
    try:
        process = await _start(target, environment(target, attempt.lease, environ), outputs)
        group = process_group.ProcessGroup(process, KILL_AFTER_S)
        groups.add(group)
        attempt.interrupter = group.interrupt
        if attempt.stop is not None:  # while the program was starting
            group.interrupt()
        tail = await _follow(attempt, group, outputs)
        groups.discard(group)
        return _judge(await group.wait(), tail)
    finally:
        attempt.interrupter = None
        for output in outputs:
            output.close()


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


class _Output:
    """A pipe for one of the program's outputs.

    Not the pipes of asyncio's subprocesses: those are closed only when nobody holds them any more, and what a program
    leaves running in the background may hold them for days.
    """

    def __init__(
        self, name: str, reader: asyncio.StreamReader, transport: asyncio.ReadTransport, write_end: int
    ) -> None:
        self.name = name
        self.reader = reader
        self.write_end = write_end
        self._transport = transport

    @classmethod
    async def open(cls, name: str) -> _Output:
        """A fresh pipe."""
        read_end, write_end = os.pipe()
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", 0)
        )
        return cls(name, reader, transport, write_end)

    def hand_over(self) -> None:
        """The program has its end now: the reader sees the end of the stream when it closes it."""
        os.close(self.write_end)
        self.write_end = -1

    def close(self) -> None:
        """Read no more."""
        self._transport.close()
        if self.write_end >= 0:
            self.hand_over()


async def _start(target: CommandTarget, environ: dict[str, str], outputs: list[_Output]) -> asyncio.subprocess.Process:
    stdout, stderr = outputs
    try:
        with _stdin_of(target) as stdin:
            process = await asyncio.create_subprocess_exec(
                *target.argv, stdin=stdin, stdout=stdout.write_end, stderr=stderr.write_end, cwd=target.cwd, env=environ,
                start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        message = f"{target.argv[0]} cannot be started: {error.strerror}: {error.filename}"
        raise outcome.RemoteError(messages.ErrorInfo("CommandNotStarted", message)) from None
    for output in outputs:
        output.hand_over()
    return process


@contextlib.contextmanager
def _stdin_of(target: CommandTarget) -> Iterator[IO[bytes] | int]:
    """What the program reads: a file, so that nobody has to feed it; nothing without `stdin`."""
    if target.stdin is None:
        yield asyncio.subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(target.stdin.encode())
        file.seek(0)
        yield file


async def _follow(attempt: attempts.Attempt, group: process_group.ProcessGroup, outputs: list[_Output]) -> deque[str]:
    """Keep the program's output until it has ended; returns its last lines."""
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    streams = [asyncio.create_task(_keep_lines(attempt, output.reader, output.name, tail)) for output in outputs]
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


def _judge(status: int, tail: deque[str]) -> dict[str, int]:
    if status == 0:
        return {"exit_status": 0}
    last = "\n".join(tail)
    name = "ExitStatus" if status > 0 else "EndedBySignal"
    message = f"the command {process_group.describe(status)}"
    raise outcome.RemoteError(
        messages.ErrorInfo(name, message, text.clean_tail(last, messages.MAX_TRACEBACK_CHARS) or None)
    )
