"""A port of its own before a server: it can be shut (connections are refused), opened again, and its connections cut."""

from __future__ import annotations

import asyncio
import contextlib
import urllib.parse
from collections.abc import AsyncIterator
from typing import Self

HOST = "127.0.0.1"


class Gate:
    """Passes TCP connections on to a port; `url` is the address of what stands behind, through the gate."""

    def __init__(self, port: int) -> None:
        self._behind = port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self.port = 0
        self.url = ""

    @classmethod
    @contextlib.asynccontextmanager
    async def before(cls, url: str) -> AsyncIterator[Self]:
        """An open gate before the server of an address."""
        parts = urllib.parse.urlsplit(url)
        assert parts.port is not None
        gate = cls(parts.port)
        await gate.open()
        gate.url = parts._replace(netloc=parts.netloc.replace(f":{parts.port}", f":{gate.port}")).geturl()
        try:
            yield gate
        finally:
            await gate.shut()

    async def open(self) -> None:
        """Listen, always at the same port."""
        self._server = await asyncio.start_server(self._enter, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        """Refuse connections, and cut those that are there."""
        await self.refuse()
        self.cut()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def refuse(self) -> None:
        """Refuse connections; those that are there stay."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def cut(self) -> None:
        """Break all connections without a word."""
        for writer in list(self._open):
            writer.transport.abort()

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection(HOST, self._behind)
        except OSError:
            writer.transport.abort()
            return
        for source, sink in ((reader, inner_writer), (inner_reader, writer)):
            task = asyncio.create_task(self._pass(source, sink))
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        self._open.add(sink)
        try:
            with contextlib.suppress(OSError):
                while chunk := await source.read(1 << 16):
                    sink.write(chunk)
                    await sink.drain()
        finally:
            self._open.discard(sink)
            sink.close()
