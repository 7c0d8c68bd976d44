"""The jobs that `horarium dev` brings along: an application like any other, small enough to read in a minute.

`horarium worker horarium.cli.sample_jobs:h` runs them anywhere.
"""

from __future__ import annotations

import asyncio

from horarium import Context, Discard, Horarium, Retry

h = Horarium(app="samples")


@h.every("1s")
@h.job("sample.every_second")
async def every_second(ctx: Context) -> None:
    """The smallest job there is."""


@h.cron("* * * * *", overlap="skip")
@h.job("sample.every_minute", timeout="50s")
async def every_minute(ctx: Context, steps: int = 5) -> dict[str, int]:
    """Takes a moment, tells how far it is, says something and gives a result."""
    for step in range(1, steps + 1):
        ctx.log("step done", step=step)
        await ctx.progress(step / steps, f"step {step} of {steps}")
        await asyncio.sleep(0.2)
    return {"steps": steps}


@h.cron("*/2 * * * *")
@h.job("sample.flaky", retry=Retry(4, base="2s", backoff="fixed"))
async def flaky(ctx: Context) -> str:
    """Fails twice, then succeeds: look at its attempts."""
    if ctx.attempt < 3:
        raise ConnectionError(f"the other side hung up (attempt {ctx.attempt})")
    return f"succeeded at attempt {ctx.attempt}"


@h.cron("*/10 * * * *")
@h.job("sample.hopeless", retry=Retry(2, base="1s"))
async def hopeless(ctx: Context) -> None:
    """Can never succeed and says so: it goes to the dead letters at once."""
    raise Discard("there is no customer 42")
