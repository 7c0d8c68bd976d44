"""Calls that travel together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from horarium.services.batching import Batcher


class Far:
    """Answers batches when it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go_on = asyncio.Event()
        self.fault: Exception | None = None

    async def send(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        await self.go_on.wait()
        if self.fault is not None:
            raise self.fault
        return [10 * item for item in items]


async def until_sent(far: Far, batches: int) -> None:
    async with asyncio.timeout(30):
        while len(far.batches) < batches:  # noqa: ASYNC110 - the list tells nobody that it grew
            await asyncio.sleep(0)


async def test_what_is_added_while_a_batch_is_under_way_goes_with_the_next() -> None:
    far = Far()
    batcher: Batcher[int, int] = Batcher(far.send, at_once=1)
    first = asyncio.create_task(batcher.add(1))
    await until_sent(far, 1)
    others = [asyncio.create_task(batcher.add(number)) for number in (2, 3)]
    await asyncio.sleep(0)
    assert far.batches == [[1]]
    far.go_on.set()
    assert await asyncio.gather(first, *others) == [10, 20, 30]
    assert far.batches == [[1], [2, 3]]


async def test_a_batch_has_a_limit_and_several_travel_at_once() -> None:
    far = Far()
    far.go_on.set()
    batcher: Batcher[int, int] = Batcher(far.send, most=2, at_once=2)
    assert await asyncio.gather(*(batcher.add(number) for number in range(5))) == [0, 10, 20, 30, 40]
    assert far.batches == [[0, 1], [2, 3], [4]]


async def test_all_of_a_batch_learn_that_it_failed_and_the_next_goes_on() -> None:
    far = Far()
    far.fault = ValueError("no")
    far.go_on.set()
    batcher: Batcher[int, int] = Batcher(far.send)
    answers = await asyncio.gather(batcher.add(1), batcher.add(2), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["no", "no"]
    far.fault = None
    assert await batcher.add(3) == 30


async def test_who_does_not_wait_any_more_disturbs_nobody() -> None:
    far = Far()
    batcher: Batcher[int, int] = Batcher(far.send)
    gone, stays = asyncio.create_task(batcher.add(1)), asyncio.create_task(batcher.add(2))
    await until_sent(far, 1)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    far.go_on.set()
    assert await stays == 20
