"""The network between workers, people and nodes: every message takes its time, may be lost, late or doubled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.simulation.chance import Chance
from tests.simulation.loop import Process
from tests.simulation.weather import Weather

Call = Callable[[], Awaitable[Any]]


class NoAnswer(Exception):  # noqa: N818 - what a caller sees of every fault
    """Nothing came back: the call may have been carried out, or not."""


class Network:
    """Carries calls to processes."""

    def __init__(self, chance: Chance, weather: Weather) -> None:
        self._chance = chance
        self._weather = weather
        self.cuts: set[tuple[str, str]] = set()

    async def call(self, caller: str, callee: Process, call: Call, patience_s: float) -> Any:
        """Ask a process; its answer or its error. NoAnswer when it did not come within `patience_s`."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        copies = 2 if self._chance.happens(self._weather.message_doubled) else 1
        served = [callee.spawn(self._deliver(caller, callee, call, answer)) for _ in range(copies)]
        try:
            async with asyncio.timeout(patience_s):
                return await answer
        except TimeoutError:
            raise NoAnswer(f"{callee.name} did not answer {caller}") from None
        finally:
            if not answer.done() or answer.cancelled():
                # The connection breaks; the node notices, or does not.
                for task in served:
                    if self._chance.happens(0.7):
                        task.cancel()

    async def _deliver(self, caller: str, callee: Process, call: Call, answer: asyncio.Future[Any]) -> None:
        if not await self._travel(caller, callee, self._weather.message_lost):
            return
        try:
            said, error = await call(), None
        except asyncio.CancelledError:
            raise
        except Exception as raised:  # noqa: BLE001 - told to whoever asked
            said, error = None, raised
        if not await self._travel(caller, callee, self._weather.answer_lost) or answer.done():
            return
        if error is None:
            answer.set_result(said)
        else:
            answer.set_exception(error)

    async def _travel(self, caller: str, callee: Process, lost: float) -> bool:
        late = self._chance.happens(self._weather.message_late)
        await asyncio.sleep(self._chance.between(0.05, 5.0) if late else self._chance.short())
        return (caller, callee.name) not in self.cuts and not self._chance.happens(lost)
