"""A line between workers and a node that loses answers and repeats requests: an HTTP proxy that does so on purpose."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

import aiohttp
from aiohttp import web

KEPT = ("Authorization", "Content-Type", "Horarium-Protocol")


class BadLine:
    """Passes requests on. Of `part` of them the answer is lost, the node having done what it was asked; as many arrive twice."""

    def __init__(self, behind: str, part: float, seed: int) -> None:
        self._behind = behind
        self.part = part
        self._chance = random.Random(seed)
        self._session: aiohttp.ClientSession | None = None
        self.url = ""
        self.lost = 0
        self.repeated = 0

    @classmethod
    @asynccontextmanager
    async def before(cls, url: str, part: float = 0.1, seed: int = 7) -> AsyncIterator[Self]:
        """A line to a node."""
        line = cls(url, part, seed)
        application = web.Application(client_max_size=1 << 26)
        application.router.add_route("*", "/{path:.*}", line._pass)
        runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        line.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession() as line._session:
            try:
                yield line
            finally:
                await runner.cleanup()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        fate = self._chance.random()
        answer = await self._ask(request, body)
        if fate < self.part:
            self.lost += 1
            assert request.transport is not None
            request.transport.abort()
        elif fate < 2 * self.part:
            self.repeated += 1
            answer = await self._ask(request, body)
        return answer

    async def _ask(self, request: web.Request, body: bytes) -> web.Response:
        assert self._session is not None
        headers = {name: request.headers[name] for name in KEPT if name in request.headers}
        try:
            async with self._session.request(
                request.method, self._behind + request.path_qs, data=body, headers=headers
            ) as answer:
                kept = {"Content-Type": answer.headers["Content-Type"]} if "Content-Type" in answer.headers else {}
                return web.Response(status=answer.status, body=await answer.read(), headers=kept)
        except aiohttp.ClientError:
            return web.Response(status=502)
