"""The REST API as the command line calls it: the standard library's HTTP client, one request after the other.

Of several addresses the first that accepts a connection is used; a request that was sent is never sent again.
A refusal becomes `RequestError` with the problem document (RFC 9457), no answer becomes `UnreachableError`.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from horarium import errors

TIMEOUT_S = 30.0
# A stream of logs is silent while the run is; the server sends a comment line at least this often.
STREAM_TIMEOUT_S = 60.0
PAGE_SIZE = 500

Query = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Answer:
    """A response of the 2xx kind: its JSON as a value (None when there is none) and as it was sent, and its headers."""

    status: int
    headers: Mapping[str, str]
    body: Any
    raw: bytes


class Client:
    """Speaks to one cluster with one key. Not safe for several threads."""

    def __init__(self, urls: Sequence[str], api_key: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._urls = list(urls)
        self._api_key = api_key
        self._timeout_s = timeout_s

    @property
    def url(self) -> str:
        """The address in use."""
        return self._urls[0]

    def get(self, path: str, query: Query | None = None) -> Any:
        """The body of a GET."""
        return self.request("GET", path, query=query).body

    def post(self, path: str, body: object = None, *, query: Query | None = None) -> Any:
        """The body of the answer to a POST; `body` is a value, or text that is JSON already."""
        return self.request("POST", path, query=query, body=body).body

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request; an answer that is not 2xx becomes an error."""
        with closing(self._connect(self._timeout_s)) as connection:
            response = self._send(connection, method, path, query, body, headers or {})
            with _reachable(self.url):
                content = response.read()
        if not 200 <= response.status < 300:
            raise errors.RequestError(response.status, _problem(response, content))
        return Answer(response.status, dict(response.getheaders()), _decode(content), content)

    def pages(self, path: str, query: Query | None = None, *, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """The items of a list, page after page, at most `limit` of them."""
        cursor = None
        left = limit
        while True:
            size = PAGE_SIZE if left is None else min(PAGE_SIZE, left)
            page = self.get(path, {**(query or {}), "limit": size, "cursor": cursor})
            yield from page["items"]
            cursor = page.get("next_cursor")
            left = None if left is None else left - len(page["items"])
            if not cursor or (left is not None and left <= 0):
                return

    def events(self, path: str, query: Query | None = None) -> Iterator[tuple[str, str]]:
        """Server-sent events as (event, data) until the server ends the stream."""
        with closing(self._connect(STREAM_TIMEOUT_S)) as connection:
            response = self._send(connection, "GET", path, query, None, {"Accept": "text/event-stream"})
            if response.status != 200:
                raise errors.RequestError(response.status, _problem(response, response.read()))
            with _reachable(self.url):
                yield from _parse_events(response)

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        """A connection to the first address that accepts one; that address is asked first from then on."""
        for url in self._urls[:-1]:
            with suppress(errors.UnreachableError):
                return self._connect_to(url, timeout_s)
        return self._connect_to(self._urls[-1], timeout_s)

    def _connect_to(self, url: str, timeout_s: float) -> http.client.HTTPConnection:
        parts = urlsplit(url)
        connection = (
            http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=timeout_s)
            if parts.scheme == "https"
            else http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
        )
        with _reachable(url):
            connection.connect()
        self._urls.remove(url)
        self._urls.insert(0, url)
        return connection

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        query: Query | None,
        body: object,
        headers: Mapping[str, str],
    ) -> http.client.HTTPResponse:
        target = urlsplit(self.url).path + path + _encode_query(query)
        with _reachable(self.url):
            connection.request(method, target, _encode(body), {**self._headers(body), **headers})
            return connection.getresponse()

    def _headers(self, body: object) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "horarium-cli"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        return headers


@contextmanager
def _reachable(url: str) -> Iterator[None]:
    """Turn what the network says into `UnreachableError`, with what to do about it."""
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        hint = "Start one with `horarium dev`, or name another with --url or HORARIUM_URL."
        raise errors.UnreachableError(f"No server answers at {url}: {_reason(error)}. {hint}") from error


def segment(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe="")


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    if isinstance(error, socket.gaierror):
        return "its name cannot be resolved"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__


def _encode(body: object) -> bytes | None:
    if body is None:
        return None
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    return text.encode()


def _encode_query(query: Query | None) -> str:
    given = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in (query or {}).items()
        if value is not None and value != ()
    }
    return "?" + urlencode(given, doseq=True) if given else ""


def _decode(content: bytes) -> Any:
    if not content:
        return None
    try:
        return json.loads(content)
    except ValueError:
        raise errors.RequestError(502, {"detail": "the answer is not JSON: is this a Horarium server?"}) from None


def _problem(response: http.client.HTTPResponse, content: bytes) -> dict[str, Any]:
    """The problem document; where something else answered (a proxy, a login page), what its status says."""
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if isinstance(document, dict) and (document.get("title") or document.get("detail")):
        return document
    return {"title": f"{response.status} {response.reason}".strip(), "status": response.status}


def _parse_events(lines: Iterator[bytes] | http.client.HTTPResponse) -> Iterator[tuple[str, str]]:
    """The text/event-stream format (HTML standard, 9.2.6): fields until an empty line, comments begin with a colon."""
    event, data = "message", list[str]()
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line and data:
            yield event, "\n".join(data)
        if not line:
            event, data = "message", []
        elif name == "event":
            event = value
        elif name == "data":
            data.append(value)
