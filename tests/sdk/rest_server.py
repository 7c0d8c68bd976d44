"""A server with just enough of the REST interface to see what the client sends."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it arrived."""

    method: str
    path: str
    body: Any
    headers: dict[str, str]


class RestServer:
    """Answers from `answers`, by method and path; everything else with `{}`.

    An answer that raises ConnectionResetError breaks the connection.
    """

    def __init__(self) -> None:
        self.url = ""
        self.calls: list[Call] = []
        self.answers: dict[str, Callable[[Call], web.Response]] = {}

    def on(self, call: str, *answers: Callable[[Call], web.Response] | Any) -> None:
        """Answer `"GET /v1/jobs"` so: the given answers one after the other, the last one for ever."""
        left = list(answers)

        def answer(got: Call) -> web.Response:
            chosen = left.pop(0) if len(left) > 1 else left[0]
            return chosen(got) if callable(chosen) else web.json_response(chosen)

        self.answers[call] = answer

    async def take(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        call = Call(request.method, request.path_qs, json.loads(text) if text else None, dict(request.headers))
        self.calls.append(call)
        answer = self.answers.get(f"{request.method} {request.path}")
        if answer is None:
            return web.json_response({})
        try:
            return answer(call)
        except ConnectionResetError:  # how a test has the connection break
            assert request.transport is not None
            request.transport.abort()
            return web.Response()


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[RestServer]:
    """Run one on a free port."""
    server = RestServer()
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", server.take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


def problem(status: int, **members: Any) -> Callable[[Call], web.Response]:
    """A refusal as RFC 9457 has it."""
    return lambda call: web.json_response(
        {"title": "refused", "status": status, **members}, status=status, content_type="application/problem+json"
    )
