"""What surrounds every answer, over real HTTP: request ids, headers, crashes, paths with encoded slashes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import structlog.testing
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message
from yarl import URL

from horarium.api.envelope import Envelope
from horarium.api.paths import ExactPaths
from tests.api.serving import serving

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def state(request: Request) -> Response:
    return JSONResponse({"id": request.state.request_id, "traceparent": request.state.traceparent})


async def page(request: Request) -> Response:
    return Response("x", headers={"Cache-Control": "max-age=60", "Content-Security-Policy": "default-src 'self'"})


async def crash(request: Request) -> Response:
    raise RuntimeError("secret detail")


async def break_off(request: Request) -> Response:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"some"
        raise RuntimeError("half way")

    return StreamingResponse(chunks())


async def ref(request: Request) -> Response:
    return JSONResponse({"ref": request.path_params["ref"], "route": "one"})


async def pause(request: Request) -> Response:
    return JSONResponse({"ref": request.path_params["ref"], "route": "pause"})


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    routes = [
        Route("/state", state),
        Route("/page", page),
        Route("/crash", crash),
        Route("/break", break_off),
        Route("/jobs/{ref:ref}/pause", pause),
        Route("/jobs/{ref:ref}", ref),
    ]
    app = Starlette(routes=routes, middleware=[Middleware(Envelope), Middleware(ExactPaths)])
    async with serving(app) as url, aiohttp.ClientSession(url) as session:
        yield session


async def body(client: aiohttp.ClientSession, path: str, **headers: str) -> Any:
    async with client.get(path, headers=headers) as response:
        return await response.json()


async def test_a_request_id_is_drawn_and_told(client: aiohttp.ClientSession) -> None:
    async with client.get("/state") as one, client.get("/state") as other:
        drawn = one.headers["X-Request-Id"]
        assert (await one.json())["id"] == drawn
        assert len(drawn) == 24
        assert other.headers["X-Request-Id"] != drawn


async def test_a_request_id_is_taken_over(client: aiohttp.ClientSession) -> None:
    async with client.get("/state", headers={"X-Request-Id": "req:7/a+b="}) as response:
        assert response.headers["X-Request-Id"] == (await response.json())["id"] == "req:7/a+b="


@pytest.mark.parametrize("sent", ["a b", "x" * 129, "é", "<script>", ""])
async def test_a_request_id_that_could_do_harm_is_not(client: aiohttp.ClientSession, sent: str) -> None:
    async with client.get("/state", headers={"X-Request-Id": sent}) as response:
        assert response.headers["X-Request-Id"] != sent


async def test_a_trace_context_is_passed_on(client: aiohttp.ClientSession) -> None:
    assert (await body(client, "/state", traceparent=TRACE))["traceparent"] == TRACE
    for bad in ("", "00-xyz", TRACE.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32), TRACE + "-more"):
        assert (await body(client, "/state", traceparent=bad))["traceparent"] is None


async def test_answers_are_not_kept_and_not_guessed_at(client: aiohttp.ClientSession) -> None:
    async with client.get("/state") as response:
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]


async def test_a_route_may_say_so_itself(client: aiohttp.ClientSession) -> None:
    async with client.get("/page") as response:
        assert response.headers.getall("Cache-Control") == ["max-age=60"]
        assert response.headers.getall("Content-Security-Policy") == ["default-src 'self'"]


async def test_a_crash_is_a_problem_document_that_tells_nothing_but_the_request_id(
    client: aiohttp.ClientSession,
) -> None:
    with structlog.testing.capture_logs() as logged:
        async with client.get("/crash") as response:
            text = await response.text()
            assert response.status == 500
            assert response.content_type == "application/problem+json"
            assert response.headers["X-Request-Id"] in text
            assert "secret" not in text
    (line,) = [line for line in logged if line["event"] == "request_crashed"]
    assert line["request_id"] == response.headers["X-Request-Id"]
    assert line["exc_info"]


async def test_a_caller_that_goes_away_in_the_middle_of_its_body_is_no_crash() -> None:
    arriving: list[Message] = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    sent: list[Message] = []

    async def receive() -> Message:
        return arriving.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    async def echo(request: Request) -> Response:
        return Response(await request.body())

    app = Starlette(routes=[Route("/echo", echo, methods=["POST"])], middleware=[Middleware(Envelope)])
    scope = {"type": "http", "method": "POST", "path": "/echo", "headers": [], "query_string": b"", "root_path": ""}
    with structlog.testing.capture_logs() as logged:
        await app(scope, receive, send)
    assert (sent, logged) == ([], [])


async def test_a_crash_half_way_ends_the_answer(client: aiohttp.ClientSession) -> None:
    with structlog.testing.capture_logs():
        async with client.get("/break") as response:
            with pytest.raises(aiohttp.ClientError):
                await response.read()


@pytest.mark.parametrize(
    ("path", "ref", "route"),
    [
        ("/jobs/name:a", "name:a", "one"),
        ("/jobs/name:a%2Fb", "name:a/b", "one"),
        ("/jobs/name:a/b", "name:a/b", "one"),
        ("/jobs/name:a%2Fpause", "name:a/pause", "one"),
        ("/jobs/name:a%2Fpause/pause", "name:a/pause", "pause"),
        ("/jobs/name:a/pause", "name:a", "pause"),
        ("/jobs/name:100%25", "name:100%", "one"),
        ("/jobs/name:a%252Fb", "name:a%2Fb", "one"),
        ("/jobs/name%3Aa%20b/pause", "name:a b", "pause"),
        ("/jobs/name:%E6%97%A5%E5%A0%B1", "name:日報", "one"),
        ("/jobs/name:%2F", "name:/", "one"),
    ],
)
async def test_a_slash_in_a_name_is_no_slash_of_the_path(
    client: aiohttp.ClientSession, path: str, ref: str, route: str
) -> None:
    async with client.get(URL(str(client._base_url).rstrip("/") + path, encoded=True)) as response:
        assert await response.json() == {"ref": ref, "route": route}
