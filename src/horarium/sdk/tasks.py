"""The event loop's tasks in which attempts are carried out.

A handler that ends without ever waiting needs no task of its own: the next attempt is carried out in the same one. As soon as
one waits, the attempts behind it get another task, and its own ends with it, so that nothing that a handler may have done to its
task (cancelled it, set a context variable, kept it for later) reaches another run.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable

from horarium.sdk import attempt as attempts


class Tasks:
    """Carries out attempts in the order they are started, each at once, none waiting for another that waits.

    `carry_out` never raises, but for what ends the loop. An attempt's `task` is set before it begins.
    """

    def __init__(self, carry_out: Callable[[attempts.Attempt], Awaitable[None]]) -> None:
        self._carry_out = carry_out
        self._started: deque[attempts.Attempt] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_looking = False
        self._looks = 0

    def start(self, attempt: attempts.Attempt) -> None:
        """Carry out this attempt in the next turn of the loop."""
        attempt.is_handed_on = True
        self._started.append(attempt)
        if not self._is_looking:
            self._look()

    def _look(self) -> None:
        """A task for the attempts that are started. It is looked again after the task's first step: had one to wait?"""
        self._looks += 1
        self._is_looking = bool(self._started)
        if self._is_looking:
            loop = asyncio.get_running_loop()
            task = loop.create_task(self._run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            loop.call_soon(self._look)

    async def _run(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is a task's coroutine
        looks, context = self._looks, contextvars.copy_context()
        while self._started and looks == self._looks and not task.cancelling() and _is_now(context):
            attempt = self._started.popleft()
            attempt.task = task
            await self._carry_out(attempt)


def _is_now(context: contextvars.Context) -> bool:
    """Whether the current context is still like this one; a comparison of nothing when no variable was set."""
    try:
        return context == contextvars.copy_context()
    except Exception:  # noqa: BLE001 - a user's values may not be comparable
        return False
