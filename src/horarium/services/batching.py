"""Calls that travel together: what is added while one is under way goes with the next.

Between two nodes a request costs more than what it carries, so heartbeats and reports of many workers share one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")

Send = Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]]


class Batcher(Generic[Item, Answer]):
    """Sends items in batches of at most `most`, `at_once` batches at the same time, after gathering for `gather_s` seconds.

    `send` gives an answer for each item, in order, or raises: then everybody in the batch is told.
    """

    def __init__(self, send: Send[Item, Answer], *, gather_s: float = 0.0, most: int = 200, at_once: int = 2) -> None:
        self._send = send
        self._gather_s = gather_s
        self._most = most
        self._at_once = at_once
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def add(self, item: Item) -> Answer:
        """Send this with the next batch; returns its answer."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((item, answer))
        if self._timer is None and len(self._under_way) < self._at_once:
            self._timer = loop.call_later(self._gather_s, self._flush)
        return await answer

    def _flush(self) -> None:
        self._timer = None
        while self._waiting and len(self._under_way) < self._at_once:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            task = asyncio.get_running_loop().create_task(self._place(batch), name="batch")
            self._under_way.add(task)
            task.add_done_callback(self._landed)

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if self._waiting and self._timer is None:
            self._flush()

    async def _place(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._send([item for item, _ in batch])
        except BaseException as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error) if isinstance(error, Exception) else future.cancel()
            if not isinstance(error, Exception):
                raise
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)
