"""Tasks of the event loop: shared by handlers that never wait, and by nobody else."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable

import msgspec

from horarium.protocol import messages
from horarium.sdk.attempt import Attempt
from horarium.sdk.tasks import Tasks

WHO = contextvars.ContextVar("WHO", default="nobody")
CHANGES = contextvars.ContextVar[object]("CHANGES")

Handler = Callable[[], Awaitable[None]]


class Runs:
    """Attempts with a handler each. `ended` is when all are through; `tasks` in which task each one began."""

    def __init__(self, *handlers: Handler) -> None:
        self._handlers = dict(zip(map(str, range(len(handlers))), handlers, strict=True))
        self._left = len(handlers)
        self._ended = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []
        self.attempts = [Attempt(_lease(number), 0.0) for number in self._handlers]

    async def all_ended(self) -> None:
        """Start all, and wait for the last."""
        tasks = Tasks(self._carry_out)
        for attempt in self.attempts:
            tasks.start(attempt)
        await self._ended.wait()

    async def _carry_out(self, attempt: Attempt) -> None:
        assert attempt.task is asyncio.current_task()
        self.tasks.append(attempt.task)
        try:
            await self._handlers[attempt.lease.run_id]()
        except asyncio.CancelledError:
            pass
        finally:
            self._left -= 1
            if not self._left:
                self._ended.set()


def _lease(run_id: str) -> messages.Lease:
    nothing = msgspec.Raw(b"{}")
    return messages.Lease(run_id, "job", 1, 1, nothing, nothing, "2026-01-01T00:00:00Z", 60, 15)


async def nothing() -> None:
    """A handler that never waits."""


async def test_handlers_that_never_wait_share_a_task() -> None:
    runs = Runs(*[nothing] * 50)
    await runs.all_ended()
    assert len(set(runs.tasks)) == 1


async def test_nobody_waits_for_a_handler_that_waits() -> None:
    others, seen = asyncio.Event(), list[str]()

    async def waiting() -> None:
        await others.wait()
        seen.append("waited")

    async def last() -> None:
        seen.append("last")
        others.set()

    runs = Runs(waiting, nothing, waiting, last)
    await runs.all_ended()
    assert seen == ["last", "waited", "waited"]
    assert [len({id(task) for task in runs.tasks[:2]}), runs.tasks[1] is runs.tasks[2]] == [2, True]


async def test_a_task_that_waited_carries_out_nothing_else() -> None:
    async def waiting() -> None:
        await asyncio.sleep(0)

    runs = Runs(*[waiting] * 20)
    await runs.all_ended()
    assert len(set(runs.tasks)) == 20


async def test_a_variable_that_a_handler_sets_is_not_seen_by_the_next() -> None:
    seen = list[str]()

    async def setting() -> None:
        seen.append(WHO.get())
        WHO.set("somebody")

    await Runs(*[setting] * 3).all_ended()
    assert seen == ["nobody"] * 3


async def test_a_variable_that_a_handler_sets_back_costs_no_task() -> None:
    async def setting() -> None:
        WHO.reset(WHO.set("somebody"))

    runs = Runs(*[setting] * 3)
    await runs.all_ended()
    assert len(set(runs.tasks)) == 1


class Incomparable:
    """What some libraries put into variables."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("compare my elements")

    __hash__ = None  # type: ignore[assignment]


async def test_values_that_cannot_be_compared_are_no_hindrance() -> None:
    seen = list[object]()

    async def setting() -> None:
        seen.append(CHANGES.get())
        CHANGES.set(Incomparable())

    first = Incomparable()
    CHANGES.set(first)
    await Runs(*[setting] * 3).all_ended()
    assert [value is first for value in seen] == [True] * 3


async def test_a_cancelled_task_breaks_off_nothing_but_its_own_run() -> None:
    seen = list[str]()

    async def cancelling() -> None:
        _current().cancel()

    async def innocent() -> None:
        await asyncio.sleep(0)
        seen.append("innocent")

    await Runs(cancelling, innocent, cancelling, innocent).all_ended()
    assert seen == ["innocent"] * 2


async def test_a_task_that_a_handler_kept_can_be_cancelled_later_without_harm() -> None:
    kept, seen = list[asyncio.Task[None]](), list[str]()

    async def keeping() -> None:
        kept.append(_current())
        await asyncio.sleep(0)

    async def innocent() -> None:
        for task in kept:
            task.cancel()
        await asyncio.sleep(0)
        seen.append("innocent")

    async def late() -> None:
        await asyncio.sleep(0)
        await innocent()

    await Runs(keeping, late, keeping, late).all_ended()
    assert seen == ["innocent"] * 2


def _current() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None
    return task
