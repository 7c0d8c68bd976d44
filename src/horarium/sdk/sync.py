"""The client for code without an event loop.

No second implementation: each call here is the asynchronous one, run in the event loop of a background thread, with the
same arguments and result. The thread starts with the first call.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import os
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from horarium.sdk import client as clients
    from horarium.sdk import handlers, resources

P = ParamSpec("P")
R = TypeVar("R")

LAST_S = 2.0


def blocking(call: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """A call that waits for the coroutine that `call` makes, run in the background loop.

    RuntimeError in that loop's own thread and inside a running event loop, where waiting would stop everything.
    """

    @functools.wraps(call)
    def wait(*args: P.args, **kwargs: P.kwargs) -> R:
        _refuse_inside_a_loop(call.__name__)
        return asyncio.run_coroutine_threadsafe(call(*args, **kwargs), _loop()).result()

    return wait


class SyncHandler(Generic[P]):
    """`Handler`'s ways to enqueue."""

    def __init__(self, handler: handlers.Handler[P, Any]) -> None:
        self.enqueue = blocking(handler.enqueue)
        self.enqueue_in = blocking(handler.enqueue_in)
        self.enqueue_at = blocking(handler.enqueue_at)
        self.enqueue_many = blocking(handler.enqueue_many)


class SyncJobs:
    """`h.jobs`."""

    def __init__(self, jobs: resources.Jobs) -> None:
        self.get = blocking(jobs.get)
        self.list = blocking(jobs.list)
        self.put = blocking(jobs.put)
        self.pause = blocking(jobs.pause)
        self.resume = blocking(jobs.resume)
        self.run = blocking(jobs.run)
        self.delete = blocking(jobs.delete)


class SyncRuns:
    """`h.runs`."""

    def __init__(self, runs: resources.Runs) -> None:
        self.get = blocking(runs.get)
        self.list = blocking(runs.list)
        self.cancel = blocking(runs.cancel)
        self.rerun = blocking(runs.rerun)
        self.wait = blocking(runs.wait)


class SyncHorarium:
    """`Horarium`."""

    def __init__(self, client: clients.Horarium) -> None:
        self.jobs = SyncJobs(client.jobs)
        self.runs = SyncRuns(client.runs)
        self.enqueue = blocking(client.enqueue)
        self.close = blocking(client.close)


def _refuse_inside_a_loop(name: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"an event loop runs in this thread, and waiting would stop it: use `await ….{name}(…)`")


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """The background loop; a daemon thread, so that it does not keep the program alive."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="horarium-sync", daemon=True).start()
    atexit.register(_close, loop, os.getpid())
    return loop


def _close(loop: asyncio.AbstractEventLoop, owner: int) -> None:
    """Close the connections that the loop holds, as `asyncio.run` does at its end."""
    if os.getpid() == owner:  # a forked child has the loop, but nobody who runs it
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop).result(LAST_S)


# A forked child has the loop but not its thread; it starts its own.
os.register_at_fork(after_in_child=_loop.cache_clear)
