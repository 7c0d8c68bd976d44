"""`--queues`: which queues a worker serves.

critical=6,default=3,low=1    by weight: of ten runs six come from critical while all have some
critical,default              in that order: default only while critical has none
"""

from __future__ import annotations

from typing import NamedTuple

from horarium import errors
from horarium.protocol import messages


class Queues(NamedTuple):
    """The queues, and whether their order is strict."""

    weights: list[messages.QueueWeight]
    strict: bool


def parse(text: str | None) -> Queues:
    """What `--queues` says; the queue `default` alone without it. ConfigurationError for what cannot be read."""
    parts = [part.strip() for part in (text or "default").split(",") if part.strip()]
    weighted = ["=" in part for part in parts]
    if not parts or (any(weighted) and not all(weighted)):
        raise errors.ConfigurationError(
            f"queues {text!r}: give all of them a weight (critical=6,default=3) or none (critical,default: in that order)"
        )
    weights = [_weight(part) for part in parts]
    names = [weight.name for weight in weights]
    if len(set(names)) < len(names):
        raise errors.ConfigurationError(f"queues {text!r}: a queue is named twice")
    return Queues(weights, strict=len(parts) > 1 and not any(weighted))


def _weight(part: str) -> messages.QueueWeight:
    name, sign, number = (piece.strip() for piece in part.partition("="))
    if not name or (sign and not number.isdecimal()) or (sign and not 1 <= int(number) <= 1000):
        raise errors.ConfigurationError(f"queues: {part!r} is not name=weight with a weight from 1 to 1000")
    return messages.QueueWeight(name, int(number) if sign else 1)
