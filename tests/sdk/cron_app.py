"""An application with schedules, a handler that waits, and a way to fail at import."""

from __future__ import annotations

import asyncio
import os

from horarium import Context, Horarium

if "HORARIUM_TEST_BROKEN" in os.environ:
    raise RuntimeError("broken on purpose")

h = Horarium()
other = Horarium(app="other")


@h.cron("0 2 * * *", tz="Asia/Kolkata", misfire="run_once", overlap="skip", jitter="60s", arguments={"kind": "full"})
@h.every("5m", name="billing.often")
@h.job("billing.run", queue="billing")
async def run(ctx: Context, kind: str = "quick") -> str:
    return kind


@h.job("wait")
async def wait(ctx: Context) -> None:
    await asyncio.Event().wait()


@h.job("pid")
def pid(ctx: Context) -> int:
    return os.getpid()
