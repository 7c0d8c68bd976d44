"""A change as one transaction that is begun again when it met another.

Two transactions that lock the same rows in different orders make PostgreSQL end one of them; and between a look and a write
somebody else may have stored what was not there. What was ended has changed nothing and is simply done again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import asyncpg

from horarium import errors
from horarium.store.database import Database

T = TypeVar("T")
Work = Callable[[asyncpg.Connection], Awaitable[T]]

ATTEMPTS = 4


async def change(database: Database, work: Work[T]) -> T:
    """Do `work` in a transaction, anew when it met another.

    Raises UnavailableError when it does not get through, and InvalidError for values that the database refuses.
    """
    return await _done(database.transaction, work)


async def statement(database: Database, work: Work[T]) -> T:
    """As `change`, for work that is one statement: a transaction by itself, without the round trips of a block around it."""
    return await _done(database.connection, work)


async def _done(begin: Callable[[], AbstractAsyncContextManager[asyncpg.Connection]], work: Work[T]) -> T:
    for _ in range(ATTEMPTS):
        try:
            async with begin() as connection:
                return await work(connection)
        except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, asyncpg.UniqueViolationError):
            continue
        except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
            # What gets here has passed every check of ours: still the sender's input, and not a fault of the server.
            raise errors.InvalidError([errors.Fault("", f"the database refuses it: {error}")]) from error
    raise errors.UnavailableError("the change was held up by others of the same rows; try again")
