"""Child processes for handlers with `process=True`: one run at a time in each, kept for the next, killed when need be.

A child that should stop gets SIGTERM, which raises in its handler; five seconds later its whole process group is killed.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from datetime import timedelta
from typing import Any

import msgspec

from horarium.protocol import messages
from horarium.sdk import attempt as attempts
from horarium.sdk import handlers, outcome, pipe, process_group, signals


class Processes:
    """The children of one worker. `app` is the application they load, `module:attribute`."""

    def __init__(self, app: str, kill_after_s: float = process_group.KILL_AFTER_S) -> None:
        self._app = app
        self._kill_after_s = kill_after_s
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()

    async def call(self, handler: handlers.Handler[..., Any], attempt: attempts.Attempt) -> object:
        """Carry out the attempt in a child and return, or raise, what the handler did."""
        child = self._idle.pop() if self._idle else await self._spawn()
        attempt.interrupter = child.group.interrupt
        try:
            if attempt.stop is not None:  # while the child was starting
                raise asyncio.CancelledError
            return await child.carry_out(handler.name, attempt)
        finally:
            attempt.interrupter = None
            if child.is_fit:
                self._idle.append(child)
            else:
                self._remove(child)

    async def close(self) -> None:
        """Kill all children."""
        for child in list(self._all):
            self._remove(child)
            await child.group.wait()

    async def _spawn(self) -> _Child:
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "horarium.sdk.child", str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        reader, writer = await asyncio.open_connection(sock=ours)
        child = _Child(process, reader, writer, self._kill_after_s)
        self._all.add(child)
        try:
            await child.load(self._app)
        except BaseException:
            self._remove(child)
            raise
        return child

    def _remove(self, child: _Child) -> None:
        self._all.discard(child)
        child.group.kill()
        child.writer.close()


class _Child:
    """One child. `is_fit`: it waits for its next run."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        kill_after_s: float,
    ) -> None:
        self.group = process_group.ProcessGroup(process, kill_after_s)
        self.writer = writer
        self.is_fit = False
        self._reader = reader

    async def load(self, app: str) -> None:
        """Have it load the application; what that raises is raised here, too."""
        self.writer.write(pipe.frame(pipe.Hello(app, list(sys.path))))
        answer = await self._receive()
        if isinstance(answer, pipe.Raised):
            raise outcome.RemoteError(answer.error)
        self.is_fit = True

    async def carry_out(self, handler: str, attempt: attempts.Attempt) -> object:
        """One run."""
        self.is_fit = False
        self.writer.write(pipe.frame(pipe.Work(handler, attempt.lease)))
        while True:
            match await self._receive():
                case pipe.Said(level, message, fields):
                    attempt.add_line(level, message, fields)
                case pipe.Moved(fraction, message):
                    attempt.set_progress(fraction, message)
                case pipe.Returned(value):
                    self.is_fit = not self.group.was_interrupted
                    return None if bytes(value) == b"null" else value
                case pipe.Raised() as raised:
                    self.is_fit = not self.group.was_interrupted
                    raise _rebuilt(raised)

    async def _receive(self) -> pipe.ToWorker:
        try:
            header = await self._reader.readexactly(pipe.HEADER_BYTES)
            return pipe.to_worker(await self._reader.readexactly(pipe.length(header)))
        except (asyncio.IncompleteReadError, OSError, ValueError, msgspec.DecodeError):
            self.group.kill()
            obituary = f"the handler's process {process_group.describe(await self.group.wait())}"
            raise outcome.RemoteError(messages.ErrorInfo("ProcessDied", obituary)) from None


def _rebuilt(raised: pipe.Raised) -> Exception:
    """The exception that a handler raised over there."""
    reason = raised.error.message
    delay = None if raised.delay_s is None else timedelta(seconds=raised.delay_s)
    match raised.kind:
        case "retry":
            return signals.Retry(reason, in_=delay)
        case "snooze":
            return signals.Snooze(delay or timedelta(0), reason)
        case "discard":
            return signals.Discard(reason)
        case "error":
            return outcome.RemoteError(raised.error)
