"""Readers of single values."""

from __future__ import annotations

from typing import Any

import pytest

from horarium import errors
from horarium.domain import job_fields
from horarium.domain.job_fields import Faults


def test_faults_are_raised_together_and_none_is_no_error() -> None:
    faults = Faults()
    faults.raise_all()
    faults.add("/a", "is wrong")
    faults.take(errors.InvalidError([errors.Fault("/b", "is wrong, too", "code")]))
    with pytest.raises(errors.InvalidError) as raised:
        faults.raise_all()
    assert [(fault.pointer, fault.code) for fault in raised.value.faults] == [("/a", "invalid"), ("/b", "code")]
    assert len(faults) == 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "null"), (True, "true"), (False, "false"), (0, "0"), (1, "1"), ({}, "an object"), ([], "a list"),
     ("x", "'x'"), (float("inf"), "a number that is too large"), (10**50, "a number that is too large"),
     ("\ud800", "'\\ud800'")],
)  # fmt: skip
def test_a_message_quotes_any_value_briefly(value: Any, shown: str) -> None:
    assert job_fields.shown(value) == shown


def test_a_message_stays_short() -> None:
    assert len(job_fields.shown("x" * 1000)) <= 60


def test_pointers_are_escaped() -> None:
    """RFC 6901."""
    assert job_fields.pointer_to("/a", "b/c~d") == "/a/b~1c~0d"
    job_fields.pointer_to("", "\ud800").encode()


def test_members_are_read_and_unknown_ones_told() -> None:
    faults = Faults()
    readers = {"reason": job_fields.text(5), "count": job_fields.integer(0, 9), "go": job_fields.boolean}
    given = {"reason": "why", "count": None, "go": True, "reasn": 1}
    assert job_fields.members(given, "/x", faults, readers) == {"reason": "why", "go": True}
    with pytest.raises(errors.InvalidError, match=r"/x/reasn: is unknown; did you mean reason\?"):
        faults.raise_all()


@pytest.mark.parametrize("value", [1, "true", None, 0])
def test_a_boolean_is_nothing_else(value: Any) -> None:
    faults = Faults()
    job_fields.boolean(value, "/x", faults)
    assert len(faults) == 1
