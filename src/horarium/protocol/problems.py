"""What an error of ours is in an answer (RFC 9457), on every path of a node: its status, its type, and the headers with it.

A type is stable and for programs: the code of the fault when all faults share one, else the error's own code or its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from horarium import errors

MEDIA_TYPE = "application/problem+json"
PREFIX = "urn:horarium:problem:"

_KINDS: Mapping[type[errors.HorariumError], tuple[int, str]] = {
    errors.InvalidError: (422, "invalid"),
    errors.NotFoundError: (404, "not-found"),
    errors.ConflictError: (409, "conflict"),
    errors.StaleVersionError: (412, "stale-version"),
    errors.TooLargeError: (413, "too-large"),
    errors.UnauthenticatedError: (401, "unauthenticated"),
    errors.ForbiddenError: (403, "forbidden"),
    errors.OverLimitError: (429, "over-limit"),
    errors.UnavailableError: (503, "unavailable"),
}
_INTERNAL = (500, "internal")


def is_answer(error: BaseException) -> bool:
    """Whether an error is something that a caller is answered; any other is a fault of ours."""
    return isinstance(error, tuple(_KINDS))


def status_of(error: errors.HorariumError) -> int:
    """The HTTP status of an error; 500 for one that stands for no answer."""
    return _kind_of(error)[0]


def type_of(error: errors.HorariumError) -> str:
    """The type of the problem, a URN."""
    codes = {fault.code for fault in error.faults} if isinstance(error, errors.InvalidError) else set()
    word = codes.pop() if len(codes) == 1 else getattr(error, "code", _kind_of(error)[1])
    return PREFIX + str(word).replace("_", "-")


def type_of_status(status: int) -> str:
    """The type of a problem that says no more than a status does."""
    return PREFIX + HTTPStatus(status).phrase.lower().replace(" ", "-")


def headers_of(error: errors.HorariumError) -> dict[str, str]:
    """The headers that go with an error."""
    if isinstance(error, errors.UnauthenticatedError):
        return {"WWW-Authenticate": 'Bearer realm="horarium"'}
    if isinstance(error, errors.OverLimitError):
        return {"Retry-After": str(max(1, round(error.retry_after_s)))}
    if isinstance(error, errors.UnavailableError):
        return {"Retry-After": "1"}
    return {}


def _kind_of(error: errors.HorariumError) -> tuple[int, str]:
    return next((kind for cls, kind in _KINDS.items() if isinstance(error, cls)), _INTERNAL)
