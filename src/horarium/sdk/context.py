"""What a handler is given: who it is, and ways to say how far it is."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from datetime import datetime
from typing import Any, Protocol

import msgspec

from horarium.protocol import messages


class Sink(Protocol):
    """Where a context passes on what the handler says: an attempt, or the pipe to one in a child process."""

    lease: messages.Lease

    def set_progress(self, fraction: float, message: str) -> None:
        """Keep how far the handler is."""

    def add_line(self, level: messages.Level, message: str, fields: Mapping[str, Any] | None) -> None:
        """Keep a line of log."""

    def is_stopping(self) -> bool:
        """True once the attempt was asked to stop."""

    def wait_stopping(self, timeout_s: float | None) -> bool:
        """Wait until the attempt is asked to stop; False when the timeout came first."""


class Said:
    """Nothing to wait for: `ctx.progress(…)` may be awaited in an async handler and just called in any other."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_SAID = Said()


class Context:
    """The run that a handler carries out.

    `run_id` is the same for every attempt of the run: use it as the idempotency key. `fencing_token` rises with every
    attempt of every run: a downstream system that remembers the highest one it saw can refuse a late worker.
    """

    __slots__ = ("_handler", "_logger", "_sink")

    def __init__(self, sink: Sink, handler: str) -> None:
        self._sink = sink
        self._handler = handler
        self._logger: logging.LoggerAdapter[logging.Logger] | None = None

    @property
    def run_id(self) -> str:
        """The run's id, the same for every attempt."""
        return self._sink.lease.run_id

    @property
    def job_id(self) -> str:
        """The id of the job whose run this is."""
        return self._sink.lease.job_id

    @property
    def job_name(self) -> str:
        """The job's name; the handler's name for a one-off without one."""
        return self._sink.lease.job_name or self._handler

    @property
    def attempt(self) -> int:
        """Which attempt this is, counted from 1."""
        return self._sink.lease.attempt

    @property
    def fencing_token(self) -> int:
        """A number that rises with every attempt."""
        return self._sink.lease.fencing_token

    @property
    def scheduled_for(self) -> datetime:
        """The nominal time of the run: aware, UTC, without jitter or delay."""
        return datetime.fromisoformat(self._sink.lease.scheduled_for)

    @property
    def trigger(self) -> str:
        """Why the run exists: schedule, manual, rerun, backfill or dependency."""
        return self._sink.lease.trigger

    @property
    def payload(self) -> Any:
        """The payload as decoded JSON, whatever the handler's signature takes from it."""
        return msgspec.json.decode(self._sink.lease.payload)

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context that the run continues, if any."""
        return self._sink.lease.traceparent

    @property
    def cancelled(self) -> bool:
        """True once the handler should stop: run cancelled, lease lost, timeout over, worker stopping.

        An async handler is cancelled then, too (CancelledError); a handler in a thread has to look.
        """
        return self._sink.is_stopping()

    def wait_cancelled(self, timeout_s: float | None = None) -> bool:
        """Sleep until the handler should stop; False when `timeout_s` seconds passed first. For handlers in threads."""
        return self._sink.wait_stopping(timeout_s)

    def progress(self, fraction: float, message: str = "") -> Said:
        """Say how far the handler is, 0 to 1; shown within one heartbeat. LeaseLostError when the run is lost."""
        self._sink.set_progress(fraction, message)
        return _SAID

    def log(self, message: str, *, level: messages.Level = "info", **fields: Any) -> Said:
        """Keep a line with the run, with fields that can be JSON. LeaseLostError when the run is lost."""
        self._sink.add_line(level, message, fields)
        return _SAID

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A standard logger whose records are kept with the run and go to `horarium.handlers` as well."""
        if self._logger is None:
            # Not from getLogger: it lives as long as the run, and its handler keeps lines of this run only.
            logger = logging.Logger(f"horarium.handlers.{self._handler}")  # noqa: LOG001 - see above
            logger.parent = logging.getLogger("horarium.handlers")
            logger.setLevel(
                min(logging.INFO, logger.parent.getEffectiveLevel())
            )  # the run keeps info lines in any case
            logger.addHandler(_KeepWithRun(self._sink))
            self._logger = logging.LoggerAdapter(logger, {"run_id": self.run_id, "attempt": self.attempt})
        return self._logger


class _KeepWithRun(logging.Handler):
    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self._sink = sink

    def emit(self, record: logging.LogRecord) -> None:
        self._sink.add_line(_level(record.levelno), self.format(record), None)


def _level(number: int) -> messages.Level:
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warning"
    return "info" if number >= logging.INFO else "debug"
