"""The parts of a node's services, one for each database, and the way from a shard to its part.

A shard is moved while people work. Who meets `ShardMovedError`, or does not find what should be there, looks again where the
shard lives: what is asked is then asked once more, there. During the seconds of a move it waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from horarium import errors
from horarium.clock import Clock
from horarium.domain import ids
from horarium.services.canceller import Canceller
from horarium.services.catalog import Catalog
from horarium.services.inspector import Inspector
from horarium.services.manual import Manual
from horarium.store.database import Database
from horarium.store.databases import Databases

T = TypeVar("T")
Item = TypeVar("Item")

PATIENCE_S = 5.0
LOOK_EVERY_S = 0.1
LOOKS_AT_MOST = 5


@dataclass(frozen=True, slots=True)
class Part:
    """The services of one database."""

    name: str
    database: Database
    clock: Clock
    catalog: Catalog
    manual: Manual
    canceller: Canceller
    inspector: Inspector


class Gathered(list[Item]):
    """Items of several databases; `missing` are the names of those that could not be asked."""

    def __init__(self, items: Iterable[Item] = (), missing: tuple[str, ...] = ()) -> None:
        super().__init__(items)
        self.missing = missing


class Parts:
    """All parts, in the order of the databases."""

    def __init__(self, databases: Databases, parts: Sequence[Part], shards: int) -> None:
        self.databases = databases
        self.all = tuple(parts)
        self.shards = shards

    def place(self, shard: int) -> int:
        """The place of a shard's part. An id that nobody here made may carry any number: the home database does not find it."""
        return self.databases.place_of(shard) if shard < self.shards else 0

    async def at(self, shard: int, work: Callable[[Part], Awaitable[T]]) -> T:
        """Do something in the part of a shard; again where it has been moved to, after a wait where it is being moved."""
        began = asyncio.get_running_loop().time()
        while True:
            place = self.place(shard)
            try:
                return await work(self.all[place])
            except errors.NotFoundError:
                await self.databases.reload()
                if self.place(shard) == place:
                    raise
            except errors.ShardMovedError:
                await self.databases.reload()
                if self.place(shard) == place:
                    if asyncio.get_running_loop().time() - began > PATIENCE_S:
                        raise
                    await asyncio.sleep(LOOK_EVERY_S)

    async def at_id(self, identifier: UUID, work: Callable[[Part], Awaitable[T]]) -> T:
        """Do something in the part of a job or run."""
        return await self.at(ids.shard_of(identifier), work)

    async def everywhere(self, work: Callable[[Part], Awaitable[T]]) -> Gathered[T]:
        """The answers of all parts at one moment of the map: done anew when a shard moved meanwhile.

        Raises UnavailableError when no part answers, and whatever else one of them raises.
        """
        for _ in range(LOOKS_AT_MOST):
            version = self.databases.version
            answers = await asyncio.gather(*(work(part) for part in self.all), return_exceptions=True)
            await self.databases.reload()
            if self.databases.version == version:
                break
        return self._gathered(answers)

    def _gathered(self, answers: Sequence[T | BaseException]) -> Gathered[T]:
        found: list[T] = []
        silent: dict[str, errors.UnavailableError] = {}
        for part, answer in zip(self.all, answers, strict=True):
            if not isinstance(answer, BaseException):
                found.append(answer)
            elif isinstance(answer, errors.UnavailableError) and not isinstance(answer, errors.TooBroadError):
                silent[part.name] = answer
            else:
                raise answer
        if not found:
            raise next(iter(silent.values()))
        return Gathered(found, tuple(silent))


def newest_first(pages: Iterable[Sequence[Item]], id_of: Callable[[Item], UUID], limit: int) -> Iterable[Item]:
    """Pages that each begin with the newest id, as one; what two databases showed during a move is shown once."""
    by_id = {id_of(item): item for page in pages for item in page}
    return (by_id[each] for each in sorted(by_id, reverse=True)[:limit])
