"""API keys made through the database, for when there is no key yet to ask the server with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from horarium import config, errors
from horarium.cli import secret_file
from horarium.services.keys import DEFAULT_TENANT, Keys
from horarium.store.database import Database

Result = TypeVar("Result")


async def write_if_none(settings: config.Settings, file: Path) -> None:
    """Make an admin's key and write it to a file, if no key exists at all."""

    async def make(keys: Keys) -> None:
        token = await keys.ensure_first_key(settings.env)
        if token is not None:
            secret_file.write(file, token)

    await with_keys(settings, make)


async def keep(settings: config.Settings, file: Path) -> bool:
    """See to it that a file holds an admin's key that this database knows; True if there was no key at all before."""

    async def make(keys: Keys) -> bool:
        if await _is_known(keys, secret_file.read(file)):
            return False
        first = await keys.ensure_first_key(settings.env)
        name = f"dev {datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
        secret_file.write(file, first or await keys.create(DEFAULT_TENANT, "admin", name))
        return first is not None

    return await with_keys(settings, make)


async def with_keys(settings: config.Settings, work: Callable[[Keys], Awaitable[Result]]) -> Result:
    """Do something with the service of keys, on a connection of its own to the home database."""
    database = Database(settings.home_url, pool_size=1, statement_cache=settings.statement_cache)
    await database.open()
    try:
        return await work(Keys(database))
    finally:
        await database.close()


async def _is_known(keys: Keys, token: str | None) -> bool:
    if not token:
        return False
    try:
        await keys.authenticate(token)
    except errors.UnauthenticatedError:
        return False
    return True
