"""Which shard a job belongs to, fixed for the life of a cluster; and which node should lead how many of them.

A database's shards are shared evenly over its live nodes: each leads as many as the others, or one more. Every node decides
by itself, from the same rows, what it takes and what it gives; so all of them come to the same division, and what is given is
exactly what somebody else will take.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

DEFAULT_SHARDS = 16


def shard_of_name(tenant_id: str, name: str, shards: int) -> int:
    """The shard of a job: a hash of (tenant, name), so that a tenant's unique name is enforced inside one shard."""
    digest = hashlib.blake2b(f"{tenant_id}\0{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % shards


@dataclass(frozen=True, slots=True)
class Held:
    """A shard of one database, as its row tells: `leader` is None while nobody's lease on it holds."""

    shard: int
    leader: str | None
    term: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    """What a node does to come to its share: take so many free shards, or give so many of its own."""

    take: int = 0
    give: int = 0


def targets(led: Mapping[str, int], shards: int) -> dict[str, int]:
    """How many shards each node should lead, by how many it leads now; together they lead all.

    Where the division leaves a rest, the nodes that lead most keep one more: as few shards move as can be.
    """
    share, rest = divmod(shards, len(led))
    most_first = sorted(led, key=lambda node: (-led[node], node))
    return {node: share + (place < rest) for place, node in enumerate(most_first)}


def decide(own: str, nodes: Iterable[str], rows: Iterable[Held]) -> Move:
    """What a node does now. `nodes` are the live ones that count; the node itself counts always."""
    leaders = Counter(row.leader for row in rows)
    led = {node: leaders[node] for node in {own, *nodes}}
    wanted = targets(led, leaders.total())[own]
    return Move(take=min(leaders[None], max(0, wanted - led[own])), give=max(0, led[own] - wanted))
