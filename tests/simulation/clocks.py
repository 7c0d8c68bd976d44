"""The clocks of simulated processes: each runs a little fast or slow, and began to count somewhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from horarium import clock
from horarium.services import offers
from tests.simulation.chance import Chance


@dataclass(frozen=True)
class OwnClock:
    """Counts `rate` seconds in a second."""

    rate: float = 1.0
    since: float = 1000.0

    def read(self) -> float:
        return self.since + self.rate * asyncio.get_running_loop().time()


CLOCK: ContextVar[OwnClock | None] = ContextVar("own_clock", default=None)


def _own_clock() -> OwnClock:
    return CLOCK.get() or OwnClock()


def some_clock(chance: Chance) -> OwnClock:
    """A clock of a machine: up to 200 ppm off."""
    return OwnClock(1 + chance.between(-2e-4, 2e-4), chance.between(10, 1e6))


class _Time:
    """Stands in for the module `time` in `horarium.clock`, which reads a machine's clocks, and where a cost is measured."""

    @staticmethod
    def monotonic() -> float:
        return _own_clock().read()

    @staticmethod
    def perf_counter() -> float:
        return 0.0  # nothing costs anything

    @staticmethod
    def time() -> float:
        """An hour ahead of everybody: a machine's wall clock must not matter."""
        return 1_800_000_000.0 + _own_clock().read()


@contextmanager
def simulated() -> Iterator[None]:
    """Let processes read their own clocks."""
    kept = clock.time
    clock.time = offers.time = _Time  # type: ignore[assignment]
    try:
        yield
    finally:
        clock.time = offers.time = kept
