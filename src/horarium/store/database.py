"""Connections to one PostgreSQL database.

Everything that goes wrong between us and the server (refused, cut, restarting, shutting down) leaves here as
`UnavailableError`, and only that: a duty that meets it tries again later, the API answers 503.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

import asyncpg

from horarium import errors
from horarium.store import statements

SQL = statements.load("database")
SCHEMA = "horarium"

LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,
    ConnectionError,
    TimeoutError,
    OSError,
)


class Database:
    """A pool of connections to one database.

    `pool_size` connections at most. `statement_cache` 0 is for transaction-mode poolers (PgBouncer): then no prepared
    statement and no session setting is used.
    """

    def __init__(
        self, url: str, *, pool_size: int = 10, statement_cache: int = 200, connect_timeout_s: float = 10
    ) -> None:
        self.url = url
        self._connect_timeout_s = connect_timeout_s
        self._pool_size = pool_size
        self.statement_cache = statement_cache
        self._pool: asyncpg.Pool | None = None
        self._cut = False
        self._reopening = asyncio.Lock()
        self.losses = 0

    async def open(self) -> None:
        """Open the pool; the first connection is made at once, so that a wrong URL is told at start-up."""
        with translated():
            self._pool = await asyncpg.create_pool(
                self.url,
                min_size=0,
                max_size=self._pool_size,
                max_inactive_connection_lifetime=600,
                statement_cache_size=self.statement_cache,
                server_settings=self._session_settings(),
                command_timeout=60,
                timeout=self._connect_timeout_s,
            )
            async with self._pool.acquire():
                return

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
        """A connection in autocommit mode: each statement is its own transaction."""
        if self._cut:
            await self._reopen()
        if self._pool is None:
            raise errors.UnavailableError("the database is not open")
        try:
            with translated():
                async with self._pool.acquire() as connection:
                    yield connection
        except errors.UnavailableError:
            self.losses += 1  # a commit may have gone through although its answer did not
            raise

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
        if self.statement_cache == 0:
            return {"application_name": "horarium"}
        return {"application_name": "horarium", "search_path": f"{SCHEMA}, public", "jit": "off"}


class translated:  # noqa: N801 - reads as a word in a with statement
    """Turns the errors of a lost or refused connection into `UnavailableError`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LOST) and not isinstance(error, errors.HorariumError | ValueError):
            raise errors.UnavailableError(f"the database cannot be asked: {type(error).__name__}: {error}") from error
