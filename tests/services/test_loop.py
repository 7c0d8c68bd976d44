"""The loop: pauses, wake-ups, errors that it survives, and an end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from horarium import errors
from horarium.events import Events, Name
from horarium.services import loop as loops
from horarium.services.loop import Loop
from tests.recording import SAFETY_S, Recorder

AN_HOUR = 3600.0


class Duty:
    """A step that does what it is told, and can be waited for."""

    def __init__(self, *steps: float | BaseException) -> None:
        self._steps = list(steps)
        self.calls = 0
        self._called = asyncio.Event()
        self.during: Callable[[], Awaitable[None]] | None = None

    async def __call__(self) -> float:
        self.calls += 1
        self._called.set()
        if self.during is not None:
            await self.during()
        step = self._steps.pop(0) if self._steps else AN_HOUR
        if isinstance(step, BaseException):
            raise step
        return step

    async def has_been_called(self, times: int) -> None:
        async with asyncio.timeout(SAFETY_S):
            while self.calls < times:
                self._called.clear()
                await self._called.wait()


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def told(events: Events) -> Recorder:
    return Recorder(events)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses after errors are short, but there."""
    monkeypatch.setattr(loops, "MAX_PAUSE_AFTER_ERROR_S", 0.001)


async def running(duty: Duty, events: Events) -> Loop:
    loop = Loop("duty", duty, events)
    loop.start()
    await duty.has_been_called(1)
    return loop


async def test_it_calls_until_there_is_nothing_more_to_do(events: Events) -> None:
    duty = Duty(0.0, 0.0, 0.001, AN_HOUR)
    loop = await running(duty, events)
    await duty.has_been_called(4)
    await loop.stop()
    assert duty.calls == 4


async def test_a_wake_up_ends_a_pause(events: Events) -> None:
    duty = Duty(AN_HOUR, AN_HOUR)
    loop = await running(duty, events)
    loop.wake()
    await duty.has_been_called(2)
    await loop.stop()


async def test_a_wake_up_during_a_step_is_not_lost(events: Events) -> None:
    duty = Duty(AN_HOUR, AN_HOUR)
    loop = Loop("duty", duty, events)

    async def woken() -> None:
        duty.during = None
        loop.wake()

    duty.during = woken
    loop.start()
    await duty.has_been_called(2)
    await loop.stop()


async def test_an_error_is_told_and_survived(events: Events, told: Recorder) -> None:
    duty = Duty(ValueError("broken"), ValueError("broken again"))
    loop = await running(duty, events)
    await duty.has_been_called(3)
    await loop.stop()
    assert [event.fields for event in told.named(Name.DUTY_FAILED)] == [
        {"duty": "duty", "error": "ValueError: broken"},
        {"duty": "duty", "error": "ValueError: broken again"},
    ]


async def test_a_database_that_is_away_is_told_once(events: Events, told: Recorder) -> None:
    away = errors.UnavailableError("away")
    duty = Duty(away, away, away, 0.0, away)
    loop = await running(duty, events)
    await duty.has_been_called(6)
    await loop.stop()
    assert told.total(Name.DUTY_FAILED) == 2


async def test_pauses_after_errors_grow_to_a_bound(events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "MAX_PAUSE_AFTER_ERROR_S", 5.0)
    monkeypatch.setattr(random, "uniform", lambda low, high: high)
    loop = Loop("duty", Duty(), events)
    pauses = [loop._back_off(ValueError(), quiet=True) for _ in range(12)]
    assert pauses[:5] == [0.2, 0.4, 0.8, 1.6, 3.2]
    assert set(pauses[5:]) == {5.0}


async def test_a_database_that_is_back_is_noticed_within_a_second(
    events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "MAX_PAUSE_AFTER_ERROR_S", 5.0)
    away = errors.UnavailableError("away")
    loop = Loop("duty", Duty(*[away] * 12), events)
    pauses = [await loop._guarded() for _ in range(12)]
    assert max(pauses) == loops.MAX_PAUSE_WITHOUT_DATABASE_S <= 0.5
    assert min(pauses) >= 0.1


async def test_a_stop_ends_a_step_that_is_under_way(events: Events, told: Recorder) -> None:
    duty = Duty()

    async def forever() -> None:
        await asyncio.Event().wait()

    duty.during = forever
    loop = await running(duty, events)
    await loop.stop()
    assert duty.calls == 1
    assert told.events == []


async def test_a_stop_before_a_start_and_a_second_stop_do_nothing(events: Events) -> None:
    loop = Loop("duty", Duty(), events)
    await loop.stop()
    loop.start()
    await loop.stop()
    await loop.stop()
