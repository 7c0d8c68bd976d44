"""Installations over several databases, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from horarium import config
from horarium.domain import placement
from horarium.store import founding, migrator
from horarium.store.databases import Databases

SILENT = "postgresql://127.0.0.1:1/silent"


def addressed(urls: Sequence[str]) -> str:
    """The addresses as a setting names them."""
    return ",".join(urls)


def databases_at(urls: Sequence[str], pool_size: int = 3) -> Databases:
    """The databases at these addresses, called a, b, c; not open yet."""
    return Databases.at(config.databases_in(addressed(urls)), pool_size=pool_size, statement_cache=100)


@asynccontextmanager
async def opened(urls: Sequence[str]) -> AsyncIterator[Databases]:
    """Open databases; whether there is anything in them is the test's affair."""
    databases = databases_at(urls)
    await databases.open()
    try:
        yield databases
    finally:
        await databases.close()


@asynccontextmanager
async def joined(urls: Sequence[str], shards: int = 8) -> AsyncIterator[Databases]:
    """As `installation`, over databases that have the schema already: quicker, by writing what `founding` would have."""
    async with opened(urls) as databases:
        dealt = placement.spread(shards, len(urls))
        async with databases.home.connection() as connection:
            facts = await migrator.facts(connection)
        for number, database in enumerate(databases.all):
            async with database.transaction() as connection:
                mine = {**facts, "shards": str(shards), "database": str(number), "database_name": "abc"[number]}
                await connection.execute("DELETE FROM cluster; DELETE FROM shards")
                await connection.executemany("INSERT INTO cluster VALUES ($1, $2)", [*mine.items()])
                await connection.execute(migrator.SQL.insert_shards, dealt[number])
                if number:
                    await connection.execute(migrator.SQL.number_ids, number)
        await databases.load()
        yield databases


@asynccontextmanager
async def installation(urls: Sequence[str], shards: int = 8) -> AsyncIterator[Databases]:
    """A new installation over empty databases, open and looked at."""
    async with opened(urls) as databases:
        await founding.found(databases, shards)
        await databases.load()
        yield databases
