"""One attempt as the worker holds it: the lease, what the handler said, and why it was asked to stop."""

from __future__ import annotations

import asyncio
import enum
import math
import threading
from collections.abc import Callable, Mapping
from typing import Any

from horarium import errors
from horarium.protocol import messages
from horarium.sdk import runlog, text


class Stop(enum.Enum):
    """Why an attempt was asked to stop. The first reason counts, except that a lost lease overrides the others."""

    LOST = "the lease was lost"
    CANCELLED = "the run was cancelled"
    TIMED_OUT = "the timeout is over"
    SHUT_DOWN = "the worker is stopping"


class Attempt:
    """A leased run, from the moment its lease arrived until its result is placed.

    Instants are monotonic seconds. The event loop's thread changes it; the heartbeat's thread reads it, extends
    `lease_until` and may set `stop`; a handler's thread adds to progress and log.
    """

    __slots__ = (
        "deadline", "ended", "interrupter", "is_handed_on", "lease", "lease_until", "log_book", "progress", "started",
        "stop", "stop_event", "task",
    )  # fmt: skip

    def __init__(self, lease: messages.Lease, counted_from: float) -> None:
        self.lease = lease
        self.lease_until = counted_from + lease.lease_s
        self.deadline = math.inf
        self.is_handed_on = False  # its instant has come: it has begun, or will in a moment
        self.started = False
        self.ended = False  # the handler is through, or given up: a result exists
        self.stop: Stop | None = None
        self.progress: messages.Progress | None = None
        self.log_book: runlog.RunLog | None = None
        self.task: asyncio.Task[None] | None = None
        self.stop_event: threading.Event | None = None
        self.interrupter: Callable[[], None] | None = None  # how to stop it, where that is not by cancelling its task

    def set_progress(self, fraction: float, message: str) -> None:
        """Keep how far the handler is; raises LeaseLostError when the run is no longer ours."""
        self._refuse_when_lost()
        self.progress = messages.Progress(min(1.0, max(0.0, float(fraction))), text.clean(message, 1000))

    def add_line(self, level: messages.Level, message: str, fields: Mapping[str, Any] | None) -> None:
        """Keep a line of log; raises LeaseLostError when the run is no longer ours."""
        self._refuse_when_lost()
        if self.log_book is None:
            self.log_book = runlog.RunLog()
        self.log_book.add(level, message, fields)

    def mark_stopped(self, reason: Stop) -> bool:
        """Note that it should stop, and wake who waits for that; False when that was known already."""
        if self.stop is not None and not (reason is Stop.LOST and self.stop is not Stop.LOST):
            return False
        self.stop = reason
        if self.stop_event is not None:
            self.stop_event.set()
        return True

    def is_stopping(self) -> bool:
        """True once the attempt was asked to stop."""
        return self.stop is not None

    def wait_stopping(self, timeout_s: float | None) -> bool:
        """Block until the attempt is asked to stop; False when the timeout came first.

        The event is put in place before `stop` is read, and `mark_stopped` goes the other way round: no wake-up is
        missed.
        """
        if self.stop_event is None:
            self.stop_event = threading.Event()
        return self.stop is not None or self.stop_event.wait(timeout_s)

    def interrupt(self) -> None:
        """Break off the handler. An attempt that has not begun sees `stop` when it begins."""
        if self.interrupter is not None:
            self.interrupter()
        elif self.started and self.task is not None:
            self.task.cancel()

    def _refuse_when_lost(self) -> None:
        if self.stop is Stop.LOST:
            raise errors.LeaseLostError(f"run {self.lease.run_id}: the lease was lost; stop without further effects")
