"""What is queued for workers of other nodes, and when they hear of it."""

from __future__ import annotations

import asyncio

from horarium.services.offers import OfferBoard
from tests.builders import WAIT_S


class Lanes:
    """Depths that a test sets."""

    def __init__(self, **depths: int) -> None:
        self.depths = depths
        self.counted = 0

    def __call__(self) -> dict[str, int]:
        self.counted += 1
        return dict(self.depths)


async def settled(board: OfferBoard) -> None:
    """Stir, and wait until the board has looked."""
    board.stir()
    while board._timer is not None:  # noqa: ASYNC110 - the board tells nobody that it looked
        await asyncio.sleep(0)


async def test_who_waits_for_news_hears_of_a_queue_that_came() -> None:
    lanes = Lanes()
    board = OfferBoard([lanes])
    first = await board.news(0, WAIT_S)
    assert first.queues == {}
    waiting = asyncio.create_task(board.news(first.version, WAIT_S))
    await asyncio.sleep(0)
    lanes.depths = {"mail": 3}
    board.stir()
    second = await waiting
    assert second.queues == {"mail": 3}
    assert second.version > first.version
    assert await board.news(first.version, WAIT_S) == second


async def test_nothing_new_ends_the_wait_with_what_is_known() -> None:
    board = OfferBoard([Lanes(mail=3)])
    await settled(board)
    known = await board.news(0, WAIT_S)
    assert await board.news(known.version, 0) == known


async def test_small_changes_are_seen_by_who_asks_and_are_no_news() -> None:
    lanes = Lanes(mail=10)
    board = OfferBoard([lanes])
    await settled(board)
    known = await board.news(0, WAIT_S)
    lanes.depths = {"mail": 12}
    await settled(board)
    assert board.now().queues == {"mail": 12}
    assert await board.news(known.version, 0) == known


async def test_the_lanes_of_several_databases_are_offered_together() -> None:
    board = OfferBoard([Lanes(mail=1, slow=2), Lanes(mail=3)])
    await settled(board)
    assert board.now().queues == {"mail": 4, "slow": 2}
    assert (board.of(0), board.of(1)) == ({"mail": 1, "slow": 2}, {"mail": 3})


async def test_many_hand_outs_are_counted_once() -> None:
    lanes = Lanes(mail=1)
    board = OfferBoard([lanes])
    await settled(board)
    for _ in range(100):
        board.stir()
    await settled(board)
    assert lanes.counted == 2


async def test_a_closed_board_offers_nothing_and_keeps_nobody_waiting() -> None:
    board = OfferBoard([Lanes(mail=1)])
    await settled(board)
    known = await board.news(0, WAIT_S)
    waiting = asyncio.create_task(board.news(known.version, WAIT_S))
    await asyncio.sleep(0)
    board.close()
    assert (await waiting).queues == {}
    assert board.now().queues == {}
    assert (await board.news(99, WAIT_S)).queues == {}
