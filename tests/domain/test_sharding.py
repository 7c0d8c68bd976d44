"""Which shard a name belongs to: for ever the same, evenly spread."""

from __future__ import annotations

import collections

from hypothesis import given
from hypothesis import strategies as st

from horarium.domain import sharding

names = st.text(max_size=30)


@given(names, names, st.integers(1, 4096))
def test_a_name_has_one_shard(tenant: str, name: str, shards: int) -> None:
    found = sharding.shard_of_name(tenant, name, shards)
    assert 0 <= found < shards
    assert sharding.shard_of_name(tenant, name, shards) == found


def test_the_shard_of_a_name_is_not_changed_by_a_new_version_of_ours() -> None:
    assert [sharding.shard_of_name("default", f"job-{n}", 16) for n in range(8)] == [1, 3, 15, 10, 1, 11, 14, 11]


def test_names_are_spread_evenly() -> None:
    counts = collections.Counter(sharding.shard_of_name("default", f"job-{n}", 16) for n in range(16_000))
    assert set(counts) == set(range(16))
    assert max(counts.values()) < 1.15 * 1000


def test_the_border_between_tenant_and_name_counts() -> None:
    found = {sharding.shard_of_name(*pair, 4096) for pair in (("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", ""))}
    assert len(found) == 4
