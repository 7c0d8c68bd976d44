"""Waiting for what another process did: look again until it is so, with a safety limit and no fixed pause to hope on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

Found = TypeVar("Found")

LOOK_EVERY_S = 0.02
SAFETY_S = 120


async def until(look: Callable[[], Awaitable[Found | None]], what: str) -> Found:
    """The first true answer of `look`; AssertionError naming `what` when it never comes."""
    ticker = asyncio.Event()
    loop = asyncio.get_running_loop()
    limit = loop.time() + SAFETY_S
    while loop.time() < limit:
        found = await look()
        if found:
            return found
        loop.call_later(LOOK_EVERY_S, ticker.set)
        await ticker.wait()
        ticker.clear()
    raise AssertionError(f"did not come to be: {what}")
