"""Connections to one PostgreSQL database.

Everything that goes wrong between us and the server (refused, cut, restarting, shutting down, no longer the primary, no
room on its disk) leaves here as `UnavailableError`, and only that: a duty that meets it tries again later, the API answers
503. Which server it is, when an address names several, is the business of `servers`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

import asyncpg

from horarium import errors
from horarium.store import servers, statements

SQL = statements.load("database")
SCHEMA = "horarium"

LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,  # demoted, or its disk is full and somebody locked it
    asyncpg.InsufficientResourcesError,  # disk full, out of memory, too many connections
    asyncpg.PostgresIOError,
    ConnectionError,
    TimeoutError,
    OSError,
)


WAIT_FOR_CONNECTION_S = 5.0
STATEMENT_S = 60.0
SCHEMA_IS_HIDDEN = (
    f"this role does not look into the schema {SCHEMA}: with statement_cache=0 that is a setting of the role in this "
    "database, made by `horarium db migrate` for the role that runs it; let the pooler open new connections afterwards "
    "(RECONNECT in PgBouncer's console)"
)


class Database:
    """A pool of connections to one database.

    `pool_size` connections at most. `statement_cache` 0 is for transaction-mode poolers (PgBouncer): then no prepared
    statement and no session setting is used. `known` is given by a pool to the same address: they move together when
    another server becomes the primary. ConfigurationError when the address is malformed.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 10,
        statement_cache: int = 200,
        connect_timeout_s: float = 3,
        known: servers.Servers | None = None,
    ) -> None:
        self.url = url
        self.statement_cache = statement_cache
        self.losses = 0
        self._connect_timeout_s = connect_timeout_s
        self._pool_size = pool_size
        self._servers = known or servers.Servers(url)
        self._pool: asyncpg.Pool | None = None
        self._cut = False
        self._reopening = asyncio.Lock()

    def another(self, *, pool_size: int, connect_timeout_s: float) -> Database:
        """A pool of its own to the same address, not open yet."""
        return Database(
            self.url,
            pool_size=pool_size,
            statement_cache=self.statement_cache,
            connect_timeout_s=connect_timeout_s,
            known=self._servers,
        )

    async def open(self) -> None:
        """Open the pool; the first connection is made at once, so that a wrong URL is told at start-up."""
        with translated():
            self._pool = await asyncpg.create_pool(
                min_size=0,
                max_size=self._pool_size,
                max_inactive_connection_lifetime=600,
                connect=self._servers.connect,
                reset=_leave_as_it_is,
                statement_cache_size=self.statement_cache,
                server_settings=self._session_settings(),
                command_timeout=STATEMENT_S,
                timeout=self._connect_timeout_s,
            )
            async with self._pool.acquire() as connection:
                is_hidden = self.statement_cache == 0 and await connection.fetchval(SQL.schema_is_hidden)
        if is_hidden:
            await self.close()
            raise errors.ConfigurationError(SCHEMA_IS_HIDDEN)

    def cut_off(self) -> None:
        """Break all connections without a word; what is under way on them fails. The next use opens new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()
            self._cut = True

    async def close(self) -> None:
        """Close the pool, waiting a moment for what is under way."""
        pool, self._pool = self._pool, None
        self._cut = False
        if pool is None:
            return
        try:
            await asyncio.wait_for(pool.close(), 5)
        except TimeoutError:
            pool.terminate()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection in autocommit mode: each statement is its own transaction.

        UnavailableError when there is none within a few seconds, and when it is lost.
        """
        if self._cut:
            await self._reopen()
        pool = self._pool
        if pool is None:
            raise errors.UnavailableError("the database is not open")
        connection = await self._acquire(pool)
        try:
            with translated():
                yield connection
        except errors.UnavailableError as error:
            self.losses += 1  # a commit may have gone through although its answer did not
            if isinstance(error.__cause__, asyncpg.ReadOnlySQLTransactionError):
                connection.terminate()
                self._servers.leave()
            raise
        finally:
            with translated():
                await pool.release(connection)

    async def _acquire(self, pool: asyncpg.Pool) -> asyncpg.Connection:
        with translated():
            try:
                async with asyncio.timeout(self._connect_timeout_s + WAIT_FOR_CONNECTION_S):
                    return await pool.acquire()
            except TimeoutError:
                raise TimeoutError("all connections are in use") from None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection inside a transaction: committed at the end, rolled back when an error leaves the block."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def now(self) -> datetime:
        """The database's clock: aware, UTC."""
        async with self.connection() as connection:
            value: datetime = await connection.fetchval(SQL.clock)
            return value

    async def _reopen(self) -> None:
        """Open the pool again after a cut: once for all who ask at the same time, and until it succeeds."""
        async with self._reopening:
            if self._cut:
                await self.open()
                self._cut = False

    def _session_settings(self) -> dict[str, str]:
        """What a connection asks for when it is made. A pooler refuses settings that it does not know."""
        if self.statement_cache == 0:
            return {"application_name": "horarium"}
        return {"application_name": "horarium", "search_path": f"{SCHEMA}, public", "jit": "off"}


async def _leave_as_it_is(connection: asyncpg.Connection) -> None:
    """Nothing of ours outlives a transaction (no session setting, lock, cursor), so a connection needs no clean-up.

    The driver's own would be one more round trip after every use.
    """


class translated:  # noqa: N801 - reads as a word in a with statement
    """Turns the errors of a lost, refused or exhausted server into `UnavailableError`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LOST) and not isinstance(error, errors.HorariumError | ValueError):
            raise errors.UnavailableError(explained(error)) from error


def explained(error: BaseException) -> str:
    """What is the matter with the database, in one line for people."""
    said = f"{type(error).__name__}: {error}"
    if isinstance(error, asyncpg.DiskFullError):
        return f"the database's disk is full: {said}"
    if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
        return f"the database takes no writes: {said}"
    return f"the database cannot be asked: {said}"
