"""Threads for handlers that are plain functions.

Not concurrent.futures: its threads are joined when the interpreter exits, so that one handler which never returns would
keep a stopped worker alive for ever. These are daemon threads; there are as many as handlers ran at once so far.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class _Call(NamedTuple):
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    run: Callable[[], Any]


class Threads:
    """A pool of daemon threads, to be used from one event loop."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._threads = 0
        self._busy = 0

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function in a thread and wait for it; it sees the caller's context variables."""
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        future: asyncio.Future[R] = loop.create_future()
        self._calls.put(_Call(loop, future, lambda: context.run(function, *args, **kwargs)))
        self._busy += 1
        if self._busy > self._threads:
            self._threads += 1
            threading.Thread(target=self._serve, name=f"horarium-handler-{self._threads}", daemon=True).start()
        try:
            return await future
        finally:
            self._busy -= 1

    def close(self) -> None:
        """Let the threads end, each after the call it is at."""
        for _ in range(self._threads):
            self._calls.put(None)
        self._threads = 0

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                value, error = call.run(), None
            except BaseException as raised:  # noqa: BLE001 - sys.exit() in a handler ends its run, not the thread
                value, error = None, raised
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                call.loop.call_soon_threadsafe(_resolve, call.future, value, error)
            del call, value, error


def _resolve(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    elif isinstance(error, StopIteration):  # a future refuses it
        future.set_exception(RuntimeError("the handler raised StopIteration"))
    else:
        future.set_exception(error)
