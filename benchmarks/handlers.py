"""Handlers that benchmarks run."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from benchmarks import starts
from horarium import Horarium

h = Horarium(app="benchmarks")


@h.job("noop")
async def noop(ctx: Any, a: int = 0, b: str = "") -> None:
    """Nothing at all."""


@h.job("note_start")
async def note_start(ctx: Any, a: int = 0, b: str = "") -> None:
    """Notes when it began."""
    at = time.time()
    starts.note(ctx.scheduled_for, at)


@h.job("brief")
async def brief(ctx: Any, a: int = 0, b: str = "") -> None:
    """Holds its slot for five milliseconds."""
    await asyncio.sleep(0.005)
