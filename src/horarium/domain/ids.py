"""Ids that say when and where: time in the first 48 bits, the shard in the 12 bits after the version.

One layout for jobs and runs (RFC 9562, 128 bits):

    unix ms (48) · version (4) · shard (12) · variant (2) · rest (62)

* version 8, rest = blake2b(job id, nominal time in µs): the run of a scheduled tick. Computed, never drawn, so making the
  same tick twice gives the same id (design rule I1).
* version 7, rest random: jobs, and runs made by hand (manual, re-run).

Any node reads the shard off an id without asking anything. Ids sort by time.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from uuid import UUID

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_SHARDS = 4096

_MICROSECOND = timedelta(microseconds=1)
_VARIANT = 0b10 << 62
_REST_MASK = (1 << 62) - 1
_MS_MASK = (1 << 48) - 1
_LAST_MS = (datetime.max.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)


def microseconds(instant: datetime) -> int:
    """Whole microseconds between the Unix epoch and an aware instant."""
    return (instant - EPOCH) // _MICROSECOND


def tick_run_id(job_id: UUID, shard: int, scheduled_for: datetime) -> UUID:
    """The id of the run of one scheduled tick: the same for the same (job, nominal time), everywhere, for ever."""
    return UUID(bytes=tick_run_bytes(job_id.bytes, shard, microseconds(scheduled_for)))


def tick_run_bytes(job_id: bytes, shard: int, micros: int) -> bytes:
    """The 16 bytes of `tick_run_id`, for the hot path: the job's id as bytes, the nominal time in µs since the epoch."""
    digest = hashlib.blake2b(job_id + micros.to_bytes(8, "big", signed=True), digest_size=8).digest()
    high = (micros // 1000 & _MS_MASK) << 16 | 0x8000 | shard
    return high.to_bytes(8, "big") + (_VARIANT | int.from_bytes(digest, "big") & _REST_MASK).to_bytes(8, "big")


def fresh_id(shard: int, now: datetime, entropy: int) -> UUID:
    """An id for a job or a run made by hand. `entropy` is a random number of at least 62 bits, drawn by the caller."""
    return UUID(int=_assembled(microseconds(now) // 1000, 7, shard, entropy))


def fresh_bytes(shard: int, ms: int, entropy: int) -> bytes:
    """The 16 bytes of `fresh_id`, for many ids of one moment: `ms` is in milliseconds since the epoch."""
    return _assembled(ms, 7, shard, entropy).to_bytes(16, "big")


def shard_of(identifier: UUID) -> int:
    """The shard that an id carries, 0 to 4095."""
    return (identifier.int >> 64) & 0xFFF


def instant_of(identifier: UUID) -> datetime:
    """The time that an id carries, to the millisecond: a tick's nominal time, or when a job or manual run was made.

    48 bits reach beyond the year 9999; an id from there, which nobody made, is given the last instant there is.
    """
    return EPOCH + timedelta(milliseconds=min(identifier.int >> 80, _LAST_MS))


def is_tick(identifier: UUID) -> bool:
    """True for the computed id of a scheduled tick."""
    return (identifier.int >> 76) & 0xF == 8


def _assembled(ms: int, version: int, shard: int, rest: int) -> int:
    if not 0 <= shard < MAX_SHARDS:
        raise ValueError(f"shard {shard} is not within 0 to {MAX_SHARDS - 1}")
    return (ms & _MS_MASK) << 80 | version << 76 | shard << 64 | _VARIANT | rest & _REST_MASK
