"""Connections: what is lost, what is refused, and what is the caller's own fault."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from datetime import UTC, timedelta

import asyncpg
import pytest

from horarium import errors
from horarium.store import database as databases
from horarium.store.database import Database
from tests.gate import Gate


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


async def until_asked(database: Database) -> None:
    """Ask until there is an answer: after a refusal nobody tries again for a moment."""
    async with asyncio.timeout(30):
        while True:
            try:
                await database.now()
            except errors.UnavailableError:
                await asyncio.sleep(0)
            else:
                return


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


async def test_after_a_cut_it_is_tried_until_the_database_is_back(emptied_url: str) -> None:
    async with Gate.before(emptied_url) as gate:
        database = Database(gate.url, pool_size=2)
        await database.open()
        await gate.shut()
        database.cut_off()
        for _ in range(2):
            with pytest.raises(errors.UnavailableError, match="cannot be asked"):
                await database.now()
        await gate.open()
        await until_asked(database)
        await database.close()


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


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("53100", "disk is full"),
        ("53300", "cannot be asked"),
        ("25006", "takes no writes"),
        ("57P05", "cannot be asked"),
    ],
)
async def test_a_server_without_room_or_right_to_write_is_unavailable(database: Database, code: str, told: str) -> None:
    """53100 disk full, 53300 too many connections, 25006 read only, 57P05 idle for too long."""
    with pytest.raises(errors.UnavailableError, match=told):
        async with database.transaction() as connection:
            await connection.execute(f"DO $$ BEGIN RAISE EXCEPTION 'test' USING ERRCODE = '{code}'; END $$")
    await database.now()


async def test_who_waits_for_a_connection_is_not_kept_waiting(
    emptied_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "WAIT_FOR_CONNECTION_S", 0.01)
    database = Database(emptied_url, pool_size=1, connect_timeout_s=0.5)
    await database.open()
    async with database.connection():
        with pytest.raises(errors.UnavailableError, match="all connections are in use"):
            await database.now()
    await database.close()


async def test_nothing_of_a_use_is_left_for_the_next_one(database: Database) -> None:
    async with database.connection() as connection:
        begun = connection.transaction()
        await begun.start()
        await connection.execute("SELECT set_config('statement_timeout', '1234', true)")
    async with database.connection() as connection:
        assert await connection.fetchval("SHOW statement_timeout") == "0"
        assert not connection.is_in_transaction()


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


async def test_behind_a_pooler_a_role_that_does_not_find_the_schema_is_told(
    emptied_url: str, connection: asyncpg.Connection
) -> None:
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET search_path = public")
    try:
        with pytest.raises(errors.ConfigurationError, match="does not look into the schema horarium"):
            await Database(emptied_url, statement_cache=0).open()
    finally:
        await connection.execute(f"ALTER DATABASE {name} SET search_path = horarium, public")


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
