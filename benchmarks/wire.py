"""HTTP with as little client as possible: bytes that are made beforehand, over connections that are kept.

A benchmark that shares the machine with what it measures must not be the larger part of the load.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple, cast
from urllib.parse import urlsplit

END_OF_HEAD = b"\r\n\r\n"
LENGTH = b"content-length:"


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: bytes


def request(method: str, path: str, key: str, body: bytes = b"") -> bytes:
    """A whole request, ready to be sent."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: horarium\r\nAuthorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n"
    )
    return head.encode() + b"Content-Type: application/json\r\n\r\n" + body


class Connection(asyncio.Protocol):
    """One connection, which carries one request at a time."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._waiting: asyncio.Future[Answer] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, url: str) -> Connection:
        """Connect to a server."""
        address = urlsplit(url)
        host, port = address.hostname or "", address.port or 80
        _, made = await asyncio.get_running_loop().create_connection(cls, host, port)
        return made

    async def ask(self, sent: bytes) -> Answer:
        """Send a request and wait for its answer."""
        assert self._waiting is None, "one request at a time"
        assert self._transport is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(sent)
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance

    def connection_lost(self, error: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error or ConnectionResetError("the server hung up"))

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        head_end = buffer.find(END_OF_HEAD)
        if head_end < 0:
            return
        head = bytes(buffer[:head_end])
        body_start = head_end + len(END_OF_HEAD)
        body_end = body_start + _content_length(head)
        if len(buffer) < body_end:
            return
        answer = Answer(int(head[9:12]), bytes(buffer[body_start:body_end]))
        del buffer[:body_end]
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(answer)


def _content_length(head: bytes) -> int:
    at = head.lower().find(LENGTH)
    if at < 0:
        return 0
    return int(head[at + len(LENGTH) :].split(b"\r\n", 1)[0])
