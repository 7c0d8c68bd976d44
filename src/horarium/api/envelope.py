"""Around every answer: a request id, headers that keep browsers from guessing, and a problem document when we crash.

Plain ASGI, since every request passes here.
"""

from __future__ import annotations

import re
import secrets

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from horarium.api import problems

_log = structlog.get_logger("horarium.api")

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
# Version 00 of W3C Trace Context: version, trace id, parent id, flags; all-zero ids are invalid.
_TRACEPARENT = re.compile(rb"00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

_SECURITY = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]


class Envelope:
    """ASGI middleware. Puts `request_id` and, if one was sent, `traceparent` into the state of the request.

    `X-Request-Id` is taken over from the client when it is 1 to 128 harmless characters, and drawn otherwise.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _identify(scope)
        answering = _Answering(send, request_id.encode())
        try:
            await self._app(scope, receive, answering)
        except ClientDisconnect:
            return  # whoever asked went away in the middle of the body: nobody to answer, and nothing was done
        except Exception:
            trace = scope["state"]["traceparent"]
            _log.exception(
                "request_crashed", request_id=request_id, traceparent=trace, method=scope["method"], path=scope["path"]
            )
            if answering.started:
                raise
            await problems.of_crash(scope)(scope, receive, answering)


class _Answering:
    """`send` that adds our headers to the start of the answer, where the route did not set them itself."""

    def __init__(self, send: Send, request_id: bytes) -> None:
        self._send = send
        self._request_id = request_id
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = list(message["headers"])
            present = {name for name, _ in headers}
            headers.extend(pair for pair in _SECURITY if pair[0] not in present)
            headers.append((b"x-request-id", self._request_id))
            message["headers"] = headers
        await self._send(message)


def _identify(scope: Scope) -> str:
    """Settle the request's id and remember it, and the trace it belongs to, in the state of the request."""
    state = scope.setdefault("state", {})
    sent = traceparent = None
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            sent = value
        elif name == b"traceparent" and _TRACEPARENT.fullmatch(value):
            traceparent = value.decode()
    request_id = sent.decode() if sent is not None and _REQUEST_ID.fullmatch(sent) else secrets.token_hex(12)
    state["request_id"] = request_id
    state["traceparent"] = traceparent
    return request_id
