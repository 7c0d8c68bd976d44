"""Which server of an address is used: the one that takes writes, found past silent and refusing ones, and left again."""

from __future__ import annotations

import asyncio
import socket
import urllib.parse
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from horarium import errors
from horarium.store import servers
from horarium.store.database import Database
from horarium.store.servers import Outage
from tests.gate import Gate


def with_hosts(url: str, *ports: int, query: str = "") -> str:
    """An address with several ports of this machine."""
    parts = urllib.parse.urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    return parts._replace(netloc=f"{user}@{hosts}", query=query).geturl()


def port_of(url: str) -> int:
    port = urllib.parse.urlsplit(url).port
    assert port is not None
    return port


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port where connections are refused."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def silent() -> Iterator[int]:
    """A port where connections are taken and nothing is ever said."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@asynccontextmanager
async def opened(url: str, connect_timeout_s: float = 3) -> AsyncIterator[Database]:
    database = Database(url, pool_size=3, connect_timeout_s=connect_timeout_s)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def two_gates(url: str) -> AsyncIterator[tuple[Gate, Gate, Database]]:
    """Two ways to one server, which stand for two servers, and a database that knows both."""
    async with (
        Gate.before(url) as first,
        Gate.before(url) as second,
        opened(with_hosts(url, first.port, second.port)) as database,
    ):
        yield first, second, database


async def port_in_use(database: Database) -> int:
    async with database.connection() as connection:
        port: int = connection._con._addr[1]
        return port


async def test_a_host_that_refuses_or_is_silent_is_passed_over(emptied_url: str, nobody: int, silent: int) -> None:
    right = port_of(emptied_url)
    async with opened(with_hosts(emptied_url, nobody, silent, right), connect_timeout_s=30) as database:
        assert await port_in_use(database) == right


async def test_a_server_that_takes_no_writes_is_passed_over(emptied_url: str, connection: asyncpg.Connection) -> None:
    """A database whose sessions are read-only looks like a standby."""
    database = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    try:
        with pytest.raises(errors.UnavailableError, match="TargetServerAttributeNotMatched"):
            await Database(with_hosts(emptied_url, port_of(emptied_url), port_of(emptied_url))).open()
        async with opened(emptied_url) as single:  # one host: nothing was said about writes
            await single.now()
    finally:
        await connection.execute(f"ALTER DATABASE {database} RESET default_transaction_read_only")


async def test_when_no_host_is_fit_each_is_named_with_its_reason(emptied_url: str, nobody: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        ports = nobody, other.getsockname()[1]
        with pytest.raises(errors.UnavailableError) as raised:
            await Database(with_hosts(emptied_url, *ports)).open()
    assert all(f"127.0.0.1:{port}: " in str(raised.value) for port in ports)


async def test_silence_everywhere_ends_with_the_time_limit(emptied_url: str, silent: int) -> None:
    with pytest.raises(errors.UnavailableError, match=r"no connection within 0\.3 s"):
        await Database(with_hosts(emptied_url, silent, silent), connect_timeout_s=0.3).open()


async def test_all_pools_follow_to_another_server(emptied_url: str) -> None:
    """A statement that hangs on the former one ends at once."""
    async with two_gates(emptied_url) as (first, second, database):
        pool = database.another(pool_size=1, connect_timeout_s=1)
        await pool.open()
        assert [await port_in_use(each) for each in (database, pool)] == [first.port] * 2
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        hanging = asyncio.create_task(hang(database, started))
        await started
        await first.refuse()
        pool.cut_off()
        assert await port_in_use(pool) == second.port
        with pytest.raises(errors.UnavailableError):
            await hanging
        assert await port_in_use(database) == second.port
        await first.open()
        assert await port_in_use(database) == second.port
        await pool.close()


async def hang(database: Database, started: asyncio.Future[None]) -> None:
    async with database.connection() as connection:
        started.set_result(None)
        await connection.execute("SELECT pg_sleep(600)")


async def test_a_connection_whose_server_takes_no_writes_any_more_is_not_used_again(emptied_url: str) -> None:
    async with two_gates(emptied_url) as (_, _, database):
        async with database.connection() as connection:
            pid = await connection.fetchval("SELECT pg_backend_pid()")
            await connection.execute("SET default_transaction_read_only = on")
        with pytest.raises(errors.UnavailableError, match="takes no writes"):
            async with database.transaction() as connection:
                await connection.execute("DELETE FROM nodes")
        async with database.transaction() as connection:
            await connection.execute("DELETE FROM nodes")
            assert await connection.fetchval("SELECT pg_backend_pid()") != pid


async def test_a_malformed_address_is_refused_without_its_password() -> None:
    with pytest.raises(errors.ConfigurationError, match="port") as raised:
        Database("postgresql://u:secret@h:x/db")
    assert "secret" not in str(raised.value)


async def test_the_kernel_watches_over_connections(emptied_url: str) -> None:
    async with opened(emptied_url) as database, database.connection() as connection:
        plug = connection._transport.get_extra_info("socket")
        assert plug.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert plug.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == servers.SILENT_FOR_S * 1000


async def test_an_attempt_that_succeeds_too_late_leaves_no_connection(emptied_url: str) -> None:
    late = asyncio.ensure_future(asyncpg.connect(emptied_url))
    await asyncio.wait({late})
    await servers._give_up([late])
    assert late.result().is_closed()


def test_after_a_refusal_nobody_tries_for_a_moment_that_grows() -> None:
    outage = Outage()
    outage.check(0.0)
    outage.refused("first", 100.0)
    with pytest.raises(errors.UnavailableError, match="first"):
        outage.check(100.0 + Outage.SHORTEST_S)
    outage.check(100.0 + 2 * Outage.SHORTEST_S)
    for _ in range(2000):
        outage.refused("again", 100.0)
    with pytest.raises(errors.UnavailableError, match="again"):
        outage.check(100.0 + Outage.LONGEST_S / 2 - 0.001)
    outage.check(100.0 + Outage.LONGEST_S)
    outage.over()
    outage.check(0.0)
    outage.refused("anew", 100.0)
    outage.check(100.0 + 2 * Outage.SHORTEST_S)


class _Closed:
    """What the event loop shows of a connection that has ended meanwhile."""

    family = socket.AF_INET

    def setsockopt(self, *option: object) -> None:
        raise ValueError("negative file descriptor")


class _Transport:
    def get_extra_info(self, name: str) -> object:
        return _Closed()


class _Ended:
    """A connection that was cut just after it was made."""

    _transport = _Transport()


def test_a_connection_that_was_cut_at_once_is_no_crash() -> None:
    servers.listen_for_life(_Ended())  # type: ignore[arg-type]  # as far as it is looked at
