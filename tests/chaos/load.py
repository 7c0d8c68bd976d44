"""The load: schedules of many kinds, one-offs, and somebody who edits and pauses. What was acknowledged is kept."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import UUID

from tests.chaos import world as worlds

TICK_S = 0.1
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe")
EXPRESSIONS = ("* * * * * *", "*/5 * * * * *", "*/10 * * * * *", "*/15 * * * * *", "* * * * *")
SHARES = (0.1, 0.25, 0.2, 0.2, 0.25)


def schedules(count: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    """The bodies of `count` scheduled jobs: each second to each minute, in several zones, quick and slow."""
    for number in range(count):
        (expression,) = chance.choices(EXPRESSIONS, SHARES)
        slow = expression not in EXPRESSIONS[:2] and chance.random() < 0.3
        body = {
            "name": f"schedule-{number}",
            "schedule": expression,
            "timezone": chance.choice(ZONES),
            "target": {"handler": "slow" if slow else "quick"},
        }
        if slow:
            body["overlap"] = chance.choice(["allow", "skip", "queue_one"])
        yield body


class Load:
    """Feeds one-offs at a rate and meddles with schedules, until it is stopped."""

    def __init__(self, world: worlds.World, rate: int, schedules: int, chance: random.Random) -> None:
        self._chance = chance
        self._rate = rate
        self._schedules = schedules
        self._caller = worlds.Caller(world, chance)
        self._over = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._names: list[str] = []
        self.acknowledged: set[UUID] = set()
        self.refused = 0
        self.changes = 0

    async def start(self) -> None:
        """Create the schedules, then begin."""
        bodies = list(schedules(self._schedules, self._chance))
        status, content = await self._caller.call("POST", "/v1/jobs:batch", bodies)
        assert (status, content["failed"]) == (200, 0), (status, content)
        self._names = [body["name"] for body in bodies]
        self._tasks = [asyncio.create_task(self._feed()), asyncio.create_task(self._meddle())]

    async def stop(self) -> None:
        """No more; what is under way is waited for."""
        self._over.set()
        await asyncio.gather(*self._tasks)
        await self._caller.close()

    async def _feed(self) -> None:
        each = max(1, round(self._rate * TICK_S))
        under_way: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        next_at = loop.time()
        while not self._over.is_set():
            task = asyncio.create_task(self._enqueue(each))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            next_at += TICK_S
            await self._pause(next_at - loop.time())
        await asyncio.gather(*under_way)

    async def _enqueue(self, count: int) -> None:
        handlers = self._chance.choices(["quick", "slow", "second-try"], [0.94, 0.05, 0.01], k=count)
        retry = {"base_s": 0.5, "max_attempts": 20}
        bodies = [{"run_at": "now", "target": {"handler": handler}, "retry": retry} for handler in handlers]
        status, content = await self._caller.call("POST", "/v1/jobs:batch", bodies)
        made = [item for item in content["items"] if item["status"] == 201] if status == 200 else []
        self.acknowledged |= {UUID(item["id"]) for item in made}
        self.refused += count - len(made)

    async def _meddle(self) -> None:
        """Somebody changes, pauses and resumes schedules, as people do whatever else happens."""
        chance = self._chance
        while not self._over.is_set():
            await self._pause(1.0)
            name = chance.choice(self._names)
            path = f"/v1/jobs/name:{name}"
            way = chance.choice(["edit", "pause", "resume", "run"])
            if way == "edit":
                status, _ = await self._caller.call("PATCH", path, {"schedule": chance.choice(EXPRESSIONS)})
            else:
                body = {"reason": "chaos"} if way == "pause" else {}
                status, _ = await self._caller.call("POST", f"{path}/{way}", body)
            self.changes += 200 <= status < 300

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._over.wait()
