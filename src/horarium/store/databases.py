"""All databases of an installation, and which of them holds a shard.

The first one is the home database: of keys, tenants and facts. Each holds the rows of the shards that live in it, and says so in
its own `shards` table. What they say is read again each second (`reload`), so a shard that was moved is found within that time,
and at once by whoever is refused because of it.

A database that cannot be asked keeps its shards, and does not stop the others: what needs it meets `UnavailableError`, which
names it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

import asyncpg
import structlog

from horarium import errors
from horarium.domain import placement
from horarium.domain.placement import Found, State
from horarium.store import migrator, shards
from horarium.store.database import Database

MOVED = "HRM01"  # the error code of the fence in the schema
ASK_WITHIN_S = 2.0

_log = structlog.get_logger("horarium.databases")


class Member(Database):
    """One database of several: what goes wrong with it is told under its name."""

    def __init__(self, name: str, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self.name = name

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection]:
        try:
            async with super().connection() as connection:
                yield connection
        except asyncpg.PostgresError as error:
            if error.sqlstate != MOVED:
                raise
            raise errors.ShardMovedError(f"database {self.name}: {error}") from error
        except errors.UnavailableError as error:
            if type(error) is not errors.UnavailableError or str(error).startswith("database "):
                raise
            raise errors.UnavailableError(f"database {self.name}: {error}") from error


class Databases:
    """The databases by their place; the home database first. `version` rises when a shard is found somewhere else."""

    def __init__(self, names: Sequence[str], all_of_them: Sequence[Database]) -> None:
        self.names = tuple(names)
        self.all = tuple(all_of_them)
        self.version = 0
        self._found: dict[str, Found] = {}
        self._homes: dict[int, int] = {}
        self._refused: dict[str, str] = {}
        self.silent: frozenset[str] = frozenset()
        self._looks = 0
        self._looking = asyncio.Lock()

    @classmethod
    def at(cls, addresses: Sequence[tuple[str, str]], *, pool_size: int, statement_cache: int) -> Self:
        """Not open yet. `addresses` are (name, URL) pairs; `pool_size` counts for each."""
        if len(addresses) == 1:
            name, url = addresses[0]
            return cls([name], [Database(url, pool_size=pool_size, statement_cache=statement_cache)])
        members = [Member(name, url, pool_size=pool_size, statement_cache=statement_cache) for name, url in addresses]
        return cls([name for name, _ in addresses], members)

    @classmethod
    def only(cls, database: Database) -> Self:
        """One database, which holds everything."""
        return cls(["a"], [database])

    @property
    def home(self) -> Database:
        """The database of keys, tenants and facts."""
        return self.all[0]

    @property
    def are_several(self) -> bool:
        return len(self.all) > 1

    async def open(self) -> None:
        """Open all. One of several that cannot be asked is opened by its next use; UnavailableError when none can be."""
        answers = await asyncio.gather(*(each.open() for each in self.all), return_exceptions=True)
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        for answer in failed:
            if not isinstance(answer, errors.UnavailableError) or len(failed) == len(self.all):
                await self.close()
                raise answer

    async def close(self) -> None:
        """Close all."""
        await asyncio.gather(*(each.close() for each in self.all))

    async def load(self) -> dict[str, str]:
        """Look at all databases before they are used; returns the facts of the installation.

        Raises ConfigurationError when a schema is not up to date, when they are not one cluster, and when a shard lives in none
        or in two of them; UnavailableError when none can be asked.
        """
        found, failed = await self._look()
        for answer in failed:
            if not isinstance(answer, errors.UnavailableError) or not found:
                raise answer
        wrong = placement.faults(found, self.names)
        if wrong:
            raise errors.ConfigurationError("\n".join(wrong))
        self._adopt(found)
        return dict(next(iter(found.values())).facts)

    async def reload(self) -> bool:
        """Read again where shards live; True when one is found somewhere else. A silent database keeps what it had."""
        before, asked_at = self.version, self._looks
        async with self._looking:
            if self._looks == asked_at:  # else somebody has looked since we asked
                self._looks += 1
                self._adopt({**self._found, **self._of_this_cluster((await self._look())[0])})
        return self.version != before

    def place_of(self, shard: int) -> int:
        """The place of a shard's database. UnavailableError where it is not known: that database could not be asked yet."""
        if not self.are_several:
            return 0
        place = self._homes.get(shard)
        if place is None:
            silent = [name for name in self.names if name not in self._found]
            raise errors.UnavailableError(
                f"shard {shard} lives in a database that cannot be asked: {', '.join(silent)}"
            )
        return place

    def of(self, shard: int) -> Database:
        """The database that holds a shard's rows."""
        return self.all[self.place_of(shard)]

    def living(self, place: int) -> list[int]:
        """The shards that live in the database at a place, and may be written there."""
        found = self._found.get(self.names[place])
        return [] if found is None else found.living()

    def living_anywhere(self) -> list[int]:
        """The shards that may be written, of databases that answered when they were asked last; else of any."""
        known = [place for place, name in enumerate(self.names) if name not in self.silent]
        return [shard for place in known for shard in self.living(place)] or [*self._homes]

    def states(self) -> dict[str, Found]:
        """What each database said last, by its name; one that was never asked is not there."""
        return dict(self._found)

    async def _look(self) -> tuple[dict[str, Found], list[BaseException]]:
        """What each database says, and what went wrong with the others."""
        answers = await asyncio.gather(*(self._ask(place) for place in range(len(self.all))), return_exceptions=True)
        found = {name: each for name, each in zip(self.names, answers, strict=True) if isinstance(each, Found)}
        self.silent = frozenset(set(self.names) - set(found))
        return found, [answer for answer in answers if isinstance(answer, BaseException)]

    async def _ask(self, place: int) -> Found:
        try:
            async with asyncio.timeout(ASK_WITHIN_S), self.all[place].connection() as connection:
                status = await migrator.status(connection)
                if status.pending:
                    raise errors.ConfigurationError(self._pending(place, status))
                facts = await migrator.facts(connection)
                return Found(facts, await shards.states(connection))
        except TimeoutError:
            raise errors.UnavailableError(
                f"database {self.names[place]}: no answer within {ASK_WITHIN_S:g} s"
            ) from None

    def _pending(self, place: int, status: migrator.Status) -> str:
        names = ", ".join(f"{migration.version:04} {migration.name}" for migration in status.pending)
        which = f"database {self.names[place]}" if self.are_several else "the database"
        verb = "migrate" if status.applied else "init"
        return f"{which} lacks migrations ({names}): run `horarium db {verb if self.are_several else 'migrate'}`"

    def _of_this_cluster(self, found: dict[str, Found]) -> dict[str, Found]:
        """Without those that turn out not to belong here: they were silent at the start and are looked at now."""
        good = dict(found)
        for name in found:
            if name not in self._found and (wrong := placement.faults({**self._found, name: found[name]}, self.names)):
                if self._refused.get(name) != wrong[0]:
                    _log.error("database_refused", database=name, reason="; ".join(wrong))
                self._refused[name] = wrong[0]
                del good[name]
        return good

    def _adopt(self, found: dict[str, Found]) -> None:
        if found == self._found:
            return
        self._found = found
        places = {name: place for place, name in enumerate(self.names)}
        self._homes = {shard: places[name] for shard, name in placement.homes(found).items()}
        self.version += 1


__all__ = ["ASK_WITHIN_S", "MOVED", "Databases", "Found", "Member", "State"]
