"""What errors are in answers: the same on every path."""

from __future__ import annotations

import pytest

from horarium import errors
from horarium.protocol import problems


def invalid(*codes: str) -> errors.InvalidError:
    return errors.InvalidError([errors.Fault("/x", "is wrong", code) for code in codes])


@pytest.mark.parametrize(
    ("error", "status", "word"),
    [
        (invalid("never_fires"), 422, "never-fires"),
        (invalid("never_fires", "never_fires"), 422, "never-fires"),
        (invalid("never_fires", "missing"), 422, "invalid"),
        (errors.TooLargeError("too much"), 413, "too-large"),
        (errors.ConflictError("no", "job_finished"), 409, "job-finished"),
        (errors.UnavailableError("later"), 503, "unavailable"),
        (errors.UnreachableError("nobody there"), 500, "internal"),
    ],
)
def test_status_and_type(error: errors.HorariumError, status: int, word: str) -> None:
    assert problems.status_of(error) == status
    assert problems.type_of(error) == problems.PREFIX + word
    assert problems.is_answer(error) is (status != 500)


def test_headers_say_when_to_come_again_and_with_what() -> None:
    assert problems.headers_of(errors.UnavailableError("later")) == {"Retry-After": "1"}
    assert problems.headers_of(errors.UnauthenticatedError("who?")) == {"WWW-Authenticate": 'Bearer realm="horarium"'}
    assert problems.headers_of(invalid("missing")) == {}


def test_a_status_alone_has_a_type() -> None:
    assert problems.type_of_status(405) == "urn:horarium:problem:method-not-allowed"
