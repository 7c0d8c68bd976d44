"""The HTTP target against a real server: what is sent, what answers mean, and where it does not go."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import standardwebhooks
from aiohttp import web

from horarium.protocol import messages
from horarium.sdk import attempt as attempts
from horarium.targets import http

LOOPBACK = {"HORARIUM_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8,::1/128"}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
Answer = Callable[[], web.StreamResponse]


class Receiver:
    """A server that keeps what it was sent, and answers as told."""

    def __init__(self) -> None:
        self.url = ""
        self.port = 0
        self.requests: list[tuple[web.BaseRequest, bytes]] = []
        self.answer: Answer = lambda: web.json_response({"ok": True})

    async def take(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append((request, await request.read()))
        return self.answer()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    running = Receiver()
    runner = web.ServerRunner(web.Server(running.take, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    running.port = runner.addresses[0][1]
    running.url = f"http://127.0.0.1:{running.port}/hook?a=1"
    yield running
    await runner.cleanup()


def an_attempt(url: str, payload: bytes = b'{"n":123456789012345678901}', **target: Any) -> attempts.Attempt:
    lease = messages.Lease(
        "run-1", "job-1", 2, 7, msgspec.Raw(msgspec.json.encode({"http": {"url": url, **target}})),
        msgspec.Raw(payload), "2026-12-01T02:00:00Z", timeout_s=300, lease_s=15, traceparent="00-ab-cd-01",
    )  # fmt: skip
    return attempts.Attempt(lease, 0.0)


async def deliver(attempt: attempts.Attempt, environ: dict[str, str] = LOOPBACK) -> Any:
    async with http.serving(environ) as carry:
        return await carry(attempt)


async def test_what_is_sent(receiver: Receiver) -> None:
    attempt = an_attempt(receiver.url, secret=SECRET, headers={"X-Mine": "1", "horarium-attempt": "99"})
    result = await deliver(attempt)
    request, body = receiver.requests[0]
    assert (request.method, request.path_qs) == ("POST", "/hook?a=1")
    assert body == b'{"n":123456789012345678901}'
    sent = {name: request.headers.getall(name) for name in request.headers}
    expected = {
        "Idempotency-Key": "run-1", "Horarium-Attempt": "2", "Horarium-Fencing-Token": "7",
        "Horarium-Scheduled-For": "2026-12-01T02:00:00Z", "traceparent": "00-ab-cd-01", "webhook-id": "run-1",
        "Content-Type": "application/json", "X-Mine": "1", "Accept-Encoding": "identity",
    }  # fmt: skip
    assert {name: sent.get(name) for name in expected} == {name: [value] for name, value in expected.items()}
    assert sent["User-Agent"][0].startswith("Horarium/")
    standardwebhooks.Webhook(SECRET).verify(body, dict(request.headers), json_parse=False)
    assert result == {"status": 200, "content_type": "application/json; charset=utf-8", "body": '{"ok": true}'}


async def test_without_a_secret_nothing_is_signed(receiver: Receiver) -> None:
    await deliver(an_attempt(receiver.url))
    headers = receiver.requests[0][0].headers
    assert "webhook-signature" not in headers and headers["webhook-id"] == "run-1"


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
async def test_methods(receiver: Receiver, method: str) -> None:
    await deliver(an_attempt(receiver.url, method=method, headers={"content-type": "application/cloudevents+json"}))
    request, body = receiver.requests[0]
    assert request.method == method
    assert bool(body) is (method not in ("GET", "HEAD"))
    assert request.headers.getall("Content-Type") == ["application/cloudevents+json"]


async def test_202_counts_as_success_even_if_the_receiver_means_later(receiver: Receiver) -> None:
    receiver.answer = lambda: web.Response(status=202, headers={"Horarium-Async": "1"})
    assert (await deliver(an_attempt(receiver.url)))["status"] == 202


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 599])
async def test_answers_that_are_tried_again(receiver: Receiver, status: int) -> None:
    receiver.answer = lambda: web.Response(status=status, text="busy")
    with pytest.raises(http.UnsuccessfulResponse, match=rf"^HTTP {status}.*: busy$") as caught:
        await deliver(an_attempt(receiver.url))
    assert caught.value.in_s is None


@pytest.mark.parametrize("status", [301, 302, 304, 307, 400, 401, 404, 409, 410, 422])
async def test_answers_that_are_final(receiver: Receiver, status: int) -> None:
    receiver.answer = lambda: web.Response(status=status, headers={"Location": "http://169.254.169.254/"})
    with pytest.raises(http.RefusedRequest, match=f"HTTP {status}"):
        await deliver(an_attempt(receiver.url))
    with pytest.raises(http.UnsuccessfulResponse):
        await deliver(an_attempt(receiver.url, retry_on=[status]))
    assert len(receiver.requests) == 2  # and no redirect was followed


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_respected(receiver: Receiver, status: int) -> None:
    receiver.answer = lambda: web.Response(status=status, headers={"Retry-After": "120"})
    with pytest.raises(http.UnsuccessfulResponse) as caught:
        await deliver(an_attempt(receiver.url))
    assert caught.value.in_s == 120


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ({"Retry-After": "0"}, timedelta(0)),
        ({"Retry-After": "99999999999999"}, timedelta(days=1)),
        ({"Retry-After": "Tue, 01 Dec 2026 02:00:30 GMT", "Date": "Tue, 01 Dec 2026 02:00:00 GMT"}, timedelta(seconds=30)),
        ({"Retry-After": "Tue, 01 Dec 2026 02:01:00 GMT"}, timedelta(seconds=60)),
        ({"Retry-After": "Tue, 01 Dec 2020 02:01:00 GMT"}, timedelta(0)),
        ({"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}, timedelta(days=1)),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "²"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_what_retry_after_says(headers: dict[str, str], delay: timedelta | None) -> None:
    assert http.retry_after(headers, datetime(2026, 12, 1, 2, tzinfo=UTC)) == delay


async def test_no_more_than_8_kib_are_kept(receiver: Receiver) -> None:
    receiver.answer = lambda: web.Response(body=b"x" * 10_000_000)
    result = await deliver(an_attempt(receiver.url))
    assert result["body"] == "x" * 8192


async def test_an_answer_that_is_no_text(receiver: Receiver) -> None:
    receiver.answer = lambda: web.Response(body=b"\xff\x00")
    assert (await deliver(an_attempt(receiver.url)))["body"] == "��"


async def test_no_answer_is_tried_again(receiver: Receiver) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as unused:
        free = unused.getsockname()[1]
    with pytest.raises(http.NoResponse, match=str(free)):
        await deliver(an_attempt(f"http://127.0.0.1:{free}/"))
    with pytest.raises(http.NoResponse, match=r"nowhere\.invalid"):
        await deliver(an_attempt("http://nowhere.invalid/"))

    def hang_up() -> web.StreamResponse:
        transport = receiver.requests[-1][0].transport
        assert transport is not None
        transport.abort()
        return web.Response()

    receiver.answer = hang_up
    with pytest.raises(http.NoResponse):
        await deliver(an_attempt(receiver.url))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0",
     "[::ffff:7f00:1]", "[64:ff9b::7f00:1]"],
)  # fmt: skip
async def test_no_way_to_write_it_leads_to_a_private_address(receiver: Receiver, host: str) -> None:
    with pytest.raises(http.RefusedRequest, match=r"not a (public|canonical IPv4) address"):
        await deliver(an_attempt(f"http://{host}:{receiver.port}/"), {})
    assert not receiver.requests


async def test_a_name_that_resolves_to_a_private_address(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(monkeypatch, {"rebind.example": ["127.0.0.1"]})
    with pytest.raises(http.RefusedRequest, match=r"rebind\.example is 127\.0\.0\.1"):
        await deliver(an_attempt(f"http://rebind.example:{receiver.port}/"), {})
    assert not receiver.requests
    assert (await deliver(an_attempt(f"http://rebind.example:{receiver.port}/")))["status"] == 200


async def test_of_several_addresses_only_allowed_ones_are_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve(monkeypatch, {"both.example": ["10.0.0.1", "127.0.0.1"]})
    assert (await deliver(an_attempt(f"http://both.example:{receiver.port}/")))["status"] == 200


async def test_a_url_that_is_none(receiver: Receiver) -> None:
    for url in ("http://", "ftp://example.com/", "http://[::1"):
        with pytest.raises(http.RefusedRequest):
            await deliver(an_attempt(url))


def resolve(monkeypatch: pytest.MonkeyPatch, names: dict[str, list[str]]) -> None:
    """Let the running loop resolve these names so."""
    loop = asyncio.get_running_loop()

    async def getaddrinfo(host: str, port: int, **hints: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in names[host]]

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
