"""The `retry` member of a job's body, read into a policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from horarium.domain import job_fields, retry

MAX_DELAY_S = 7 * 86_400
MAX_WINDOW_S = 366 * 86_400
MAX_FACTOR = 100

_READERS: Mapping[str, job_fields.Reader] = {
    "max_attempts": job_fields.integer(1, retry.MAX_ATTEMPTS),
    "backoff": job_fields.word(retry.Backoff),
    "base_s": job_fields.number(0, MAX_DELAY_S),
    "factor": job_fields.number(1, MAX_FACTOR),
    "max_s": job_fields.number(0, MAX_DELAY_S),
    "jitter": job_fields.number(0, 1),
    "retry_window_s": job_fields.number(1, MAX_WINDOW_S),
}


def read(value: Any, pointer: str, faults: job_fields.Faults) -> retry.RetryPolicy:
    """The policy that a `retry` object describes; members left out have their defaults."""
    given = job_fields.members(value, pointer, faults, _READERS)
    policy = retry.RetryPolicy(**{name: member for name, member in given.items() if member is not None})
    if policy.base_s > policy.max_s:
        faults.add(f"{pointer}/base_s", f"is over max_s ({policy.max_s:g}): the delay would never be as long")
    return policy
