"""Which nodes there are, and who leads which shard, over two databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from horarium import errors
from horarium.services.topology import Topology
from horarium.store import shards
from horarium.store.databases import Databases
from tests import several

LEASE = timedelta(seconds=3)


@pytest.fixture
async def databases(database_urls: list[str]) -> AsyncIterator[Databases]:
    async with several.joined(database_urls[:2], 4) as opened:
        for database in opened.all:
            async with database.connection() as connection:
                await shards.beat(connection, shards.NodeRow("n1", "http://n1", "1", "host", 7))
                await shards.take(connection, "n1", LEASE, 1)
        yield opened


async def test_shards_of_all_databases_are_shown_in_order(databases: Databases) -> None:
    found = await Topology(databases).shards()
    assert [(each.shard, each.database, each.leader) for each in found] == [
        (0, "a", "n1"),
        (1, "b", "n1"),
        (2, "a", None),
        (3, "b", None),
    ]
    assert (found[0].leader_url, found[2].leader_url, found.missing) == ("http://n1", None, ())


async def test_a_node_is_shown_once_and_lives_when_it_lives_everywhere(databases: Databases) -> None:
    (node,) = await Topology(databases).nodes()
    assert (node.id, node.state, node.shards) == ("n1", "alive", [0, 1])
    async with databases.all[1].connection() as connection:
        await connection.execute("UPDATE nodes SET last_seen_at = now() - interval '10 s'")
    (node,) = await Topology(databases).nodes()
    assert node.state == "silent"


async def test_a_node_that_was_not_seen_for_an_hour_is_not_shown(databases: Databases) -> None:
    for database in databases.all:
        async with database.connection() as connection:
            await connection.execute("UPDATE nodes SET last_seen_at = now() - interval '61 min'")
    assert list(await Topology(databases).nodes()) == []


async def test_a_database_that_cannot_be_asked_is_named(databases: Databases) -> None:
    await databases.all[1].close()
    found = await Topology(databases).shards()
    assert ([each.shard for each in found], found.missing) == ([0, 2], ("b",))
    await databases.home.close()
    with pytest.raises(errors.UnavailableError):
        await Topology(databases).nodes()
