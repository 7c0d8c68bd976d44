"""The HTTP target: a run delivered as a request, by a worker started with `--http`.

| answer | the run |
|---|---|
| 2xx | succeeded; status and the first 8 KiB of the body are its result |
| 408, 425, 429, 5xx, those in `retry_on`, no answer | another attempt; 429 and 503 may name the delay in `Retry-After` |
| other 3xx and 4xx | dead at once: redirects are not followed |

The receiver sees `Idempotency-Key: <run id>`, the same for each attempt, and a fencing token that rises with each. An
answer `202` with `Horarium-Async: 1` counts as success: ending a run later by a call is not in this version.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import aiohttp
import msgspec

import horarium
from horarium.protocol import messages
from horarium.sdk import attempt as attempts
from horarium.sdk import signals, text, worker
from horarium.targets import addresses, webhook

MAX_KEPT_BYTES = 8192
MAX_DELAY = timedelta(days=1)
CONNECT_S = 10.0

_RETRIED = frozenset({408, 425, 429})
_DELAYING = frozenset({429, 503})
_WITHOUT_BODY = frozenset({"GET", "HEAD"})


class HttpTarget(msgspec.Struct, frozen=True):
    """The `http` member of a target."""

    url: str
    method: str | None = None
    headers: dict[str, str] | None = None
    secret: str | None = None
    retry_on: list[int] | None = None


class _Envelope(msgspec.Struct, frozen=True):
    http: HttpTarget


class UnsuccessfulResponse(signals.Retry):
    """The receiver answered, but not with success; another attempt may have it."""


class RefusedRequest(signals.Discard):
    """The request can never succeed as it is."""


class NoResponse(signals.Retry):
    """No answer came: no connection, or it broke."""


_decoder = msgspec.json.Decoder(_Envelope)


@contextlib.asynccontextmanager
async def serving(environ: Mapping[str, str]) -> AsyncIterator[worker.Carrier]:
    """A carrier of HTTP targets, with the connections it uses."""
    guard = addresses.Guard(addresses.read(environ.get(addresses.VARIABLE, "")))
    async with aiohttp.ClientSession(
        connector=addresses.connector(guard, limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),  # the worker enforces the run's timeout
        auto_decompress=False,
    ) as session:

        def carry(attempt: attempts.Attempt) -> Awaitable[object]:
            return deliver(session, attempt.lease)

        yield carry


async def deliver(session: aiohttp.ClientSession, lease: messages.Lease) -> dict[str, Any]:
    """Send the run's request; returns what is kept of a successful answer, raises a signal for any other."""
    target = _decoder.decode(lease.target).http
    method = target.method or "POST"
    body = b"" if method in _WITHOUT_BODY else bytes(lease.payload)
    headers = request_headers(target, lease, body, int(time.time()))
    try:
        async with session.request(
            method, target.url, data=body or None, headers=headers, allow_redirects=False
        ) as response:
            return judge(target, response.status, response.headers, await _beginning(response))
    except aiohttp.ClientConnectorError as error:
        if isinstance(error.os_error, addresses.ForbiddenAddressError):
            raise RefusedRequest(str(error.os_error)) from None
        raise NoResponse(_no_response(target.url, error)) from None
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
        raise RefusedRequest(f"{target.url} cannot be requested: {error}") from None
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise NoResponse(_no_response(target.url, error)) from None


def request_headers(target: HttpTarget, lease: messages.Lease, body: bytes, timestamp: int) -> dict[str, str]:
    """All headers of the request. Ours cannot be overridden by the target's."""
    ours = {
        "Idempotency-Key": lease.run_id,
        "Horarium-Attempt": str(lease.attempt),
        "Horarium-Fencing-Token": str(lease.fencing_token),
        "Horarium-Scheduled-For": lease.scheduled_for,
    }
    if lease.traceparent is not None:
        ours["traceparent"] = lease.traceparent
    if target.secret is None:
        ours |= webhook.identity(lease.run_id, timestamp)
    else:
        ours |= webhook.headers(target.secret, lease.run_id, timestamp, body)
    defaults = {"User-Agent": f"Horarium/{horarium.__version__}", "Accept-Encoding": "identity"}
    if body:
        defaults["Content-Type"] = "application/json"
    given = target.headers or {}
    named = {name.lower() for name in given} | {name.lower() for name in ours}
    return {
        **{name: value for name, value in defaults.items() if name.lower() not in named},
        **{name: value for name, value in given.items() if name.lower() not in {own.lower() for own in ours}},
        **ours,
    }


def judge(target: HttpTarget, status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """What an answer means: its result, or the signal to raise."""
    shown = text.clean(body.decode("utf-8", "replace"), MAX_KEPT_BYTES)
    if 200 <= status < 300:
        return {"status": status, "content_type": headers.get("Content-Type"), "body": shown}
    reason = f"HTTP {status}{_phrase(status)}" + (f": {shown[:1000]}" if shown else "")
    if status in _RETRIED or status >= 500 or status in (target.retry_on or ()):
        raise UnsuccessfulResponse(reason, in_=retry_after(headers) if status in _DELAYING else None)
    raise RefusedRequest(reason)


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> timedelta | None:
    """What `Retry-After` says (RFC 9110, 10.2.3): seconds, or a date, counted from the answer's own `Date`. At most a day."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdecimal():
        return min(timedelta(seconds=int(value[:9])), MAX_DELAY)
    until = _date(value)
    if until is None:
        return None
    since = _date(headers.get("Date", "")) or now or datetime.now(UTC)
    return min(max(until - since, timedelta(0)), MAX_DELAY)


def _date(value: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(value)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def _no_response(url: str, error: BaseException) -> str:
    return f"{url}: {str(error) or type(error).__name__}"


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """At most 8 KiB of the body; the connection is given up when there is more."""
    kept = b""
    while len(kept) < MAX_KEPT_BYTES:
        chunk = await response.content.read(MAX_KEPT_BYTES - len(kept))
        if not chunk:
            return kept
        kept += chunk
    response.close()
    return kept
