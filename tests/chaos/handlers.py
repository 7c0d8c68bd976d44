"""Handlers that leave a line for each start and each end, in a file for each process: a worker may be killed at any time.

Times are of the system's monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from horarium import Horarium

h = Horarium(app="chaos")
_notes = os.open(
    Path(os.environ.get("CHAOS_FOLDER", ".")) / f"notes-{os.getpid()}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND
)


def note(what: str, ctx: Any) -> None:
    """One line, written at once: what, run, token, when."""
    os.write(_notes, f"{what} {ctx.run_id} {ctx.fencing_token} {time.monotonic():.4f}\n".encode())


@h.job("quick")
async def quick(ctx: Any) -> None:
    """Nothing, as most ticks."""
    note("start", ctx)
    note("end", ctx)


@h.job("slow")
async def slow(ctx: Any) -> None:
    """A few seconds: at work when something happens."""
    note("start", ctx)
    await asyncio.sleep(2 + ctx.fencing_token % 40 / 10)
    note("end", ctx)


@h.job("second-try")
async def second_try(ctx: Any) -> None:
    """Fails in its first attempt."""
    note("start", ctx)
    if ctx.attempt == 1:
        raise RuntimeError("not yet")
    note("end", ctx)
