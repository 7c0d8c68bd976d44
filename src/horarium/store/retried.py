"""A change as one transaction that is begun again when it met another.

Two transactions that lock the same rows in different orders make PostgreSQL end one of them; and between a look and a write
somebody else may have stored what was not there. What was ended has changed nothing and is simply done again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from horarium import errors
from horarium.store.database import Database

T = TypeVar("T")
Work = Callable[[asyncpg.Connection], Awaitable[T]]

ATTEMPTS = 4


async def change(database: Database, work: Work[T]) -> T:
    """Do `work` in a transaction, anew when it met another. Raises UnavailableError when it does not get through."""
    for _ in range(ATTEMPTS):
        try:
            async with database.transaction() as connection:
                return await work(connection)
        except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, asyncpg.UniqueViolationError):
            continue
    raise errors.UnavailableError("the change was held up by others of the same rows; try again")
