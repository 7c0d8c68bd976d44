"""The child process in which handlers with `process=True` run: `python -m horarium.sdk.child FD`.

It talks to its worker over the socket with that file descriptor. A thread reads, so that the child dies with its worker
even while a handler is at work; handlers run in the main thread, where SIGTERM raises `Interrupted` in them.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

import msgspec

from horarium.protocol import messages
from horarium.sdk import client, context, loader, outcome, pipe, signals, signature


class Interrupted(BaseException):
    """The worker wants this handler to stop."""


class Stream:
    """Frames over a socket: read in a thread, written from the main one."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._frames: queue.SimpleQueue[pipe.ToChild] = queue.SimpleQueue()
        self._writing = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def receive(self) -> pipe.ToChild:
        """The next frame from the worker."""
        return self._frames.get()

    def send(self, message: msgspec.Struct) -> None:
        """Send a frame to the worker."""
        with self._writing:
            try:
                self._connection.sendall(pipe.frame(message))
            except OSError:
                _die()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError, msgspec.DecodeError):
            while header := self._exactly(pipe.HEADER_BYTES):
                self._frames.put(pipe.to_child(self._exactly(pipe.length(header))))
        _die()

    def _exactly(self, size: int) -> bytes:
        return self._connection.recv(size, socket.MSG_WAITALL)


def _die() -> None:
    """The worker is gone, its runs are somebody else's soon: end at once, with everything that handlers started."""
    os.killpg(0, signal.SIGKILL)


class PipeSink:
    """What a context needs, passed on to the worker."""

    def __init__(self, stream: Stream, lease: messages.Lease) -> None:
        self.lease = lease
        self.stopping = False
        self._stream = stream

    def set_progress(self, fraction: float, message: str) -> None:
        """Tell the worker."""
        self._stream.send(pipe.Moved(fraction, message))

    def add_line(self, level: messages.Level, message: str, fields: Mapping[str, Any] | None) -> None:
        """Tell the worker."""
        self._stream.send(pipe.Said(level, message, dict(fields or {})))

    def is_stopping(self) -> bool:
        """True once SIGTERM came."""
        return self.stopping

    def wait_stopping(self, timeout_s: float | None) -> bool:
        """Sleep; SIGTERM raises out of it."""
        threading.Event().wait(timeout_s)
        return self.stopping


def main(descriptor: int) -> None:
    """Load the application, then carry out runs until the worker ends the stream."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stream = Stream(socket.socket(fileno=descriptor))
    hello = stream.receive()
    if not isinstance(hello, pipe.Hello):
        return
    sys.path[:] = hello.path
    try:
        application = loader.load(hello.app)
    except Exception as error:  # noqa: BLE001 - whatever importing it raises is told to the worker
        stream.send(pipe.Raised("error", outcome.describe(error)))
        return
    stream.send(pipe.Ready())
    while isinstance(work := stream.receive(), pipe.Work):
        stream.send(carry_out(application, work, PipeSink(stream, work.lease)))


def carry_out(application: client.Horarium, work: pipe.Work, sink: PipeSink) -> pipe.Returned | pipe.Raised:
    """One run, and how it ended."""
    try:
        with _interruptible(sink):
            handler = application.handlers[work.handler]
            positional, named = handler.signature.read(work.lease.payload)
            value = handler.function(context.Context(sink, handler.name), *positional, **named)
            if inspect.iscoroutine(value):
                value = asyncio.run(value)
            encoded = outcome.encode_value(sink, value)
            return pipe.Returned(msgspec.Raw(b"null") if encoded is msgspec.UNSET else encoded)
    except BaseException as error:  # noqa: BLE001 - sys.exit() in a handler ends its run, not the child
        return _raised(error)


@contextlib.contextmanager
def _interruptible(sink: PipeSink) -> Iterator[None]:
    """Have SIGTERM raise `Interrupted` in here, once."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sink.stopping = True
        raise Interrupted

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _raised(error: BaseException) -> pipe.Raised:
    info = outcome.describe(error)
    if isinstance(error, signals.Snooze):
        return pipe.Raised("snooze", info, error.delay_s)
    if isinstance(error, signals.Retry):
        return pipe.Raised("retry", info, error.in_s)
    if isinstance(error, signals.Discard | signature.MismatchError):
        return pipe.Raised("discard", info)
    return pipe.Raised("error", info)


if __name__ == "__main__":
    main(int(sys.argv[1]))
