"""What is around a worker's message: the key in the header, and refusals as problem documents (RFC 9457)."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from starlette.types import Scope

from horarium import errors
from horarium.protocol import problems

Headers = list[tuple[bytes, bytes]]
Message = TypeVar("Message")


def bearer_token(scope: Scope) -> str:
    """The API key of a request."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, token = value.decode("latin-1").partition(" ")
            if scheme.lower() == "bearer" and token:
                return str(token.strip())
    raise errors.UnauthenticatedError("send an API key: Authorization: Bearer hrm_…")


def decode(decoder: msgspec.json.Decoder[Message], body: bytes) -> Message:
    """A worker's message; InvalidError when it is not what the protocol says."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.InvalidError([errors.Fault("", str(error), "malformed_message")]) from error


def refusal(error: errors.HorariumError) -> tuple[int, Headers, bytes]:
    """The answer to a message that is refused."""
    status = problems.status_of(error)
    problem: dict[str, Any] = {
        "type": problems.type_of(error),
        "title": error.title,
        "status": status,
        "detail": str(error),
    }
    if isinstance(error, errors.InvalidError):
        problem["errors"] = [{"pointer": f.pointer, "detail": f.detail, "code": f.code} for f in error.faults]
    headers = [(name.lower().encode(), value.encode()) for name, value in problems.headers_of(error).items()]
    return status, headers, msgspec.json.encode(problem)


def method_not_allowed(method: str) -> tuple[int, Headers, bytes]:
    """The answer to another method than POST."""
    problem = {
        "type": problems.type_of_status(405),
        "title": "Method Not Allowed",
        "status": 405,
        "detail": f"{method} is not taken here, only POST",
    }
    return 405, [(b"allow", b"POST")], msgspec.json.encode(problem)


def crash() -> tuple[int, Headers, bytes]:
    """The answer to a message that met a fault of ours; the log has more."""
    problem = {"type": "urn:horarium:problem:internal", "title": "Internal error", "status": 500}
    return 500, [], msgspec.json.encode(problem)
