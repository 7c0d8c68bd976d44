"""The worker protocol over HTTP, as the event loop speaks it: leases, reports, goodbye."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from horarium import errors
from horarium.protocol import messages
from horarium.sdk import nodes as nodes_

if TYPE_CHECKING:
    import aiohttp

REQUEST_S = 10.0
KEEP_ALIVE_S = 4.0  # servers close idle connections after 5 s; a request must not meet that moment
LARGE_BYTES = 512 * 1024

M = TypeVar("M")


class Link:
    """One worker process's connections to a node.

    Calls raise UnreachableError when no answer came or the node cannot serve now (5xx, 408, 429): the same message may
    be sent again, and goes to the next node. RequestError when the message was refused.
    """

    def __init__(self, nodes: nodes_.Nodes) -> None:
        self.nodes = nodes
        self._session: aiohttp.ClientSession | None = None

    async def lease(self, request: messages.LeaseRequest) -> messages.LeaseResponse:
        """Ask for runs, waiting for as long as the request says."""
        content = messages.encode(request)
        return await self._post(messages.LEASE_PATH, content, messages.lease_responses, request.wait_s + REQUEST_S)

    async def report(self, request: messages.ReportRequest) -> messages.ReportResponse:
        """Hand in results."""
        return await self._post(messages.REPORT_PATH, messages.encode(request), messages.report_responses, REQUEST_S)

    async def stop(self, worker: messages.WorkerInfo) -> None:
        """Say goodbye."""
        await self._exchange(messages.STOP_PATH, messages.encode(messages.StopRequest(worker)), REQUEST_S / 5)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _post(self, path: str, content: bytes, decoder: msgspec.json.Decoder[M], timeout_s: float) -> M:
        answer = await self._exchange(path, content, timeout_s)
        try:
            return decoder.decode(answer)
        except msgspec.DecodeError as error:
            raise errors.UnreachableError(f"{self.nodes.url}{path}: the answer cannot be read: {error}") from None

    async def _exchange(self, path: str, content: bytes, timeout_s: float) -> bytes:
        import aiohttp

        url = self.nodes.url
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=REQUEST_S)
        try:
            async with self._opened().post(
                url + path, data=body(content), headers=self.nodes.headers, timeout=timeout, allow_redirects=False
            ) as response:
                answer = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.nodes.leave(url)
            raise errors.UnreachableError(f"{url}: {str(error) or type(error).__name__}") from None
        if response.status < 300:
            return answer
        raise self._refusal(url, response.status, answer)

    def _refusal(self, url: str, status: int, answer: bytes) -> errors.HorariumError:
        problem = problem_of(status, answer)
        if status >= 500 or status in {408, 429}:
            self.nodes.leave(url)
            return errors.UnreachableError(f"{url}: HTTP {status}: {problem.get('detail') or problem.get('title')}")
        if status == 401:
            self.nodes.refresh()
        return errors.RequestError(status, problem)

    def _opened(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)
            )
        return self._session


def body(content: bytes | None) -> io.BytesIO | bytes | None:
    """A request's body as aiohttp wants it: large ones as a file, which it sends piece by piece."""
    return io.BytesIO(content) if content is not None and len(content) > LARGE_BYTES else content


def problem_of(status: int, content: bytes) -> dict[str, Any]:
    """The problem document of a refusal, or one made of whatever came instead."""
    try:
        found = msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.DecodeError:
        return {"title": f"HTTP {status}", "detail": content[:500].decode("utf-8", "replace")}
    return found
