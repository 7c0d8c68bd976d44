"""Where shards live: each in exactly one of the databases, spread evenly at first, moved one at a time later.

A database keeps a row for each shard that lives in it, or that is on its way from or to it. Two databases have a row of a
shard only while it moves, and for the remains of one that left:

    source   here ──► leaving ──────────────► left ──────────► gone
    target            arriving ──► arrived ────────► here

It is led only where it is `here`. Rows are in force where it is `here`, `leaving` or, once it has left the source, `arrived`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
    """How a shard stands to a database that has a row of it."""

    HERE = "here"
    LEAVING = "leaving"
    LEFT = "left"
    GONE = "gone"
    ARRIVING = "arriving"
    ARRIVED = "arrived"


# Where a shard's rows are looked for, the best first.
_IN_FORCE = (State.HERE, State.LEAVING, State.ARRIVED)


@dataclass(frozen=True, slots=True)
class Found:
    """What a database says of itself: its facts, and the states of the shards that it has rows of."""

    facts: Mapping[str, str]
    shards: Mapping[int, State] = field(default_factory=dict)

    @property
    def number(self) -> int:
        return int(self.facts["database"])

    def living(self) -> list[int]:
        """The shards that live here and may be written."""
        return [shard for shard, state in self.shards.items() if state is State.HERE]


def spread(shards: int, databases: int) -> list[list[int]]:
    """Which shards each database gets at first: as even as can be, dealt out like cards."""
    return [list(range(first, shards, databases)) for first in range(databases)]


def homes(found: Mapping[str, Found]) -> dict[int, str]:
    """The database of each shard, as far as it is known."""
    where: dict[int, tuple[int, str]] = {}
    for name, each in found.items():
        for shard, state in each.shards.items():
            if state in _IN_FORCE:
                rank = (_IN_FORCE.index(state), name)
                where[shard] = min(where.get(shard, rank), rank)
    return {shard: name for shard, (_, name) in where.items()}


def faults(found: Mapping[str, Found], asked: Sequence[str]) -> list[str]:
    """What is wrong with these databases as one cluster; `asked` are the names of all, the home database first.

    A database that could not be asked is in `asked` and not in `found`: then nothing is said of shards that are missing.
    """
    return [*_of_identity(found, asked), *_of_shards(found, asked)]


def _of_identity(found: Mapping[str, Found], asked: Sequence[str]) -> Iterable[str]:
    first = next(iter(found), "")
    numbers: dict[int, str] = {}
    for name, each in found.items():
        if each.facts["cluster_id"] != found[first].facts["cluster_id"]:
            yield f"databases {first} and {name} belong to different installations"
            continue
        if each.facts["database_name"] != name:
            yield (
                f"the database called {name} here is {each.facts['database_name']} of its installation: keep the order of the "
                "addresses, or write name=address"
            )
        if each.number in numbers:
            yield f"databases {numbers[each.number]} and {name} are one and the same"
        numbers[each.number] = name
        if (each.number == 0) != (name == asked[0]):
            yield f"database {each.facts['database_name']} " + (
                "is the home database: its address comes first"
                if each.number == 0
                else "is not the home database, yet first"
            )


def _of_shards(found: Mapping[str, Found], asked: Sequence[str]) -> Iterable[str]:
    lives: dict[int, list[str]] = {}
    for name, each in found.items():
        for shard, state in each.shards.items():
            if state in (State.HERE, State.LEAVING):
                lives.setdefault(shard, []).append(name)
    for shard, names in sorted(lives.items()):
        if len(names) > 1:
            yield f"shard {shard} lives in {len(names)} databases: {', '.join(names)}"
    if found and len(found) == len(asked):
        count = int(next(iter(found.values())).facts["shards"])
        missing = sorted(set(range(count)) - set(homes(found)))
        if missing:
            shown = ", ".join(map(str, missing[:10])) + (" …" if len(missing) > 10 else "")
            yield f"shards {shown} live in none of these databases: the address of another one is missing"
