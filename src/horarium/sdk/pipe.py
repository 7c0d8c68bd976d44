"""What a worker and a handler's child process say to each other: frames of JSON with their length in front.

worker → child    Hello once, then Work for each run; end of the stream: exit at once
child → worker    Ready or Raised once, then for each run Said and Moved as they come, and Returned or Raised
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Raw

from horarium.protocol import messages

HEADER_BYTES = 4
MAX_FRAME_BYTES = 64 * 1024 * 1024


class Hello(msgspec.Struct, tag=True):
    """Which application to load, and where Python looks for modules."""

    app: str
    path: list[str]


class Work(msgspec.Struct, tag=True):
    """Carry out this run with the handler of this name."""

    handler: str
    lease: messages.Lease


class Ready(msgspec.Struct, tag=True):
    """The application is loaded."""


class Said(msgspec.Struct, tag=True):
    """The handler logged a line; `fields` is a JSON object."""

    level: messages.Level
    message: str
    fields: dict[str, Any]


class Moved(msgspec.Struct, tag=True):
    """The handler told its progress."""

    fraction: float
    message: str


class Returned(msgspec.Struct, tag=True):
    """The handler returned this."""

    value: Raw


class Raised(msgspec.Struct, tag=True):
    """The handler raised: a signal with its reason and delay, or an error."""

    kind: Literal["retry", "discard", "snooze", "error"]
    error: messages.ErrorInfo
    delay_s: float | None = None


_ENCODER = msgspec.json.Encoder(enc_hook=str)
ToChild = Hello | Work
ToWorker = Ready | Said | Moved | Returned | Raised
to_child: Callable[[bytes], ToChild] = msgspec.json.Decoder(ToChild).decode
to_worker: Callable[[bytes], ToWorker] = msgspec.json.Decoder(ToWorker).decode


def frame(message: msgspec.Struct) -> bytes:
    """A message as it goes over the pipe."""
    content = _ENCODER.encode(message)
    return len(content).to_bytes(HEADER_BYTES, "big") + content


def length(header: bytes) -> int:
    """How long the frame behind this header is; ValueError when that cannot be."""
    size = int.from_bytes(header, "big")
    if size > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {size} bytes: the stream is broken")
    return size
