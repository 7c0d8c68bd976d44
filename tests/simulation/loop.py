"""An event loop whose time is simulated, and processes in it that can be frozen and killed.

Nothing waits: when no callback is ready, time jumps to the next timer. Callbacks run in the order in which asyncio promises to
run them; what may happen in another order in life (answers, messages, timers that fire late) is decided by how long each takes.

A process is what its callbacks carry in their context. Those of a frozen process are kept until it is thawed, as SIGSTOP and
SIGCONT do; those of a killed one are never run.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Coroutine
from contextvars import Context, ContextVar, copy_context
from enum import Enum
from typing import Any

from tests.simulation.chance import Chance

STEP_S = 2e-6
"""What one turn of the loop costs: time goes on even where nobody sleeps."""
MOST_TURNS = 1_000_000


class State(Enum):
    RUNNING = "running"
    FROZEN = "frozen"
    DEAD = "dead"


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class Process:
    """Something that can stop at any moment: a node, a worker."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = State.RUNNING
        self.parked: deque[asyncio.Handle] = deque()
        self.context = copy_context()
        self.context.run(PROCESS.set, self)

    @property
    def runs(self) -> bool:
        return self.state is State.RUNNING

    def spawn(self, work: Coroutine[Any, Any, Any], name: str | None = None) -> asyncio.Task[Any]:
        """Begin something that belongs to this process."""
        return asyncio.get_running_loop().create_task(work, name=name or self.name, context=self.context.copy())

    def freeze(self) -> None:
        """SIGSTOP."""
        if self.runs:
            self.state = State.FROZEN

    def thaw(self) -> None:
        """SIGCONT: what came meanwhile is seen now, all at once."""
        if self.state is State.FROZEN:
            self.state = State.RUNNING
            parked, self.parked = self.parked, deque()
            asyncio.get_running_loop()._ready.extend(parked)  # type: ignore[attr-defined]

    def kill(self) -> None:
        """SIGKILL."""
        self.state = State.DEAD


class Stuck(Exception):  # noqa: N818 - not an error of anybody's: the simulation itself cannot go on
    """Nothing will ever happen again, or everything happens for ever."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """Time is a number. Timers fire a little late, as they do on a busy machine."""

    def __init__(self, chance: Chance) -> None:
        super().__init__()
        self._chance = chance
        self._now = 0.0
        self.turns = 0
        self.most_turns = MOST_TURNS
        self.set_exception_handler(self._tell)
        self.complaints: list[str] = []

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        return super().call_at(when + self._chance.between(0.0, 0.001), callback, *args, context=context)

    def _run_once(self) -> None:
        scheduled, ready = self._scheduled, self._ready  # type: ignore[has-type]
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        if ready:
            self._now += STEP_S
        elif scheduled:
            self._now = max(self._now, scheduled[0]._when)
        else:
            raise Stuck("nothing will ever happen again")
        while scheduled and scheduled[0]._when <= self._now:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            ready.append(handle)
        self.turns += 1
        if self.turns > self.most_turns:
            raise Stuck(f"{self.turns} turns of the loop, and no end")
        for _ in range(len(ready)):
            self._carry_out(ready.popleft())

    @staticmethod
    def _carry_out(handle: asyncio.Handle) -> None:
        if handle._cancelled:
            return
        process = handle._context.get(PROCESS)
        if process is None or process.state is State.RUNNING:
            handle._run()
        else:
            process.parked.append(handle)

    def revive(self, process: Process) -> None:
        """Let a killed process end its tasks; only for the end of the simulation."""
        process.state = State.RUNNING
        parked, process.parked = process.parked, deque()
        self._ready.extend(parked)  # type: ignore[has-type]

    def _process_events(self, event_list: Any) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody else is there."""

    def _tell(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.complaints.append(f"{context['message']}: {error!r}")
