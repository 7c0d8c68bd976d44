"""Who came to lead each shard, and when: looked at all the time, since the rows do not remember it."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from contextlib import suppress

import asyncpg

from tests.chaos import world as worlds

LOOK_EVERY_S = 0.25


class Watch:
    """Notes each change of a shard's term, with the monotonic time at which it was seen."""

    def __init__(self, world: worlds.World) -> None:
        self._world = world
        self._terms: dict[int, int] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.taken: dict[int, list[float]] = defaultdict(list)

    @property
    def changes(self) -> int:
        """How often a shard was taken."""
        return sum(map(len, self.taken.values()))

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._follow(url)) for url in self._world.database_urls]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def last_taken(self, shard: int, after: float, before: float) -> float:
        """When a shard was last taken between two moments; `after` when it was not."""
        return max((at for at in self.taken[shard] if after < at < before), default=after)

    async def _follow(self, url: str) -> None:
        while True:
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
                async with worlds.rows_of(url) as rows:
                    while True:
                        self._note(await rows.fetch("SELECT shard, term FROM shards WHERE state = 'here'", timeout=5))
                        await asyncio.sleep(LOOK_EVERY_S)
            await asyncio.sleep(LOOK_EVERY_S)

    def _note(self, rows: list[asyncpg.Record]) -> None:
        now = time.monotonic()
        for row in rows:
            if self._terms.setdefault(row["shard"], row["term"]) < row["term"]:
                self._terms[row["shard"]] = row["term"]
                self.taken[row["shard"]].append(now)
