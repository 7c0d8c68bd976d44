"""What is queued in this node's lanes after its own workers were served, for the other nodes to see.

Others wait for news (long poll). A depth that changes a little is no news: whoever asks for runs is told the depths of that
moment anyway. Counting is done at most every few milliseconds, less often when it is dear, and not at all while a node is alone.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence

from horarium.domain import sourcing
from horarium.protocol.peer_messages import Offers

LOOK_EVERY_S = 0.005

Depths = Callable[[], dict[str, int]]


class OfferBoard:
    """The depths of queues: of each database's lanes (`of`), and of all together (`now`)."""

    def __init__(self, sources: Sequence[Depths]) -> None:
        self._sources = sources
        self._depths: list[dict[str, int]] = [{} for _ in sources]
        self._told: dict[str, int] = {}
        self._version = 1
        self._news = asyncio.Event()
        self._next_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False

    def of(self, place: int) -> dict[str, int]:
        """What is queued in the lanes of one database, as last counted."""
        return self._depths[place]

    def now(self) -> Offers:
        """What is offered at this moment, as last counted."""
        return Offers(self._version, {} if self.closed else self._total())

    async def news(self, known: int, wait_s: float) -> Offers:
        """The offers, once they differ from the version that is known, or when the wait is over."""
        try:
            async with asyncio.timeout(wait_s):
                while known == self._version and not self.closed:
                    await self._news.wait()
        except TimeoutError:
            pass
        return Offers(self._version, {} if self.closed else dict(self._told))

    def stir(self) -> None:
        """Runs were handed out or became ready: count, now or soon."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(loop.time(), self._next_at), self._look)

    def close(self) -> None:
        """Offer nothing any more, and keep nobody waiting."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._tell()

    def _look(self) -> None:
        self._timer = None
        started = time.perf_counter()
        self._count()
        took = time.perf_counter() - started
        self._next_at = asyncio.get_running_loop().time() + max(LOOK_EVERY_S, 20 * took)

    def _count(self) -> None:
        self._depths = [depths() for depths in self._sources]
        total = self._total()
        if sourcing.is_news(self._told, total):
            self._told = total
            self._tell()

    def _total(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for depths in self._depths:
            total.update(depths)
        return dict(total)

    def _tell(self) -> None:
        self._version += 1
        self._news.set()
        self._news = asyncio.Event()
