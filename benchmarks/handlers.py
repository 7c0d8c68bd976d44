"""Handlers that benchmarks run. `BENCH_FOLDER` and `BENCH_LABEL` say where a worker's notes go."""

from __future__ import annotations

import asyncio
import atexit
import os
import time
from pathlib import Path
from typing import Any

from benchmarks import starts
from horarium import Horarium

h = Horarium(app="benchmarks")

_notes = starts.Notes()
atexit.register(_notes.write, Path(os.environ.get("BENCH_FOLDER", ".")), os.environ.get("BENCH_LABEL", ""))


@h.job("noop")
async def noop(ctx: Any, a: int = 0, b: str = "") -> None:
    """Nothing at all."""


@h.job("note_start")
async def note_start(ctx: Any, a: int = 0, b: str = "") -> None:
    """Notes when it began."""
    at = time.time()
    _notes.add(ctx.scheduled_for, at)


@h.job("brief")
async def brief(ctx: Any, a: int = 0, b: str = "") -> None:
    """Holds its slot for five milliseconds."""
    await asyncio.sleep(0.005)
