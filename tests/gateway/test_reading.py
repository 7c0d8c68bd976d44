"""Around a message: the key in the header, and refusals as problem documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from horarium import errors
from horarium.gateway import reading
from horarium.protocol import messages, problems


def with_header(value: bytes) -> dict[str, Any]:
    """A request with an Authorization header behind another one."""
    return {"headers": [(b"accept", b"*/*"), (b"authorization", value)]}


@pytest.mark.parametrize("value", [b"Bearer hrm_x", b"bearer hrm_x", b"BEARER   hrm_x  "])
def test_the_scheme_is_read_in_any_case(value: bytes) -> None:
    assert reading.bearer_token(with_header(value)) == "hrm_x"


@pytest.mark.parametrize("value", [b"", b"Bearer", b"Bearer ", b"Basic dXNlcg==", b"hrm_x"])
def test_anything_else_is_no_key(value: bytes) -> None:
    with pytest.raises(errors.UnauthenticatedError, match="send an API key"):
        reading.bearer_token(with_header(value))


def test_no_header_is_no_key() -> None:
    with pytest.raises(errors.UnauthenticatedError):
        reading.bearer_token({"headers": []})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"worker": {"id": ""}}',
        b'{"worker": {"id": "\xc3\x28"}}',
        b'{"worker": {"id": 7}}',
        b'{"worker": ' + b"[" * 100_000,
    ],
)
def test_what_is_no_message_is_invalid(body: bytes) -> None:
    with pytest.raises(errors.InvalidError) as refused:
        reading.decode(messages.stop_requests, body)
    assert [fault.code for fault in refused.value.faults] == ["malformed_message"]


def test_unknown_members_are_ignored() -> None:
    message = reading.decode(messages.stop_requests, b'{"worker": {"id": "w1", "colour": "red"}, "new": 1}')
    assert message.worker.id == "w1"


@pytest.mark.parametrize(
    ("error", "status", "headers"),
    [
        (errors.NotFoundError("x"), 404, []),
        (errors.TooLargeError("x"), 413, []),
        (errors.ForbiddenError("x"), 403, []),
        (errors.UnauthenticatedError("x"), 401, [(b"www-authenticate", b'Bearer realm="horarium"')]),
        (errors.UnavailableError("x"), 503, [(b"retry-after", b"1")]),
        (errors.ConfigurationError("x"), 500, []),
    ],
)
def test_each_error_has_its_status(
    error: errors.HorariumError, status: int, headers: list[tuple[bytes, bytes]]
) -> None:
    given, told, body = reading.refusal(error)
    problem = json.loads(body)
    assert (given, told) == (status, headers)
    assert (problem["status"], problem["title"], problem["detail"]) == (status, error.title, "x")
    assert problem["type"] == problems.type_of(error)


def test_faults_are_listed_with_their_pointers() -> None:
    _, _, body = reading.refusal(errors.InvalidError([errors.Fault("/slots", "is too large", "malformed_message")]))
    assert json.loads(body)["errors"] == [{"pointer": "/slots", "detail": "is too large", "code": "malformed_message"}]


def test_a_crash_tells_nothing_of_the_inside() -> None:
    status, _, body = reading.crash()
    assert (status, set(json.loads(body))) == (500, {"type", "title", "status"})
