"""The handlers and schedules of a small shop.

cd examples && horarium worker app.jobs:h --queues emails=3,default=1 --slots 20 --reload
"""

from __future__ import annotations

import asyncio
import hashlib
import logging

from horarium import Context, Discard, Horarium, Retry, Snooze

h = Horarium(app="shop")  # address and key: HORARIUM_URL and HORARIUM_API_KEY, or the profile of `horarium dev`


@h.job("email.welcome", queue="emails", retry=Retry(5, base="10s"), timeout="2m")
async def welcome(ctx: Context, user_id: int, language: str = "en") -> str:
    """An asynchronous handler. What it returns is kept with the run."""
    if user_id <= 0:
        raise Discard(f"there is no user {user_id}")  # a dead letter at once: trying again would not help
    await ctx.progress(0.5, "rendering")
    ctx.log("sent", user_id=user_id, language=language)  # kept with the run, seen in `horarium runs logs`
    return f"welcome-{user_id}-{language}"


@h.job("payment.collect", queue="billing", priority=8)
async def collect(ctx: Context, order: str, cents: int) -> None:
    """`run_id` is the same in every attempt: the payment provider takes it as idempotency key, and charges once."""
    await charge(order, cents, idempotency_key=ctx.run_id)


@h.job("payment.poll")
async def poll(ctx: Context, order: str) -> str:
    """Signals say how the run goes on."""
    state = await state_of(order)
    if state == "pending":
        raise Snooze("30s")  # later; uses no attempt
    if state == "busy":
        raise Retry("the provider is busy", in_="5m")  # a further attempt, at that time
    return state


@h.cron("30 2 * * *", tz="Asia/Kolkata", misfire="run_once", overlap="skip", jitter="60s")
@h.job("billing.nightly", timeout="1h")
def nightly(ctx: Context) -> int:
    """A plain function runs in a thread. It cannot be cancelled, so it looks whether it should stop."""
    closed = 0
    for day in range(1, 31):
        if ctx.cancelled:
            break
        ctx.progress(day / 30, f"day {day}")
        closed += 1
    ctx.logger.log(logging.INFO, "%d days closed", closed)
    return closed


@h.every("15m", arguments={"size": 10_000})
@h.job("report.checksum", process=True, timeout="10m")
def checksum(ctx: Context, size: int) -> str:
    """Heavy work has a process of its own, which is killed when it does not stop."""
    return hashlib.sha256(b"x" * size).hexdigest()[:16]


async def charge(order: str, cents: int, idempotency_key: str) -> None:
    """Stands for the payment provider."""
    await asyncio.sleep(0)


async def state_of(order: str) -> str:
    """Stands for the payment provider."""
    await asyncio.sleep(0)
    return {"o-1": "paid", "o-2": "pending"}.get(order, "busy")
