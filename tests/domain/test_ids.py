"""Ids: computed for ticks, drawn for the rest, sorted by time, and the shard can be read off."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium.domain import ids

instants = st.integers(0, 7_258_118_400 * 10**6).map(lambda micros: ids.EPOCH + timedelta(microseconds=micros))
shards = st.integers(0, ids.MAX_SHARDS - 1)
uuids = st.uuids()
NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)


@given(uuids, shards, instants)
def test_a_tick_has_one_id_for_ever(job_id: UUID, shard: int, at: datetime) -> None:
    run_id = ids.tick_run_id(job_id, shard, at)
    assert ids.tick_run_id(job_id, shard, at) == run_id
    assert ids.tick_run_bytes(job_id.bytes, shard, ids.microseconds(at)) == run_id.bytes
    assert ids.is_tick(run_id)
    assert (run_id.version, run_id.variant) == (8, "specified in RFC 4122")


def test_the_id_of_a_tick_is_not_changed_by_a_new_version_of_ours() -> None:
    """Written down once: rows and downstream systems carry it."""
    run_id = ids.tick_run_id(UUID("0191e0a0-7c00-7003-8000-00000000002a"), 3, NOW)
    assert str(run_id) == "01a400f6-3600-8003-8e3b-c21e91719038"


@given(uuids, shards, instants, st.integers(0, 2**64 - 1))
def test_an_id_says_when_and_where(job_id: UUID, shard: int, at: datetime, entropy: int) -> None:
    to_the_ms = at.replace(microsecond=at.microsecond // 1000 * 1000)
    for made in (ids.tick_run_id(job_id, shard, at), ids.fresh_id(shard, at, entropy)):
        assert ids.shard_of(made) == shard
        assert ids.instant_of(made) == to_the_ms


@given(shards, instants, st.integers(0, 2**64 - 1))
def test_a_fresh_id_is_of_version_seven_and_no_tick(shard: int, at: datetime, entropy: int) -> None:
    made = ids.fresh_id(shard, at, entropy)
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert not ids.is_tick(made)


@given(uuids, st.lists(instants, min_size=2, max_size=2, unique_by=lambda at: ids.microseconds(at) // 1000))
def test_ids_sort_by_time(job_id: UUID, two: list[datetime]) -> None:
    earlier, later = sorted(two)
    assert ids.tick_run_id(job_id, 4095, earlier) < ids.tick_run_id(job_id, 0, later)
    assert ids.fresh_id(4095, earlier, 2**62 - 1) < ids.fresh_id(0, later, 0)


def test_ticks_of_one_instant_and_of_one_job_do_not_collide() -> None:
    rng = random.Random(1)
    jobs = [UUID(int=rng.getrandbits(128)) for _ in range(20_000)]
    assert len({ids.tick_run_id(job, 0, NOW) for job in jobs}) == len(jobs)
    within_a_ms = {ids.tick_run_id(jobs[0], 0, NOW + timedelta(microseconds=n)) for n in range(1000)}
    assert len(within_a_ms) == 1000


@given(st.integers(0, 2**62 - 1), st.integers(0, 2**62 - 1))
def test_sixty_two_bits_of_entropy_are_kept(one: int, other: int) -> None:
    assert (ids.fresh_id(0, NOW, one) == ids.fresh_id(0, NOW, other)) is (one == other)


@pytest.mark.parametrize("shard", [-1, ids.MAX_SHARDS])
def test_a_shard_that_does_not_fit_is_refused(shard: int) -> None:
    with pytest.raises(ValueError, match="shard"):
        ids.fresh_id(shard, NOW, 0)


@given(st.uuids())
def test_any_uuid_can_be_asked(identifier: UUID) -> None:
    """Ids come from outside, too."""
    assert 0 <= ids.shard_of(identifier) < ids.MAX_SHARDS
    assert ids.instant_of(identifier) >= ids.EPOCH


def test_microseconds_count_from_the_epoch() -> None:
    assert ids.microseconds(ids.EPOCH + timedelta(days=1, microseconds=7)) == 86_400_000_007
    assert ids.microseconds(ids.EPOCH - timedelta(microseconds=1)) == -1
