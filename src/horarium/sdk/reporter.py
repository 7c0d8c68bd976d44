"""Results on their way to the server: gathered for a moment, sent in batches, repeated until they are placed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from horarium import errors
from horarium.protocol import messages
from horarium.sdk import backoff

GATHER_S = 0.002
MAX_BATCH = 1_000
MAX_BATCH_BYTES = 4 * 1024 * 1024
MAX_IN_FLIGHT = 4

_log = logging.getLogger("horarium.worker")

Send = Callable[[Sequence[messages.Result]], Awaitable[messages.ReportResponse]]
Settled = Callable[[Sequence[messages.Result]], None]


class Reporter:
    """Sends what is added. `settled` is called with the results that the server has, or will never take."""

    def __init__(self, send: Send, settled: Settled) -> None:
        self._send = send
        self._settled = settled
        self._waiting: list[messages.Result] = []
        self._in_flight: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._backoff = backoff.Backoff()
        self._placed = asyncio.Event()

    @property
    def backlog(self) -> int:
        """How many results wait to be sent."""
        return len(self._waiting)

    def add(self, result: messages.Result) -> None:
        """Send this soon."""
        self._waiting.append(result)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self._flush)

    async def drain(self, timeout_s: float) -> bool:
        """Wait until all results are placed; False when the time did not suffice."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._waiting or self._in_flight:
                    self._placed.clear()
                    self._flush()
                    await self._placed.wait()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Give up what is not placed."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._in_flight:
            task.cancel()

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting and len(self._in_flight) < MAX_IN_FLIGHT:
            batch = self._waiting[: _fitting(self._waiting)]
            del self._waiting[: len(batch)]
            task = asyncio.get_running_loop().create_task(self._place(batch))
            self._in_flight.add(task)
            task.add_done_callback(self._landed)

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._placed.set()
        if self._waiting and self._timer is None and not task.cancelled():
            self._flush()

    async def _place(self, batch: list[messages.Result]) -> None:
        try:
            response = await self._send(batch)
        except errors.UnreachableError as error:
            await self._put_back(batch, str(error))
        except errors.RequestError as error:
            await self._refused(batch, error)
        else:
            self._backoff.reset()
            await self._sort(batch, response)

    async def _sort(self, batch: list[messages.Result], response: messages.ReportResponse) -> None:
        if response.all_accepted:
            self._settled(batch)
            return
        known = {*response.accepted, *response.lost}
        for run_id in response.lost:
            _log.warning("run %s: its result came too late and changed nothing", run_id)
        if len(known) == len(batch):
            self._settled(batch)
            return
        self._settled([result for result in batch if result.run_id in known])
        await self._put_back([result for result in batch if result.run_id not in known], "not placed yet")

    async def _put_back(self, batch: list[messages.Result], reason: str) -> None:
        """Wait, in flight, then let them be sent again."""
        wait_s = self._backoff.next_s()
        _log.warning("%d results are sent again in %.1f s: %s", len(batch), wait_s, reason)
        await asyncio.sleep(wait_s)
        self._waiting[:0] = batch

    async def _refused(self, batch: list[messages.Result], error: errors.RequestError) -> None:
        """A refused batch is halved until the result is alone that the server will not take."""
        if error.status in {401, 403, 404}:
            await self._put_back(batch, str(error))
        elif len(batch) == 1:
            _log.error("run %s: the server refuses its result: %s", batch[0].run_id, error)
            self._settled(batch)
        else:
            middle = len(batch) // 2
            await self._place(batch[:middle])
            await self._place(batch[middle:])


def _fitting(results: Sequence[messages.Result]) -> int:
    """How many of the first results go into one request."""
    room = MAX_BATCH_BYTES
    for count, result in enumerate(results[:MAX_BATCH]):
        room -= _size(result)
        if room < 0:
            return max(1, count)
    return min(len(results), MAX_BATCH)


def _size(result: messages.Result) -> int:
    """About how many bytes a result takes, counting only what may be large."""
    size = 150
    if result.result:
        size += len(bytes(result.result))
    if result.logs:
        size += sum(len(line.message) for line in result.logs) * 2
    if result.error is not None:
        size += len(result.error.traceback or "") * 2
    return size
