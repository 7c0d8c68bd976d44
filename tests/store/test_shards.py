"""Rows of `shards` and `nodes`: one leader each, and a term that rises with every change."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import asyncpg

from horarium.store import shards
from tests.builders import LONG

OVER = timedelta(seconds=-1)
ALL = 4096


async def test_free_shards_are_taken_and_their_terms_rise(connection: asyncpg.Connection) -> None:
    before = await shards.all_shards(connection, LONG)
    assert len(before) == 16
    assert {(row["leader"], row["term"], row["alive"]) for row in before} == {(None, 0, False)}
    first = await shards.take(connection, "a", LONG, 3)
    assert first == {0: 1, 1: 1, 2: 1}
    rest = await shards.take(connection, "b", LONG, ALL)
    assert set(rest) == set(range(3, 16))
    rows = await shards.all_shards(connection, LONG)
    assert [row["leader"] for row in rows] == ["a"] * 3 + ["b"] * 13
    assert all(row["alive"] for row in rows)
    assert await shards.take(connection, "c", LONG, ALL) == {}


async def test_a_shard_whose_leader_fell_silent_is_taken_under_a_new_term(connection: asyncpg.Connection) -> None:
    old = await shards.take(connection, "a", OVER, 2)
    new = await shards.take(connection, "b", LONG, 2)
    assert new == {0: 2, 1: 2}
    assert await shards.renew(connection, old, "a", LONG) == set()
    assert await shards.renew(connection, new, "b", LONG) == {0, 1}


async def test_a_lease_that_lapsed_is_renewed_while_nobody_took_the_shard(connection: asyncpg.Connection) -> None:
    led = await shards.take(connection, "a", OVER, 1)
    assert await shards.renew(connection, led, "a", LONG) == {0}
    assert await shards.take(connection, "b", LONG, 1) == {1: 1}


async def test_a_lease_of_before_the_clock_was_set_back_holds_nobody_up(connection: asyncpg.Connection) -> None:
    """Found by the simulation: a leader that died with the step kept its shards until the clock was where it had been."""
    lease = timedelta(seconds=3)
    await shards.take(connection, "a", lease, ALL)
    await shards.beat(connection, shards.NodeRow("a", None, "1"))
    await connection.execute("UPDATE shards SET lease_expires_at = lease_expires_at + interval '1 hour'")
    await connection.execute(
        "UPDATE nodes SET last_seen_at = now() + interval '1 hour', started_at = now() + interval '59 min'"
    )
    assert not any(row["alive"] for row in await shards.all_shards(connection, lease))
    assert await shards.live_nodes(connection, lease) == []
    assert set((await shards.take(connection, "b", lease, ALL)).values()) == {2}
    await shards.beat(connection, shards.NodeRow("ghost", None, "1"))
    await connection.execute("UPDATE nodes SET last_seen_at = now() + interval '1 hour' WHERE id = 'ghost'")
    await shards.prune_nodes(connection)
    for _ in range(2):
        await shards.beat(connection, shards.NodeRow("a", None, "1"))
    (seen,) = await shards.live_nodes(connection, lease)
    assert seen.counts


async def test_the_same_term_of_another_node_renews_nothing(connection: asyncpg.Connection) -> None:
    led = await shards.take(connection, "a", LONG, 1)
    assert await shards.renew(connection, led, "b", LONG) == set()
    assert await shards.renew(connection, {0: 7}, "a", LONG) == set()


async def test_a_shard_that_is_given_back_is_free_at_once(connection: asyncpg.Connection) -> None:
    led = await shards.take(connection, "a", LONG, 2)
    await shards.release(connection, {0: led[0]}, "a")
    await shards.release(connection, {1: led[1] - 1}, "a")
    await shards.release(connection, {1: led[1]}, "b")
    assert await shards.take(connection, "b", LONG, 1) == {0: 2}
    assert (await shards.all_shards(connection, LONG))[1]["leader"] == "a"


async def test_two_nodes_that_take_at_once_share_nothing(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    mine, theirs = await asyncio.gather(shards.take(connection, "a", LONG, ALL), shards.take(other, "b", LONG, ALL))
    assert not set(mine) & set(theirs)
    leaders = {row["shard"]: row["leader"] for row in await shards.all_shards(connection, LONG)}
    assert {shard for shard, leader in leaders.items() if leader == "a"} == set(mine)


async def test_a_shard_that_is_being_taken_is_passed_over(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    async with other.transaction():
        assert await shards.take(other, "b", LONG, 2) == {0: 1, 1: 1}
        assert await shards.take(connection, "a", LONG, 1) == {2: 1}


async def test_nodes_come_are_seen_and_go(connection: asyncpg.Connection) -> None:
    await shards.beat(connection, shards.NodeRow("a", None, "1", "host", 7))
    await shards.beat(connection, shards.NodeRow("b", "http://b", "1", "host", 8))
    await connection.execute("UPDATE nodes SET last_seen_at = last_seen_at - interval '25 hours'")
    await shards.beat(connection, shards.NodeRow("a", "http://a", "2", "host", 7))
    await shards.prune_nodes(connection)
    (row,) = await connection.fetch("SELECT * FROM nodes")
    assert (row["id"], row["url"], row["version"], row["host"], row["pid"]) == ("a", "http://a", "2", "host", 7)
    assert row["last_seen_at"] > row["started_at"]
    await shards.remove_node(connection, "a")
    await shards.remove_node(connection, "a")
    assert await connection.fetchval("SELECT count(*) FROM nodes") == 0


async def test_a_node_counts_when_it_was_seen_twice_and_lately(connection: asyncpg.Connection) -> None:
    once = shards.NodeRow("a", "http://a", "1", "host", 7)
    silent, twice = once._replace(id="b"), once._replace(id="c")
    for node in (once, silent, twice, twice, silent):
        await shards.beat(connection, node)
    await connection.execute("UPDATE nodes SET last_seen_at = now() - interval '3 seconds' WHERE id = 'b'")
    found = await shards.live_nodes(connection, timedelta(seconds=3))
    assert found == [once, twice._replace(counts=True)]
