"""Where a worker's next runs come from, when several nodes or databases have some: in proportion to what is queued there.

Pure arithmetic on depths by queue. A node's own lanes are one source among the others, so that a loaded node does not keep its
workers to itself while other nodes' runs wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from horarium.domain.lanes import Wanted

Source = TypeVar("Source")


def wanted_depth(wanted: Wanted, depths: Mapping[str, int]) -> int:
    """How many of the queued runs stand in queues that a worker serves."""
    return sum(depths.get(name, 0) for name, _ in wanted.queues)


def deduct(depths: dict[str, int], wanted: Wanted, amount: int) -> None:
    """Count so many runs as taken from the queues that a worker serves."""
    for name, _ in wanted.queues:
        taken = min(amount, depths.get(name, 0))
        amount -= taken
        if taken and taken == depths[name]:
            del depths[name]
        elif taken:
            depths[name] -= taken


def is_news(told: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Whether depths differ so much that others should hear of it: a queue came, went, halved or doubled."""
    if told.keys() != now.keys():
        return True
    return any(not depth < 2 * now[queue] < 4 * depth for queue, depth in told.items())


class Turns:
    """Deals out amounts to sources in proportion to their weights, as even as can be at every moment.

    Each source is owed its share of every amount, and the one that is owed most gets the next.
    """

    def __init__(self) -> None:
        self._owed: dict[object, float] = {}

    def next(self, weights: Mapping[Source, int], amount: int = 1) -> Source:
        """The source whose turn it is; `weights` are positive. Debts of sources that have nothing now are dropped."""
        total = sum(weights.values())
        self._owed = {
            source: self._owed.get(source, 0.0) + amount * weight / total for source, weight in weights.items()
        }
        chosen = max(weights, key=lambda source: self._owed[source])
        self._owed[chosen] -= amount
        return chosen
