"""Several databases: found together, checked at the start, one silent one does not stop the others."""

from __future__ import annotations

import asyncpg
import pytest

from horarium import config, errors
from horarium.store import founding
from horarium.store.databases import Databases
from tests import several


async def test_shards_are_spread_and_found(empty_database_urls: list[str]) -> None:
    async with several.installation(empty_database_urls, shards=5) as databases:
        assert [databases.living(place) for place in (0, 1)] == [[0, 2, 4], [1, 3]]
        assert databases.of(3) is databases.all[1]
        assert databases.of(4) is databases.home
        assert not await databases.reload()


async def test_all_databases_share_the_facts_but_number_and_name(empty_database_urls: list[str]) -> None:
    async with several.installation(empty_database_urls) as databases:
        a, b = (databases.states()[name].facts for name in "ab")
        for name in ("shards", "cluster_id", "cursor_secret"):
            assert a[name] == b[name]
        assert [(each["database"], each["database_name"]) for each in (a, b)] == [("0", "a"), ("1", "b")]


async def test_ids_of_two_databases_never_meet(empty_database_urls: list[str]) -> None:
    async with several.installation(empty_database_urls) as databases:
        drawn = []
        for database in databases.all:
            async with database.connection() as connection:
                drawn.append(await connection.fetchval("SELECT nextval(pg_get_serial_sequence('audit', 'id'))"))
        assert [number >> 46 for number in drawn] == [0, 1]
        assert max(drawn) < 2**53


async def test_a_database_that_is_silent_at_the_start_stops_only_itself(empty_database_urls: list[str]) -> None:
    async with several.installation(empty_database_urls, shards=4):
        pass
    for silent in (0, 1):
        urls = list(empty_database_urls)
        urls[silent] = several.SILENT
        async with several.opened(urls) as databases:
            assert (await databases.load())["shards"] == "4"
            async with databases.of(1 - silent).connection():
                pass
            with pytest.raises(errors.UnavailableError, match=f"cannot be asked: {'ab'[silent]}"):
                databases.of(silent)
            with pytest.raises(errors.UnavailableError, match=f"^database {'ab'[silent]}: "):
                await databases.all[silent].now()


async def test_a_database_of_another_installation_is_refused(empty_database_urls: list[str], database_url: str) -> None:
    async with several.installation(empty_database_urls[:1]):
        pass
    async with several.opened([empty_database_urls[0], database_url]) as databases:
        with pytest.raises(errors.ConfigurationError, match="different installations"):
            await databases.load()


async def test_an_address_that_is_missing_is_missed(empty_database_urls: list[str]) -> None:
    async with several.installation(empty_database_urls, shards=4):
        pass
    async with several.opened(empty_database_urls[:1]) as databases:
        with pytest.raises(errors.ConfigurationError, match="shards 1, 3 live in none of these databases"):
            await databases.load()


async def test_the_order_of_the_addresses_is_checked(empty_database_urls: list[str]) -> None:
    async with several.installation(empty_database_urls, shards=4):
        pass
    async with several.opened(empty_database_urls[::-1]) as databases:
        with pytest.raises(errors.ConfigurationError, match="the database called a here is b"):
            await databases.load()


async def test_a_database_without_the_schema_is_told(empty_database_urls: list[str]) -> None:
    async with several.installation(empty_database_urls[:1]):
        pass
    async with several.opened(empty_database_urls) as databases:
        with pytest.raises(errors.ConfigurationError, match=r"database b lacks migrations .* run `horarium db init`"):
            await databases.load()


async def test_a_row_of_a_shard_that_left_is_refused(empty_database_urls: list[str]) -> None:
    async with several.installation(empty_database_urls, shards=4) as databases:
        async with databases.home.connection() as connection:
            await connection.execute("SELECT fence('skips', '{2}')")
        insert = (
            "INSERT INTO skips (job_id, tenant_id, shard, first, last, count, reason)"
            " SELECT gen_random_uuid(), 't', $1, now(), now(), 1, 'quota'"
        )
        async with databases.home.connection() as connection:
            await connection.execute(insert, 0)
        with pytest.raises(errors.ShardMovedError, match="database a: the shard of this row of skips"):
            async with databases.home.connection() as connection:
                await connection.execute(insert, 2)


async def test_a_single_database_is_the_home_of_all(database_url: str) -> None:
    databases = Databases.at(config.databases_in(database_url), pool_size=1, statement_cache=100)
    await databases.open()
    try:
        facts = await databases.load()
        assert (facts["shards"], databases.are_several) == ("16", False)
        assert databases.of(15) is databases.home
        assert databases.living(0) == list(range(16))
    finally:
        await databases.close()


async def test_a_schema_that_lacks_migrations_is_told_as_ever(empty_database_url: str) -> None:
    databases = Databases.at(config.databases_in(empty_database_url), pool_size=1, statement_cache=100)
    await databases.open()
    try:
        with pytest.raises(
            errors.ConfigurationError, match=r"^the database lacks migrations .* run `horarium db migrate`$"
        ):
            await databases.load()
    finally:
        await databases.close()


async def test_an_enqueue_in_sql_stays_in_its_database(empty_database_urls: list[str]) -> None:
    async with (
        several.installation(empty_database_urls, shards=4) as databases,
        databases.all[1].connection() as connection,
    ):
        made = [await connection.fetchval("SELECT enqueue('a.handler')") for _ in range(20)]
        shards = await connection.fetchval("SELECT array_agg(DISTINCT shard_of(id)) FROM unnest($1::uuid[]) id", made)
        assert set(shards) <= {1, 3}
        await connection.execute("UPDATE shards SET state = 'gone'")
        with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="no shard lives in this database"):
            await connection.fetchval("SELECT enqueue('a.handler')")


async def test_a_founding_that_was_interrupted_is_finished(empty_database_urls: list[str]) -> None:
    async with several.opened(empty_database_urls) as databases:
        made = await founding.found(databases, 4, dry_run=True)
        assert [(each.name, each.shards) for each in made] == [("a", 2), ("b", 2)]
        await founding.found(databases, 4)
        facts = await databases.load()
    # As if the home database, which is made last, had not been reached.
    async with several.opened(empty_database_urls) as databases:
        async with databases.home.connection() as connection:
            await connection.execute("DROP SCHEMA horarium CASCADE")
        with pytest.raises(errors.ConfigurationError, match="was begun with 4 shards, not 8"):
            await founding.found(databases, 8)
        assert [each.name for each in await founding.found(databases, 4)] == ["a"]
        assert (await databases.load())["cluster_id"] == facts["cluster_id"]


async def test_a_database_that_joins_holds_no_shard(empty_database_urls: list[str], empty_database_url: str) -> None:
    async with several.installation(empty_database_urls[:1], shards=4):
        pass
    for urls in (empty_database_urls, [*empty_database_urls, empty_database_url]):
        async with several.opened(urls) as databases:
            (made,) = await founding.found(databases, 16)
            assert (made.name, made.shards) == ("abc"[len(urls) - 1], 0)
            assert (await databases.load())["shards"] == "4"
            assert [databases.living(place) for place in range(len(urls))] == [[0, 1, 2, 3], *[[]] * (len(urls) - 1)]
            with pytest.raises(errors.ConflictError):
                await founding.found(databases, 4)
