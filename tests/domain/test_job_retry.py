"""Reading a retry policy."""

from __future__ import annotations

from typing import Any

import pytest

from horarium import errors
from horarium.domain import job_retry, retry
from horarium.domain.job_fields import Faults


def read(value: Any) -> retry.RetryPolicy:
    faults = Faults()
    policy = job_retry.read(value, "/retry", faults)
    faults.raise_all()
    return policy


def test_members_that_are_left_out_have_their_defaults() -> None:
    assert read({}) == retry.DEFAULT
    assert read({"max_attempts": None}) == retry.DEFAULT
    assert read({"max_attempts": 1, "backoff": "fixed", "retry_window_s": 60}) == retry.RetryPolicy(
        max_attempts=1, backoff="fixed", retry_window_s=60
    )


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"max_attempts": 0}, ["/retry/max_attempts"]),
        ({"max_attempts": 1001}, ["/retry/max_attempts"]),
        ({"max_attempts": 10**20}, ["/retry/max_attempts"]),
        ({"max_attempts": 2.0}, ["/retry/max_attempts"]),
        ({"max_attempts": True}, ["/retry/max_attempts"]),
        ({"backoff": "exponentiel"}, ["/retry/backoff"]),
        ({"base_s": -1}, ["/retry/base_s"]),
        ({"base_s": "10s"}, ["/retry/base_s"]),
        ({"base_s": float("nan")}, ["/retry/base_s"]),
        ({"base_s": float("inf")}, ["/retry/base_s"]),
        ({"factor": 0.5}, ["/retry/factor"]),
        ({"factor": 101}, ["/retry/factor"]),
        ({"jitter": 1.5}, ["/retry/jitter"]),
        ({"max_s": 10**9}, ["/retry/max_s"]),
        ({"retry_window_s": 0}, ["/retry/retry_window_s"]),
        ({"base_s": 7200}, ["/retry/base_s"]),
        ({"base_s": 7200, "max_s": 7200, "tries": 1}, ["/retry/tries"]),
        (5, ["/retry"]),
        ([], ["/retry"]),
    ],
)
def test_what_makes_no_sense_is_refused(policy: Any, expected: list[str]) -> None:
    with pytest.raises(errors.InvalidError) as raised:
        read(policy)
    assert [fault.pointer for fault in raised.value.faults] == expected


def test_a_misspelt_backoff_gets_a_suggestion() -> None:
    with pytest.raises(errors.InvalidError, match="did you mean exponential"):
        read({"backoff": "exponentiel"})
