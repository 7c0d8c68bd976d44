"""The lines that one attempt says, kept until the server has them.

A line is sent with every heartbeat and with the result until one of them is answered, so it may arrive twice (`seq`
tells) but is not lost. Written by the handler's thread, read by the heartbeat's: hence the lock.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from horarium.protocol import messages
from horarium.sdk import text

MAX_LINES = 10_000
MAX_CHARS = 1024 * 1024
MAX_LINE_CHARS = 16 * 1024


class _Line(NamedTuple):
    seq: int
    at: float  # monotonic
    level: messages.Level
    message: str
    fields: Raw | UnsetType


class RunLog:
    """At most 10,000 lines and 1 MiB an attempt; what comes after that is dropped, and a last line says so."""

    def __init__(self, max_lines: int = MAX_LINES, max_chars: int = MAX_CHARS) -> None:
        self._lines: deque[_Line] = deque()
        self._lock = threading.Lock()
        self._seq = 0
        self._room_lines = max_lines
        self._room_chars = max_chars
        self._is_full = False

    def add(self, level: messages.Level, message: str, fields: Mapping[str, Any] | None = None) -> None:
        """Keep a line, unless the log is full."""
        written = _encode(fields) if fields else b""
        encoded: Raw | UnsetType = Raw(written) if fields else UNSET
        line = text.clean(message, MAX_LINE_CHARS)
        size = len(line) + len(written)
        with self._lock:
            if self._is_full:
                return
            if self._room_lines <= 1 or size > self._room_chars:
                self._is_full = True
                level, line, encoded = "warning", "the log of this attempt is full; further lines are dropped", UNSET
            self._room_lines -= 1
            self._room_chars -= size
            self._seq += 1
            self._lines.append(_Line(self._seq, time.monotonic(), level, line, encoded))

    def pending(self, max_chars: int = MAX_CHARS) -> list[messages.LogLine]:
        """The lines that the server is not known to have, oldest first, up to about so many characters."""
        now = time.monotonic()
        with self._lock:
            lines = list(self._lines)
        found = []
        for line in lines:
            if max_chars <= 0:
                break
            max_chars -= len(line.message)
            found.append(messages.LogLine(line.seq, now - line.at, line.message, line.level, line.fields))
        return found

    def acknowledge(self, seq: int) -> None:
        """The server has all lines up to this one."""
        with self._lock:
            while self._lines and self._lines[0].seq <= seq:
                self._lines.popleft()


def _encode(fields: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(fields, enc_hook=str)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return msgspec.json.encode({str(name): text.clean(repr(value), 500) for name, value in fields.items()})
