"""What an error says when it is shown."""

from __future__ import annotations

import pytest

from horarium import errors

ONE = {"pointer": "/run_id", "detail": "is no id"}
TWO = {"pointer": "/limit", "detail": "is no number"}


@pytest.mark.parametrize(
    ("problem", "shown"),
    [
        ({}, "HTTP 422"),
        ({"title": "Not valid"}, "Not valid"),
        ({"title": "Not valid", "detail": "it is wrong"}, "it is wrong"),
        ({"title": "Not valid", "detail": "/run_id: is no id", "errors": [ONE]}, "/run_id: is no id"),
        (
            {"title": "Not valid", "detail": "/run_id: is no id; /limit: is no number", "errors": [ONE, TWO]},
            "Not valid\n  /run_id: is no id\n  /limit: is no number",
        ),
        ({"title": "Not valid", "detail": "see below", "errors": [ONE]}, "see below\n  /run_id: is no id"),
    ],
)
def test_a_refused_request_says_each_thing_once(problem: dict[str, object], shown: str) -> None:
    assert str(errors.RequestError(422, problem)) == shown


def test_what_is_wrong_with_a_schedule_is_named_unless_the_pointer_names_it() -> None:
    part = errors.InvalidScheduleError("minute", "61 is not a minute", "write 0 to 59")
    whole = errors.InvalidScheduleError("run_at", "is no time", code="invalid_run_at", pointer="/run_at")
    assert [fault.detail for fault in (*part.faults, *whole.faults)] == [
        "minute: 61 is not a minute (write 0 to 59)",
        "is no time",
    ]
