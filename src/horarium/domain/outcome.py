"""How an attempt ended, and what follows (design: runs sections 3 and 4). Pure: given the row, the time, a random number."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from horarium.domain import retry
from horarium.domain.states import RunState


class Outcome(StrEnum):
    """What became of an attempt. The last three are the leader's own findings; workers report the others."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DISCARD = "discard"
    SNOOZE = "snooze"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Attempt:
    """The attempt that ended, as its row tells: `attempt` is its number, `lost_before` whether an earlier one was lost."""

    attempt: int
    snoozes: int
    scheduled_for: datetime
    policy: retry.RetryPolicy
    cancel_requested: bool
    lost_before: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows. `final` None: the run waits again from `ready_at`, with this attempt and snooze count kept.

    `is_failure`: the attempt is kept among the run's failures. `reason` stands in for an error where there was none.
    """

    final: RunState | None
    ready_at: datetime | None
    attempt: int
    snoozes: int
    is_failure: bool
    at_front: bool = False
    reason: str = ""


def decide(ended: Attempt, outcome: Outcome, retry_in: timedelta | None, now: datetime, spread: float) -> Decision:
    """What follows an attempt that did not succeed. `spread` is random, −1 to 1, for the jitter of the back-off."""
    if outcome is Outcome.CANCELLED or ended.cancel_requested:
        return _end(ended, RunState.CANCELLED, is_failure=outcome is not Outcome.CANCELLED)
    if outcome is Outcome.INTERRUPTED:
        return Decision(None, now, ended.attempt - 1, ended.snoozes, is_failure=False, at_front=True)
    if outcome is Outcome.SNOOZE:
        return _snooze(ended, retry_in or timedelta(), now)
    if outcome is Outcome.DISCARD:
        return _end(ended, RunState.DEAD, is_failure=True)
    delay = _delay(ended, outcome, retry_in, spread)
    if retry.may_try_again(ended.policy, ended.attempt, ended.scheduled_for, now + delay):
        return Decision(None, now + delay, ended.attempt, 0, is_failure=True)
    return _end(ended, RunState.DEAD, is_failure=True)


def fingerprint(target_key: str, error_class: str, message: str) -> str:
    """Equal for failures of the same kind: numbers, ids and quoted values in the message do not count."""
    shape = re.sub(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\d+", "#", message.lower())
    shape = re.sub(r"(?<!\w)'[^']*'|\"[^\"]*\"", "'…'", shape)[:500]  # not the apostrophe of «can't»
    return hashlib.blake2b(f"{target_key}\0{error_class}\0{shape}".encode(errors="replace"), digest_size=8).hexdigest()


def _delay(ended: Attempt, outcome: Outcome, retry_in: timedelta | None, spread: float) -> timedelta:
    """A worker's death is followed by a new attempt at once; the second death of a run has the ordinary back-off."""
    if retry_in is not None:
        return retry_in
    if outcome is Outcome.LOST and not ended.lost_before:
        return timedelta()
    return retry.delay_after(ended.policy, ended.attempt, spread)


def _snooze(ended: Attempt, retry_in: timedelta, now: datetime) -> Decision:
    if ended.snoozes >= retry.MAX_SNOOZES:
        reason = f"snoozed more than {retry.MAX_SNOOZES} times in a row"
        return Decision(RunState.DEAD, None, ended.attempt, ended.snoozes, is_failure=True, reason=reason)
    return Decision(None, now + retry_in, ended.attempt - 1, ended.snoozes + 1, is_failure=False)


def _end(ended: Attempt, final: RunState, *, is_failure: bool) -> Decision:
    return Decision(final, None, ended.attempt, ended.snoozes, is_failure)
