"""How an attempt ended, decided from what its handler returned or raised and from why it was asked to stop.

| the handler | reported |
|---|---|
| returned | `succeeded`, whatever else was asked of it |
| raised Retry, Discard, Snooze | `failed` with a delay, `discard`, `snooze` |
| did not fit the payload | `discard`: it would fail for ever |
| was broken off: timeout, cancel | `failed` with class `Timeout`, `Cancelled` |
| was broken off: worker stopping | `interrupted`: no attempt is used |
| lost its lease | nothing: the run is another worker's |
| raised anything else, SystemExit too | `failed` with class, message and traceback |
"""

from __future__ import annotations

import traceback
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from horarium import errors
from horarium.protocol import messages
from horarium.sdk import attempt as attempts
from horarium.sdk import context, signals, signature, text

MAX_RESULT_BYTES = 64 * 1024
MAX_MESSAGE_CHARS = 4096


class RemoteError(Exception):
    """An error that was raised in another process, already described."""

    def __init__(self, info: messages.ErrorInfo) -> None:
        self.info = info
        super().__init__(info.message)


def of_value(attempt: attempts.Attempt, value: object) -> messages.Result | None:
    """The result of a handler that returned `value`; None when the lease was lost meanwhile."""
    if attempt.stop is attempts.Stop.LOST:
        return None
    lease, log = attempt.lease, attempt.log_book
    if value is None and log is None and attempt.progress is None:  # the straight path
        return messages.Result(lease.run_id, lease.fencing_token, "succeeded")
    return _result(attempt, "succeeded", result=UNSET if value is None else encode_value(attempt, value))


def of_error(attempt: attempts.Attempt, error: BaseException) -> messages.Result | None:
    """The result of a handler that raised; None when there is nothing to report, since the lease was lost."""
    if attempt.stop is attempts.Stop.LOST or isinstance(error, errors.LeaseLostError):
        return None
    if isinstance(error, signals.Signal):
        return _of_signal(attempt, error)
    if isinstance(error, signature.MismatchError):
        return _result(attempt, "discard", error=messages.ErrorInfo("PayloadMismatch", _message(error)))
    if attempt.stop is not None:
        return of_stop(attempt, attempt.stop)
    return _result(attempt, "failed", error=describe(error))


def of_stop(attempt: attempts.Attempt, stop: attempts.Stop) -> messages.Result | None:
    """The result of an attempt that was broken off for this reason."""
    if stop is attempts.Stop.LOST:
        return None
    if stop is attempts.Stop.SHUT_DOWN:
        return _result(attempt, "interrupted", error=messages.ErrorInfo("Interrupted", stop.value))
    if stop is attempts.Stop.CANCELLED:
        return _result(attempt, "failed", error=messages.ErrorInfo("Cancelled", stop.value))
    message = f"ran longer than its timeout of {attempt.lease.timeout_s:g} s"
    return _result(attempt, "failed", error=messages.ErrorInfo("Timeout", message))


def describe(error: BaseException) -> messages.ErrorInfo:
    """Class, message and the end of the traceback, without the frames of the SDK above the handler's."""
    if isinstance(error, RemoteError):
        return error.info
    lines = traceback.format_exception(type(error), error, _own_frames(error))
    shown = text.clean_tail("".join(lines), messages.MAX_TRACEBACK_CHARS)
    return messages.ErrorInfo(type(error).__qualname__, _message(error), shown)


def encode_value(sink: context.Sink, value: object) -> Raw | UnsetType:
    """What a handler returned, as JSON. One that cannot be kept is left out with a warning: the work is done."""
    try:
        encoded = msgspec.json.encode(value, enc_hook=signature.encode_other)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = f"cannot be written as JSON: {error}"
    else:
        if len(encoded) <= MAX_RESULT_BYTES:
            return Raw(encoded)
        reason = f"is {len(encoded)} bytes long, the limit is {MAX_RESULT_BYTES}"
    sink.add_line("warning", f"the handler's return value is not kept: it {reason}", None)
    return UNSET


def _of_signal(attempt: attempts.Attempt, signal: signals.Signal) -> messages.Result:
    error = messages.ErrorInfo(type(signal).__qualname__, _message(signal))
    if isinstance(signal, signals.Snooze):
        return _result(attempt, "snooze", error=error, retry_in_s=signal.delay_s)
    if isinstance(signal, signals.Retry):
        return _result(attempt, "failed", error=error, retry_in_s=signal.in_s)
    return _result(attempt, "discard", error=error)


def _result(
    attempt: attempts.Attempt,
    outcome: messages.Outcome,
    *,
    result: Raw | UnsetType = UNSET,
    error: messages.ErrorInfo | None = None,
    retry_in_s: float | None = None,
) -> messages.Result:
    lease, log = attempt.lease, attempt.log_book
    lines = log.pending() if log is not None else []
    return messages.Result(
        lease.run_id, lease.fencing_token, outcome, result, error, retry_in_s, attempt.progress, lines
    )  # fmt: skip


def _message(error: BaseException) -> str:
    try:
        return text.clean(str(error), MAX_MESSAGE_CHARS)
    except Exception as fault:  # noqa: BLE001 - a user's __str__ may raise anything, and the run must still end
        return f"({type(fault).__name__} while its message was read)"


def _own_frames(error: BaseException) -> Any:
    """The traceback without its first frame, which is the worker's own."""
    frames = error.__traceback__
    return frames.tb_next if frames is not None and frames.tb_next is not None else frames
