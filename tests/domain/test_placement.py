"""Where shards live: dealt out evenly, each in one database, and what is said when that is not so."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium.domain import placement
from horarium.domain.placement import Found, State

HERE, LEAVING, LEFT, GONE, ARRIVING, ARRIVED = (
    State.HERE,
    State.LEAVING,
    State.LEFT,
    State.GONE,
    State.ARRIVING,
    State.ARRIVED,
)


def found(name: str, number: int, shards: dict[int, State] | None = None, cluster: str = "one") -> Found:
    facts = {"cluster_id": cluster, "database": str(number), "database_name": name, "shards": "4"}
    return Found(facts, shards or {})


@given(st.integers(1, 4096), st.integers(1, 32))
def test_shards_are_dealt_out_evenly_and_once(shards: int, databases: int) -> None:
    dealt = placement.spread(shards, databases)
    assert sorted(chain.from_iterable(dealt)) == list(range(shards))
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


# Each step of a move, as source and target stand then, and where the rows are in force.
MOVE = [
    ((HERE, None), "a"),
    ((HERE, ARRIVING), "a"),
    ((LEAVING, ARRIVING), "a"),
    ((LEAVING, ARRIVED), "a"),
    ((LEFT, ARRIVED), "b"),
    ((LEFT, HERE), "b"),
    ((GONE, HERE), "b"),
]


@pytest.mark.parametrize(("states", "home"), MOVE)
def test_at_each_step_of_a_move_a_shard_has_one_home_and_at_most_one_leader(
    states: tuple[State, State | None], home: str
) -> None:
    source, target = states
    known = {"a": found("a", 0, {3: source}), "b": found("b", 1, {} if target is None else {3: target})}
    assert placement.homes(known) == {3: home}
    assert sum(3 in each.living() for each in known.values()) <= 1


def test_databases_that_belong_together_have_no_fault() -> None:
    known = {"a": found("a", 0, {0: HERE, 1: LEAVING}), "b": found("b", 1, {1: ARRIVING, 2: HERE, 3: HERE})}
    assert placement.faults(known, ["a", "b"]) == []


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (
            {"a": found("a", 0, dict.fromkeys(range(4), HERE)), "b": found("b", 0, cluster="two")},
            "databases a and b belong to different installations",
        ),
        (
            {"a": found("a", 0, {0: HERE, 1: HERE}), "b": found("b", 1, {1: HERE, 2: HERE, 3: HERE})},
            "shard 1 lives in 2",
        ),
        ({"a": found("a", 0, {0: HERE}), "b": found("b", 1, {1: HERE})}, "shards 2, 3 live in none"),
        ({"a": found("a", 0, dict.fromkeys(range(4), HERE)), "b": found("a", 0)}, "a and b are one and the same"),
        ({"a": found("a", 0, dict.fromkeys(range(4), HERE)), "b": found("c", 2)}, "the database called b here is c"),
        (
            {"a": found("a", 1, {0: HERE}), "b": found("b", 0, {1: HERE, 2: HERE, 3: HERE})},
            "database b is the home database",
        ),
    ],
)
def test_what_is_wrong_is_said(known: dict[str, Found], said: str) -> None:
    assert said in "\n".join(placement.faults(known, ["a", "b"]))


def test_of_a_silent_database_nothing_is_said_to_be_missing() -> None:
    assert placement.faults({"a": found("a", 0, {0: HERE})}, ["a", "b"]) == []
