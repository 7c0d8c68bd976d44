"""Lives that are audited: real duties, real time, people who change everything, and a leader that dies; the books balance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

from horarium import errors
from horarium.domain import job, job_parsing
from horarium.domain.outcome import Outcome
from horarium.events import Name
from horarium.services.auditor import audit
from horarium.services.catalog import Catalog, CatchUp
from tests.lives.planes import Attempt, RunningNode, Worker, node

WHO = job.Actor("default", "ada", "editor")
EACH_SECOND = {"schedule": "* * * * * *"}
KINDS: Mapping[str, dict[str, Any]] = {
    "plain": EACH_SECOND,
    "jittered": {**EACH_SECOND, "jitter_s": 1},
    "interval": {"interval_s": 1},
    "choosy": {**EACH_SECOND, "overlap": "skip", "payload": {"slow": True}},
    "one at a time": {**EACH_SECOND, "overlap": "queue_one", "payload": {"slow": True}},
    "zoned": {"schedule": "*/2 * * * * *", "timezone": "Asia/Kolkata"},
    "strict": {**EACH_SECOND, "misfire": "skip", "misfire_grace_s": 0},
}


class People:
    """Somebody who changes jobs while they run."""

    def __init__(self, here: RunningNode) -> None:
        self._here = here
        self.catalog = Catalog(here.database, here.plane.clock, here.plane.leader, 16)
        self.made: dict[str, job.Job] = {}

    async def create(self) -> None:
        """A job of each kind, and a one-off in two seconds."""
        now = self._here.plane.clock.now()
        soon = {"run_at": (now + timedelta(seconds=2)).isoformat()}
        for name, members in {**KINDS, "once": soon}.items():
            body = {"target": {"handler": "work"}, "name": name, **members}
            self.made[name] = await self.catalog.create(WHO, job_parsing.parse(body, now=now))

    async def meddle(self, number: int) -> None:
        """Pause, edit and resume, each job in another order."""
        for place, (name, each) in enumerate(self.made.items()):
            match (number + place) % 4:
                case 0:
                    with suppress(errors.ConflictError):  # the one-off may be finished
                        await self.catalog.pause(WHO, each.id)
                case 1 if name not in ("interval", "once"):
                    expression = f"*/{1 + number % 2} * * * * *"
                    await self.catalog.patch(WHO, each.id, {"schedule": expression})
                case 2:
                    amends = [CatchUp.SKIP, CatchUp.RUN_ONCE, CatchUp.RUN_ALL][number % 3]
                    with suppress(errors.ConflictError):
                        await self.catalog.resume(WHO, each.id, amends)


async def work(attempt: Attempt) -> Outcome:
    """Slow runs last until the next tick has come and found them running."""
    if attempt.lease["payload"].get("slow"):
        with suppress(TimeoutError):
            async with asyncio.timeout(1.2):
                await asyncio.Event().wait()
    return Outcome.SUCCEEDED


@asynccontextmanager
async def at_work(here: RunningNode) -> AsyncIterator[None]:
    """Three workers: one that waits for a slow run keeps the others from nothing."""
    async with AsyncExitStack() as stack:
        for number in range(3):
            await stack.enter_async_context(Worker(here.plane, work, f"w{number}").at_work())
        yield


async def clean(here: RunningNode, people: People) -> None:
    """Fail where an audit of everything finds something."""
    since = min(each.created_at for each in people.made.values()) - timedelta(hours=1)
    assert [f"{fault.kind}: {fault.text}" for fault in await audit(here.database, since)] == []


async def test_people_meddle_with_jobs_that_run(emptied_url: str) -> None:
    async with node(emptied_url) as here:
        people = People(here)
        await people.create()
        async with at_work(here):
            for number in range(6):
                await here.told.wait_for(Name.RUNS_FIRED, count=here.told.total(Name.RUNS_FIRED) + 5)
                await people.meddle(number)
                await clean(here, people)
        assert here.told.total(Name.TICKS_SKIPPED) > 0
        assert list(here.told.named(Name.DUTY_FAILED)) == []


async def test_a_leader_dies_and_another_one_goes_on(emptied_url: str) -> None:
    async with node(emptied_url) as first:
        people = People(first)
        await people.create()
        async with at_work(first):
            await first.told.wait_for(Name.RUNS_SUCCEEDED, count=8)
        await first.die()
    async with node(emptied_url, "node-2") as second, at_work(second):
        await second.told.wait_for(Name.RUNS_SUCCEEDED, count=12)
        await clean(second, people)
