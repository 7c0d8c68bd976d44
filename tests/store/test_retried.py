"""Changes that meet others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from horarium import errors
from horarium.store import retried
from horarium.store.database import Database


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = Database(database_url, pool_size=4)
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close()


async def test_a_change_that_was_ended_for_another_is_done_again(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("INSERT INTO cluster VALUES ('a', '0'), ('b', '0')")
    both_hold_one = asyncio.Barrier(2)
    one_is_through = asyncio.Event()
    attempts: list[str] = []

    async def swap(first: str, second: str) -> str:
        async def work(connection: asyncpg.Connection) -> str:
            attempts.append(first)
            if len(attempts) > 2:  # or the two might meet once more
                await one_is_through.wait()
            update = "UPDATE cluster SET value = value || $2 WHERE key = $1"
            await connection.execute(update, first, first)
            if len(attempts) <= 2:
                await both_hold_one.wait()
            await connection.execute(update, second, first)
            return first

        done = await retried.change(database, work)
        one_is_through.set()
        return done

    assert await asyncio.gather(swap("a", "b"), swap("b", "a")) == ["a", "b"]
    assert len(attempts) == 3
    async with database.connection() as connection:
        values = [row[0] for row in await connection.fetch("SELECT value FROM cluster WHERE key IN ('a', 'b')")]
    assert sorted("".join(sorted(value)) for value in values) == ["0ab", "0ab"]


async def test_what_never_gets_through_is_told(database: Database) -> None:
    count = 0

    async def work(connection: asyncpg.Connection) -> None:
        nonlocal count
        count += 1
        await connection.execute("INSERT INTO cluster VALUES ('twice', ''), ('twice', '')")

    with pytest.raises(errors.UnavailableError):
        await retried.change(database, work)
    assert count == retried.ATTEMPTS


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO jobs (id, shard, target, priority, schedule) VALUES (gen_random_uuid(), 0, '{}', 10, '@daily')",
     "SELECT '{'::jsonb", "SELECT 40000::smallint", "INSERT INTO cluster VALUES (NULL, '')"],
)  # fmt: skip
async def test_values_that_the_database_refuses_are_invalid(database: Database, statement: str) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        await connection.execute(statement)

    with pytest.raises(errors.InvalidError, match="the database refuses it"):
        await retried.change(database, work)


async def test_an_error_of_the_change_itself_is_not_retried_and_nothing_stays(database: Database) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        await connection.execute("INSERT INTO cluster VALUES ('x', '')")
        raise errors.ConflictError("no")

    with pytest.raises(errors.ConflictError):
        await retried.change(database, work)
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM cluster WHERE key = 'x'") == 0
