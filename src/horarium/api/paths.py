"""Paths with encoded slashes: `/v1/jobs/name:a%2Fb/pause` is the job `a/b`, not the job `a` with something behind it.

A server hands us the path decoded, where `%2F` and `/` are one. So routing goes over the path as it was sent, decoded
part by part, with the slashes inside a part (and `%` itself) left encoded; the converter `ref` decodes those two
afterwards. A name with slashes sent as they are still finds its job where no longer route fits: the converter takes
more than one part."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import ASGIApp, Receive, Scope, Send


class ExactPaths:
    """ASGI middleware: makes `scope["path"]` tell slashes between parts from slashes inside them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and b"%" in scope.get("raw_path", b""):
            scope = {**scope, "path": _by_parts(scope["raw_path"], scope["path"])}
        await self._app(scope, receive, send)


class RefConvertor(Convertor[str]):
    """A job's id or `name:…`, in one part of the path or, slashes as they are, in several."""

    regex = ".+"

    def convert(self, value: str) -> str:
        return value.replace("%2F", "/").replace("%25", "%")

    def to_string(self, value: str) -> str:
        return value.replace("%", "%25").replace("/", "%2F")


def _by_parts(raw_path: bytes, decoded: str) -> str:
    raw = raw_path.partition(b"?")[0].decode("latin-1")
    if unquote(raw) != decoded:
        return decoded
    return "/".join(unquote(part).replace("%", "%25").replace("/", "%2F") for part in raw.split("/"))


register_url_convertor("ref", RefConvertor())

# The path of one job; what stands behind it comes before this one in the table of routes.
JOB = "/v1/jobs/{ref:ref}"
