"""Which shard a job belongs to."""

from __future__ import annotations

from collections import Counter
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium.domain import sharding
from horarium.domain.sharding import Held, Move, decide, targets

nodes = st.sampled_from("abcdefgh")
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


def rows(**led: int) -> list[Held]:
    """So many shards for each node; `free` ones have no leader."""
    leaders = [name for name, count in led.items() for name in repeat(name, count)]
    return [Held(shard, None if leader == "free" else leader) for shard, leader in enumerate(leaders)]


def test_the_first_node_takes_all() -> None:
    assert decide("a", [], rows(free=16)) == Move(take=16)


def test_a_second_node_is_given_half() -> None:
    assert decide("a", ["a", "b"], rows(a=16)) == Move(give=8)
    assert decide("b", ["a", "b"], rows(a=16)) == Move()
    assert decide("b", ["a", "b"], rows(a=8, free=8)) == Move(take=8)
    assert decide("a", ["a", "b"], rows(a=8, free=8)) == Move()


def test_a_node_that_does_not_count_yet_is_given_nothing() -> None:
    assert decide("a", ["a"], rows(a=16)) == Move()


def test_a_dead_nodes_shards_are_shared_by_the_others() -> None:
    assert decide("a", ["a", "b"], rows(a=5, b=6, free=5)) == Move(take=3)
    assert decide("b", ["a", "b"], rows(a=5, b=6, free=5)) == Move(take=2)


def test_a_division_with_a_rest_is_at_rest() -> None:
    for node in "abcde":
        assert decide(node, "abcde", rows(a=3, b=3, c=4, d=3, e=3)) == Move()


def test_no_node_is_left_out_where_shares_are_rounded() -> None:
    """16 shards over 5 nodes: four each would leave the fifth without any."""
    assert decide("e", "abcde", rows(a=4, b=4, c=4, d=4)) == Move()
    gives = [decide(node, "abcde", rows(a=4, b=4, c=4, d=4)).give for node in "abcd"]
    assert gives == [0, 1, 1, 1]


def test_a_shard_whose_leader_does_not_count_is_nobodys_to_take() -> None:
    assert decide("a", ["a"], rows(a=1, stranger=3, free=2)) == Move(take=2)


@given(st.dictionaries(nodes, st.integers(0, 40), min_size=1), st.integers(0, 40))
def test_what_is_wanted_is_all_and_even(led: dict[str, int], free: int) -> None:
    shards = sum(led.values()) + free
    wanted = targets(led, shards)
    assert sum(wanted.values()) == shards
    assert max(wanted.values()) - min(wanted.values()) <= 1
    assert targets(wanted, shards) == wanted


@given(st.dictionaries(nodes, st.integers(0, 40), min_size=1), st.integers(0, 40))
def test_what_is_given_is_what_others_take(led: dict[str, int], free: int) -> None:
    wanted = targets(led, sum(led.values()) + free)
    given = sum(max(0, led[node] - wanted[node]) for node in led)
    taken = sum(max(0, wanted[node] - led[node]) for node in led)
    assert taken == given + free


@given(st.lists(st.sets(nodes, min_size=1), min_size=1, max_size=6), st.integers(1, 64), st.data())
def test_nodes_come_and_go_and_the_division_comes_to_rest(
    ages: list[set[str]], shards: int, data: st.DataObject
) -> None:
    """Each acts when it likes, on the rows as they are; what it gives is free at once."""
    leaders: list[str | None] = [None] * shards
    for alive in ages:
        leaders = [leader if leader in alive else None for leader in leaders]
        for _ in range(3):
            for node in data.draw(st.permutations(sorted(alive))):
                move = decide(node, alive, [Held(shard, leader) for shard, leader in enumerate(leaders)])
                assert not (move.take and move.give)
                free = [shard for shard, leader in enumerate(leaders) if leader is None]
                own = [shard for shard, leader in enumerate(leaders) if leader == node]
                for shard in free[: move.take]:
                    leaders[shard] = node
                for shard in own[: move.give]:
                    leaders[shard] = None
        counts = Counter(leaders)
        assert counts[None] == 0
        assert max(counts.values()) - min(counts[node] for node in alive) <= 1
