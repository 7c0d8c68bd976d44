"""`horarium nodes list` and `horarium shards list`, against a node."""

from __future__ import annotations

from collections.abc import Callable

from horarium.cli import nodes, shards, times
from tests.cli.story import read


def test_a_node_is_listed_with_what_it_leads(ok: Callable[..., str]) -> None:
    (node,) = read(ok("nodes", "list", "-o", "json"))
    assert (node["state"], node["shards"]) == ("alive", list(range(16)))
    assert node["id"] in ok("nodes", "list")


def test_shards_are_listed_with_their_leader(ok: Callable[..., str]) -> None:
    (node,) = read(ok("nodes", "list", "-o", "json"))
    found = read(ok("shards", "list", "-o", "json"))
    assert [shard["shard"] for shard in found] == list(range(16))
    assert {shard["leader"] for shard in found} == {node["id"]}
    assert ok("shards", "list", "-q").split() == [str(number) for number in range(16)]


def test_what_nobody_leads_is_shown_so() -> None:
    columns = {column.heading: column for column in shards.columns(times.now())}
    shard = {"shard": 3, "database": "a", "leader": None, "leader_url": None, "term": 7, "lease_expires_at": None}
    assert [columns[name].text(shard) for name in ("SHARD", "LEADER", "URL", "TERM", "LEASE")] == [
        "3",
        "–",
        "–",
        "7",
        "–",
    ]


def test_a_node_without_address_and_shards_is_shown_so() -> None:
    columns = {column.heading: column for column in nodes.columns(times.now())}
    node = {
        "id": "n",
        "state": "silent",
        "url": None,
        "version": "1",
        "last_seen_at": "2026-12-01T00:00:00Z",
        "shards": [],
    }
    assert [columns[name].text(node) for name in ("URL", "SHARDS")] == ["–", "–"]
