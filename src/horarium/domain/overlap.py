"""What happens when a tick's instant comes while an earlier run of the same job is live (design: runs section 5)."""

from __future__ import annotations

from enum import StrEnum


class Overlap(StrEnum):
    """A job's overlap rule."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue_one"
    QUEUE_ALL = "queue_all"
    CANCEL_RUNNING = "cancel_running"


class Verdict(StrEnum):
    """What to do with a run whose instant has come."""

    START = "start"
    SKIP = "skip"
    HOLD = "hold"
    REPLACE_HELD = "replace_held"
    CANCEL_AND_HOLD = "cancel_and_hold"


def judge(rule: Overlap, live: int, held: int) -> Verdict:
    """The verdict on a tick, given how many runs of its job are queued or running (`live`) and how many are held back.

    At most one is held under `queue_one` and `cancel_running`: a newer tick stands for it.
    """
    if rule is Overlap.ALLOW or not (live or held):
        return Verdict.START
    if rule is Overlap.SKIP:
        return Verdict.SKIP
    if rule is Overlap.QUEUE_ALL:
        return Verdict.HOLD
    if rule is Overlap.QUEUE_ONE:
        return Verdict.REPLACE_HELD if held else Verdict.HOLD
    return Verdict.CANCEL_AND_HOLD
