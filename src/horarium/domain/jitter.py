"""Spreading of starts: a delay that is drawn once and for all from the job and its nominal time (design rule J1)."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from uuid import UUID

from horarium.domain import ids

_MICROSECOND = timedelta(microseconds=1)


def delay(job_id: UUID, scheduled_for: datetime, bound: timedelta) -> timedelta:
    """A delay in [0, bound), the same for the same job and nominal time on every node; zero if the bound is.

    The hash is keyed apart from the one of `ids.tick_run_id`, which is fed with the same values.
    """
    width = bound // _MICROSECOND
    if width <= 0:
        return timedelta(0)
    seed = job_id.bytes + ids.microseconds(scheduled_for).to_bytes(8, "big", signed=True)
    digest = hashlib.blake2b(seed, digest_size=8, person=b"jitter").digest()
    return timedelta(microseconds=int.from_bytes(digest, "big") * width >> 64)
