"""Asking for runs: long polls that offer exactly the slots that are free.

One poll is always under way while a slot is free; further ones go out only for whole batches, so that a busy worker asks
seldom and for much.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from horarium import errors
from horarium.protocol import messages
from horarium.sdk import backoff

BATCH = 500
GATHER_S = 0.002
PROMPT_S = 0.05  # an empty answer sooner than this was not a long poll

_FATAL = frozenset({400, 401, 403, 404, 405, 422})
_log = logging.getLogger("horarium.worker")

Ask = Callable[[int], Awaitable[messages.LeaseResponse]]
Receive = Callable[[messages.LeaseResponse, float], int]


class Claimer:
    """Keeps the slots of a worker filled.

    `ask` asks for so many runs. `receive` is given each answer and when it came (monotonic), and returns how many slots
    it took; each of them comes back by `release`.
    """

    def __init__(self, slots: int, ask: Ask, receive: Receive) -> None:
        self._free = slots
        self._ask = ask
        self._receive = receive
        self._polls: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._backoff = backoff.Backoff()
        self._was_full = False
        self._was_answered = False
        self._fault: errors.RequestError | None = None

    def release(self) -> None:
        """A slot is free again."""
        self._free += 1
        self._wake.set()

    async def run(self) -> None:
        """Ask until cancelled. RequestError when the server refuses the very first request: the settings are wrong."""
        try:
            while self._fault is None:
                if not self._is_worth_asking():
                    self._wake.clear()
                    await self._wake.wait()
                elif self._was_full and self._free < BATCH:
                    self._was_full = False
                    await asyncio.sleep(GATHER_S)  # more slots come free in a moment
                else:
                    self._start_poll()
            raise self._fault
        finally:
            for poll in self._polls:
                poll.cancel()

    def _is_worth_asking(self) -> bool:
        return self._free >= BATCH or (self._free > 0 and not self._polls)

    def _start_poll(self) -> None:
        slots = min(self._free, BATCH)
        self._free -= slots
        poll = asyncio.get_running_loop().create_task(self._poll(slots))
        self._polls.add(poll)
        poll.add_done_callback(self._ended)

    def _ended(self, poll: asyncio.Task[None]) -> None:
        self._polls.discard(poll)
        self._wake.set()

    async def _poll(self, slots: int) -> None:
        taken = 0
        try:
            asked_at = time.monotonic()
            response = await self._ask(slots)
            answered_at = time.monotonic()
            taken = self._receive(response, answered_at)
            self._note(slots, response)
            if response.drain or (not response.leases and answered_at - asked_at < PROMPT_S):
                await asyncio.sleep(self._backoff.next_s())
            else:
                self._backoff.reset()
        except errors.UnreachableError as error:
            await self._wait(str(error))
        except errors.RequestError as error:
            if not self._was_answered and error.status in _FATAL:
                self._fault = error
            else:
                await self._wait(str(error))
        finally:
            self._free += slots - taken

    def _note(self, slots: int, response: messages.LeaseResponse) -> None:
        self._was_answered = True
        self._was_full = len(response.leases) == slots

    async def _wait(self, reason: str) -> None:
        wait_s = self._backoff.next_s()
        _log.warning("no runs can be had; asking again in %.1f s: %s", wait_s, reason)
        await asyncio.sleep(wait_s)
