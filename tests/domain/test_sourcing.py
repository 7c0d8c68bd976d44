"""Where a worker's next runs come from: in proportion to what is queued."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium.domain import sourcing
from horarium.domain.sourcing import Turns
from tests import builders

weights = st.dictionaries(st.sampled_from("abcde"), st.integers(1, 1000), min_size=1)
depths = st.dictionaries(st.sampled_from(["mail", "slow", "default"]), st.integers(1, 50))


@given(weights, st.lists(st.integers(1, 20), min_size=1, max_size=50))
def test_each_source_gets_its_share_at_every_moment(wanted: dict[str, int], amounts: list[int]) -> None:
    turns, got, total = Turns(), Counter[str](), sum(wanted.values())
    for amount in amounts:
        got[turns.next(wanted, amount)] += amount
    for source, weight in wanted.items():
        owed = sum(amounts) * weight / total - got[source]
        assert -max(amounts) - 1e-6 <= owed <= max(amounts) * len(wanted)


def test_a_source_that_is_alone_gets_all() -> None:
    turns = Turns()
    assert [turns.next({"a": 1}, 5) for _ in range(3)] == ["a"] * 3


def test_a_loaded_node_does_not_keep_its_workers_to_itself() -> None:
    turns = Turns()
    got = Counter(turns.next({"own": 900, "peer": 100}) for _ in range(1000))
    assert got == {"own": 900, "peer": 100}


def test_a_source_that_had_nothing_for_a_while_is_owed_nothing_for_it() -> None:
    turns = Turns()
    for _ in range(100):
        turns.next({"a": 1})
    assert Counter(turns.next({"a": 1, "b": 1}) for _ in range(100)) == {"a": 50, "b": 50}


def test_only_queues_that_a_worker_serves_count() -> None:
    wanted = builders.wanted("mail", "slow")
    assert sourcing.wanted_depth(wanted, {"mail": 2, "slow": 3, "other": 100}) == 5
    assert sourcing.wanted_depth(wanted, {}) == 0


@given(depths, st.integers(0, 100))
def test_what_is_taken_is_deducted_once(found: dict[str, int], amount: int) -> None:
    wanted = builders.wanted("mail", "slow")
    before, other = sourcing.wanted_depth(wanted, found), found.get("default")
    sourcing.deduct(found, wanted, amount)
    assert sourcing.wanted_depth(wanted, found) == max(0, before - amount)
    assert found.get("default") == other
    assert all(depth > 0 for depth in found.values())


@pytest.mark.parametrize(
    ("told", "now", "news"),
    [
        ({}, {}, False),
        ({}, {"a": 1}, True),
        ({"a": 1}, {}, True),
        ({"a": 1}, {"b": 1}, True),
        ({"a": 10}, {"a": 11}, False),
        ({"a": 10}, {"a": 19}, False),
        ({"a": 10}, {"a": 20}, True),
        ({"a": 10}, {"a": 6}, False),
        ({"a": 10}, {"a": 5}, True),
    ],
)
def test_small_differences_are_no_news(told: dict[str, int], now: dict[str, int], news: bool) -> None:
    assert sourcing.is_news(told, now) is news
