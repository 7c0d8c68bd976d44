"""Which shard a job belongs to."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium.domain import sharding

words = st.text(max_size=50)


@given(words, words, st.integers(1, 4096))
def test_a_name_has_one_shard_among_those_that_there_are(tenant: str, name: str, shards: int) -> None:
    shard = sharding.shard_of_name(tenant, name, shards)
    assert 0 <= shard < shards
    assert sharding.shard_of_name(tenant, name, shards) == shard


@pytest.mark.parametrize(
    ("tenant", "name", "shard"), [("default", "daily", 8), ("default", "grüße", 12), ("acme", "daily", 15)]
)
def test_a_name_keeps_its_shard_for_ever(tenant: str, name: str, shard: int) -> None:
    """Kept in ids and rows: another hash would look for the job elsewhere."""
    assert sharding.shard_of_name(tenant, name, sharding.DEFAULT_SHARDS) == shard


def test_names_are_spread_evenly() -> None:
    counts = Counter(sharding.shard_of_name("default", f"job-{number}", 16) for number in range(16_000))
    assert set(counts) == set(range(16))
    assert max(counts.values()) < 1150
    assert min(counts.values()) > 850


def test_tenant_and_name_do_not_run_into_each_other() -> None:
    pairs = [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc")]
    assert len({sharding.shard_of_name(tenant, name, 2**40) for tenant, name in pairs}) == len(pairs)
