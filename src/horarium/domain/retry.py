"""What follows a failed attempt: again, and when, or never (design: runs section 4).

Pure: given the policy, the attempt, the time and a random number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

MAX_ATTEMPTS = 1000
MAX_SNOOZES = 100


class Backoff(StrEnum):
    """How the delay grows from attempt to attempt."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and when a failed run is tried again.

    `base_s`, `max_s` and `retry_window_s` are seconds; `retry_window_s` counts from the run's nominal time and ends all
    tries; `jitter` is the share by which a delay is spread to both sides; `max_attempts` 1 means never again.
    """

    max_attempts: int = 4
    backoff: str = Backoff.EXPONENTIAL
    base_s: float = 10
    factor: float = 2
    max_s: float = 3600
    jitter: float = 0.2
    retry_window_s: float | None = None


DEFAULT = RetryPolicy()
_MEMBERS = frozenset(asdict(DEFAULT))


def from_json(members: Mapping[str, Any]) -> RetryPolicy:
    """The policy of a job's `retry` member; members that are left out have their defaults, others are not looked at."""
    return RetryPolicy(**{name: value for name, value in members.items() if name in _MEMBERS})


def to_json(policy: RetryPolicy) -> dict[str, Any]:
    """The members of a policy that differ from the defaults."""
    defaults = asdict(DEFAULT)
    return {name: value for name, value in asdict(policy).items() if value != defaults[name]}


def delay_after(policy: RetryPolicy, attempt: int, spread: float) -> timedelta:
    """How long to wait after attempt number `attempt` (1, 2, …) failed.

    `spread` is a random number from −1 to 1: the delay moves by `spread × jitter` of itself.
    """
    seconds = min(_growth(policy, attempt), policy.max_s)
    return timedelta(seconds=max(0.0, seconds * (1 + policy.jitter * spread)))


def may_try_again(policy: RetryPolicy, attempt: int, scheduled_for: datetime, next_try: datetime) -> bool:
    """Whether another attempt is allowed after attempt number `attempt`, starting at `next_try`."""
    if attempt >= policy.max_attempts:
        return False
    if policy.retry_window_s is None:
        return True
    return next_try <= scheduled_for + timedelta(seconds=policy.retry_window_s)


def _growth(policy: RetryPolicy, attempt: int) -> float:
    if policy.backoff == Backoff.FIXED:
        return policy.base_s
    if policy.backoff == Backoff.LINEAR:
        return policy.base_s * attempt
    try:
        return policy.base_s * policy.factor ** (attempt - 1)
    except OverflowError:
        return policy.max_s
