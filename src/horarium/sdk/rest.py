"""Requests to the REST interface: JSON both ways, problem documents as errors, repeats where they are harmless."""

from __future__ import annotations

import asyncio
import uuid
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from horarium import errors
from horarium.sdk import backoff, link, profile, signature

if TYPE_CHECKING:  # a third of a second to import: only once a request is made
    import aiohttp

TIMEOUT_S = 30.0
TRIES = 4
_TEMPORARY = frozenset({502, 503, 504})


class Answer(NamedTuple):
    """A successful answer: decoded JSON (None without a body) and its headers."""

    body: Any
    headers: Mapping[str, str]


class Rest:
    """A client of one cluster, to be used from any event loop; each loop has its own connections.

    `connect` is asked for addresses and key at the first request, so that making a client needs no configuration yet.
    """

    def __init__(self, connect: Callable[[], profile.Connection]) -> None:
        self._connect = connect
        self._connection: profile.Connection | None = None
        self._first = 0  # index of the address that answered last
        self._sessions: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[Any, None]]
        self._sessions = weakref.WeakKeyDictionary()
        self._open: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession]
        self._open = weakref.WeakKeyDictionary()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request and return its answer.

        A POST carries an `Idempotency-Key` (a fresh one unless `headers` has it), so all methods are repeated when no
        server answered or it was not available. UnreachableError when that stays so, RequestError when it was refused.
        """
        sent = {"Idempotency-Key": str(uuid.uuid4()), **(headers or {})} if method == "POST" else dict(headers or {})
        content = None if body is None else msgspec.json.encode(body, enc_hook=signature.encode_other)
        if content is not None:
            sent.setdefault("Content-Type", "application/json")
        parameters = {name: str(value) for name, value in (query or {}).items() if value is not None}
        wait = backoff.Backoff()
        for left in range(TRIES - 1, -1, -1):
            try:
                return await self._send(method, path, content, parameters, sent)
            except errors.UnreachableError:
                self._first += 1
                if not left:
                    raise
            except errors.RequestError as error:
                if error.status not in _TEMPORARY or not left:
                    raise
            await asyncio.sleep(wait.next_s())
        raise AssertionError("the last try returns or raises")

    async def close(self) -> None:
        """Close the connections of the running event loop. A loop that ends closes its own, too."""
        owner = self._sessions.pop(asyncio.get_running_loop(), None)
        if owner is not None:
            await owner.aclose()

    async def _send(
        self, method: str, path: str, content: bytes | None, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> Answer:
        import aiohttp

        session = await self._session()
        connection = self._known()
        url = connection.urls[self._first % len(connection.urls)] + path
        try:
            async with session.request(method, url, data=link.body(content), params=query, headers=headers) as response:
                return _answer(response.status, response.headers, await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise errors.UnreachableError(f"{url}: {str(error) or type(error).__name__}") from None

    def _known(self) -> profile.Connection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    async def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._open.get(loop)
        if session is None or session.closed:
            owner = _own_session(self._known().api_key)
            session = self._open[loop] = await anext(owner)
            self._sessions[loop] = owner
        return session


async def _own_session(api_key: str) -> AsyncGenerator[aiohttp.ClientSession, None]:
    """Hold a session until this generator is closed.

    `asyncio.run` closes the asynchronous generators of its loop at the end: scripts need not close their client.
    """
    import aiohttp

    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    connector = aiohttp.TCPConnector(keepalive_timeout=link.KEEP_ALIVE_S)
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    session = aiohttp.ClientSession(headers=headers, connector=connector, timeout=timeout)
    try:
        yield session
    finally:
        await session.close()


def _answer(status: int, headers: Mapping[str, str], content: bytes) -> Answer:
    try:
        body = msgspec.json.decode(content) if content else None
    except msgspec.DecodeError:
        body = {"title": f"HTTP {status}", "detail": content[:500].decode("utf-8", "replace")}
        status = status if status >= 400 else 502
    if status >= 400:
        raise errors.RequestError(status, body if isinstance(body, dict) else {"title": f"HTTP {status}"})
    return Answer(body, headers)
