"""Handlers for cluster tests. What they did is told through files in the test's folder: the worker may be killed at any time."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from horarium import Horarium

h = Horarium(app="cluster-tests")
FOLDER = Path(os.environ.get("CLUSTER_TEST_FOLDER", "."))


@h.job("tick")
async def tick(ctx: Any) -> None:
    """Nothing: the run's history says that it ran."""


@h.job("minute")
async def minute(ctx: Any) -> str:
    """Runs for a minute in its first attempt, at once in later ones; leaves a file for each start."""
    started = FOLDER / f"started-{ctx.attempt}"
    started.write_text(f"{ctx.run_id} {ctx.fencing_token} {os.getpid()}")
    if ctx.attempt == 1:
        await asyncio.Event().wait()
    return "done"


@h.job("until-told")
async def until_told(ctx: Any) -> str:
    """Runs in its first attempt until somebody writes to the pipe `finish`; leaves a file for each start."""
    (FOLDER / f"started-{ctx.attempt}").write_text(f"{ctx.run_id} {ctx.fencing_token} {os.getpid()}")
    if ctx.attempt == 1:
        await asyncio.to_thread((FOLDER / "finish").read_bytes)
    return f"attempt {ctx.attempt}"


@h.job("second-try")
async def second_try(ctx: Any) -> str:
    """Fails in its first attempt."""
    if ctx.attempt == 1:
        raise RuntimeError("not yet")
    return "done"


@h.job("say")
async def say(ctx: Any, word: str = "") -> str:
    """Gives its argument back."""
    return word
