"""Ids that say when and where."""

from __future__ import annotations

import hashlib
import itertools
from datetime import UTC, datetime, timedelta, timezone
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horarium.domain import ids

AT = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
JOB = UUID("01890000-0000-7003-8000-000000000001")

shards = st.integers(0, ids.MAX_SHARDS - 1)
instants = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001 - UTC is set
uuids = st.uuids()


def to_the_millisecond(instant: datetime) -> datetime:
    """An instant without what is finer."""
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


@settings(max_examples=200)
@given(uuids, shards, instants)
def test_a_ticks_id_is_the_same_everywhere_and_tells_time_and_shard(job: UUID, shard: int, at: datetime) -> None:
    made = ids.tick_run_id(job, shard, at)
    assert made == ids.tick_run_id(job, shard, at.astimezone(timezone(timedelta(hours=9))))
    assert (ids.shard_of(made), ids.instant_of(made), ids.is_tick(made)) == (shard, to_the_millisecond(at), True)
    assert (made.version, made.variant) == (8, RFC_4122)
    assert made.bytes == ids.tick_run_bytes(job.bytes, shard, ids.microseconds(at))


@settings(max_examples=200)
@given(shards, instants, st.integers(0, 2**128 - 1))
def test_a_fresh_id_tells_time_and_shard(shard: int, at: datetime, entropy: int) -> None:
    made = ids.fresh_id(shard, at, entropy)
    assert (ids.shard_of(made), ids.instant_of(made), ids.is_tick(made)) == (shard, to_the_millisecond(at), False)
    assert (made.version, made.variant) == (7, RFC_4122)
    assert made.int & (1 << 62) - 1 == entropy & (1 << 62) - 1


def test_the_layout_is_fixed() -> None:
    """Ids are kept for years: another layout or hash would fire ticks a second time."""
    made = ids.tick_run_id(JOB, 0xABC, AT)
    micros = int(AT.timestamp()) * 1_000_000 + 123456
    digest = hashlib.blake2b(JOB.bytes + micros.to_bytes(8, "big"), digest_size=8).digest()
    rest = 0x8000_0000_0000_0000 | int.from_bytes(digest, "big") & 0x3FFF_FFFF_FFFF_FFFF
    assert made.hex == f"{micros // 1000:012x}8abc{rest:016x}"
    assert ids.fresh_id(0xABC, AT, 5).hex == f"{micros // 1000:012x}7abc8000000000000005"


def test_ticks_of_the_same_millisecond_and_of_other_jobs_differ() -> None:
    micro = timedelta(microseconds=1)
    made = [ids.tick_run_id(UUID(int=job), 3, AT + micro * step) for job in range(20) for step in range(20)]
    assert len(set(made)) == len(made)


def test_ids_sort_by_time() -> None:
    steps = [AT + timedelta(milliseconds=step) for step in range(50)]
    made = [ids.tick_run_id(JOB, 4095 - step, at) for step, at in enumerate(steps)]
    fresh = [ids.fresh_id(4095 - step, at, 2**62 - step) for step, at in enumerate(steps)]
    for earlier, later in itertools.chain(itertools.pairwise(made), itertools.pairwise(fresh)):
        assert earlier < later


def test_times_before_the_epoch_have_ids_too() -> None:
    before = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert ids.microseconds(before) == -1
    assert ids.tick_run_id(JOB, 3, before) != ids.tick_run_id(JOB, 3, before - timedelta(microseconds=1))


def test_an_id_from_beyond_all_time_is_given_the_last_instant() -> None:
    last = ids.instant_of(UUID(int=2**128 - 1))
    assert last.year == 9999
    assert ids.instant_of(ids.fresh_id(0, last, 0)) == last


@pytest.mark.parametrize("shard", [-1, ids.MAX_SHARDS])
def test_a_shard_that_does_not_fit_is_refused(shard: int) -> None:
    with pytest.raises(ValueError, match="is not within 0 to 4095"):
        ids.fresh_id(shard, AT, 1)
