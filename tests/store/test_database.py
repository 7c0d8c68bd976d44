"""Connections: what is lost, what is refused, and what is the caller's own fault."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from datetime import UTC, timedelta

import asyncpg
import pytest

from horarium import errors
from horarium.store.database import Database


@pytest.fixture
async def database(emptied_url: str) -> AsyncIterator[Database]:
    """An open database."""
    opened = Database(emptied_url, pool_size=2)
    await opened.open()
    yield opened
    await opened.close()


async def until_active(connection: asyncpg.Connection, pid: int) -> None:
    """Ask until another backend is in the middle of its statement."""
    query = "SELECT state = 'active' AND query LIKE '%pg_sleep%' FROM pg_stat_activity WHERE pid = $1"
    async with asyncio.timeout(30):
        while not await connection.fetchval(query, pid):
            pass


async def sleeper(database: Database, started: asyncio.Future[int]) -> None:
    """A statement that does not end by itself."""
    async with database.connection() as connection:
        started.set_result(await connection.fetchval("SELECT pg_backend_pid()"))
        await connection.execute("SELECT pg_sleep(60)")


async def test_a_port_where_nobody_listens_is_told_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        database = Database(f"postgresql://nobody@127.0.0.1:{taken.getsockname()[1]}/none")
        with pytest.raises(errors.UnavailableError, match="the database cannot be asked"):
            await database.open()


async def test_a_database_that_is_not_open_cannot_be_asked(emptied_url: str) -> None:
    database = Database(emptied_url)
    database.cut_off()
    with pytest.raises(errors.UnavailableError, match="is not open"):
        await database.now()
    await database.open()
    await database.close()
    await database.close()
    with pytest.raises(errors.UnavailableError, match="is not open"):
        await database.now()


async def test_a_backend_that_is_killed_takes_its_statement_and_no_other(
    database: Database, connection: asyncpg.Connection
) -> None:
    started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(sleeper(database, started))
    pid = await started
    await until_active(connection, pid)
    assert await connection.fetchval("SELECT pg_terminate_backend($1)", pid)
    with pytest.raises(errors.UnavailableError, match="terminating connection"):
        await running
    await database.now()


async def test_a_transaction_whose_backend_is_killed_is_unavailable(
    database: Database, connection: asyncpg.Connection
) -> None:
    async def killed() -> None:
        async with database.transaction() as cut:
            pid = await cut.fetchval("SELECT pg_backend_pid()")
            assert await connection.fetchval("SELECT pg_terminate_backend($1, 10000)", pid)
            await cut.execute("SELECT 1")

    with pytest.raises(errors.UnavailableError):
        await killed()
    await database.now()


async def test_cutting_off_fails_what_is_under_way_and_the_next_use_opens_anew(
    database: Database, connection: asyncpg.Connection
) -> None:
    started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(sleeper(database, started))
    pid = await started
    await until_active(connection, pid)
    database.cut_off()
    with pytest.raises(errors.UnavailableError):
        await running
    async with database.connection() as anew:
        assert await anew.fetchval("SELECT pg_backend_pid()") != pid
    await connection.fetchval("SELECT pg_terminate_backend($1)", pid)


async def test_two_uses_at_once_after_a_cut_both_get_through(database: Database) -> None:
    database.cut_off()
    first, second = await asyncio.gather(database.now(), database.now())
    assert abs(first - second) < timedelta(minutes=1)


async def test_after_a_cut_it_is_tried_until_the_database_is_back(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken, monkeypatch.context() as away:
        taken.bind(("127.0.0.1", 0))
        away.setattr(database, "url", f"postgresql://nobody@127.0.0.1:{taken.getsockname()[1]}/none")
        database.cut_off()
        for _ in range(2):
            with pytest.raises(errors.UnavailableError, match="cannot be asked"):
                await database.now()
    await database.now()


async def test_a_cut_database_can_be_closed_for_good(database: Database) -> None:
    database.cut_off()
    await database.close()
    with pytest.raises(errors.UnavailableError, match="is not open"):
        await database.now()


@pytest.mark.parametrize("error", [TimeoutError("slow"), ConnectionResetError("gone"), OSError("odd")])
async def test_a_connection_that_breaks_in_the_block_is_unavailable(database: Database, error: Exception) -> None:
    with pytest.raises(errors.UnavailableError) as raised:
        async with database.connection():
            raise error
    assert raised.value.__cause__ is error


@pytest.mark.parametrize("error", [ValueError("mine"), errors.NotFoundError("mine"), KeyError("mine")])
async def test_the_callers_own_errors_pass(database: Database, error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        async with database.transaction():
            raise error
    assert raised.value is error


async def test_values_and_constraints_that_do_not_hold_pass(database: Database) -> None:
    with pytest.raises(asyncpg.DataError):
        async with database.connection() as connection:
            await connection.fetchval("SELECT $1::integer", "no number")
    with pytest.raises(asyncpg.UniqueViolationError):
        async with database.connection() as connection:
            await connection.execute("INSERT INTO shards (shard) VALUES (0)")
    await database.now()


async def test_a_transaction_is_committed_or_leaves_nothing(database: Database) -> None:
    insert = "INSERT INTO nodes (id, version) VALUES ($1, '1')"
    async with database.transaction() as connection:
        await connection.execute(insert, "kept")

    async def fails() -> None:
        async with database.transaction() as connection:
            await connection.execute(insert, "rolled back")
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        await fails()
    async with database.connection() as connection:
        assert [row["id"] for row in await connection.fetch("SELECT id FROM nodes")] == ["kept"]


async def test_the_clock_is_aware_and_moves_on(database: Database) -> None:
    first, second = await database.now(), await database.now()
    assert first.utcoffset() == timedelta(0)
    assert first.tzinfo == UTC
    assert first < second


async def test_sessions_find_the_schema_and_bear_our_name(database: Database) -> None:
    async with database.connection() as connection:
        settings = [await connection.fetchval(f"SHOW {name}") for name in ("search_path", "application_name", "jit")]
    assert settings == ["horarium, public", "horarium", "off"]


async def test_behind_a_pooler_no_statement_is_kept(emptied_url: str) -> None:
    database = Database(emptied_url, statement_cache=0)
    await database.open()
    try:
        async with database.connection() as connection:
            assert await connection.fetchval("SELECT count(*) FROM shards WHERE shard < $1", 4) == 4
            assert (
                await connection.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%shards%'")
                == 0
            )
    finally:
        await database.close()
