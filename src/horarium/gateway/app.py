"""The worker's side of a node: `/v1/worker`, by hand on ASGI, since these four routes carry every run.

A request is read, decoded by msgspec and handed to a duty; the leases of an answer come as texts and are passed
on as they are. A worker whose connection breaks while it waits is noticed, so that nothing is claimed for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import structlog
from starlette.types import Receive, Scope, Send

from horarium import errors
from horarium.domain import roles
from horarium.domain.job import Actor
from horarium.gateway import reading
from horarium.gateway.worker_calls import WorkerCalls
from horarium.protocol import messages, problems
from horarium.services.keys import Keys

MAX_BODY_BYTES = 64 * 1024 * 1024
JSON = (b"content-type", b"application/json")
PROBLEM = (b"content-type", problems.MEDIA_TYPE.encode())

_log = structlog.get_logger("horarium.gateway")

Call = Callable[[Actor, bytes], Awaitable[bytes]]


class Gateway:
    """An ASGI application: lease, heartbeat, report, stop."""

    def __init__(self, keys: Keys, calls: WorkerCalls) -> None:
        self._keys = keys
        self._calls: dict[str, Call] = {
            messages.LEASE_PATH: calls.lease,
            messages.HEARTBEAT_PATH: calls.heartbeat,
            messages.REPORT_PATH: calls.report,
            messages.STOP_PATH: calls.stop,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; whatever goes wrong becomes a problem document."""
        try:
            status, headers, body = await self._answer(scope, receive)
        except errors.HorariumError as error:
            status, headers, body = reading.refusal(error)
        except Disconnected:
            return
        except Exception:  # noqa: BLE001 - the worker is told, the log has the rest, the node goes on
            _log.exception("worker_call_failed", path=scope["path"])
            status, headers, body = reading.crash()
        await respond(send, status, headers, body)

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        call = self._calls.get(scope["path"])
        if call is None:
            raise errors.NotFoundError(f"there is no {scope['path']}")
        if scope["method"] != "POST":
            return reading.method_not_allowed(scope["method"])
        actor = await self._authenticate(scope)
        body = await read(receive)
        return 200, [], await while_connected(call(actor, body), receive)

    async def _authenticate(self, scope: Scope) -> Actor:
        actor = await self._keys.authenticate(reading.bearer_token(scope))
        if not roles.allows(actor.role, roles.Right.WORK):
            raise errors.ForbiddenError(
                f"the role {actor.role} does not work: a worker's key has the role worker or admin"
            )
        return actor


class Disconnected(Exception):  # noqa: N818 - not an error: the worker has gone away
    """The worker closed its connection."""


async def respond(send: Send, status: int, headers: reading.Headers, body: bytes) -> None:
    """Send an answer: JSON, or a problem document."""
    content_type = JSON if status < 400 else PROBLEM
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [content_type, length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def read(receive: Receive) -> bytes:
    """The body of a request. TooLargeError beyond 64 MiB, Disconnected when the caller went away."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise errors.TooLargeError(f"a worker's message has at most {MAX_BODY_BYTES} bytes")
        chunks.append(chunk)
        if not message.get("more_body"):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def while_connected(answer: Any, receive: Receive) -> bytes:
    """The answer, unless the worker goes away first: then the call is cancelled."""
    work: asyncio.Task[bytes] = asyncio.ensure_future(answer)
    gone = asyncio.ensure_future(receive())
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        raise Disconnected
    finally:
        for task in (work, gone):
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
