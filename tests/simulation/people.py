"""People who define jobs, edit, pause, resume and delete them, run them by hand and cancel runs; through any node."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from horarium import errors
from horarium.domain import job, roles
from horarium.domain.misfire import Misfire
from horarium.domain.overlap import Overlap
from horarium.domain.retry import RetryPolicy
from tests.simulation.chance import Chance
from tests.simulation.model.server import Server
from tests.simulation.network import Network, NoAnswer
from tests.simulation.nodes import SimulatedNode, Tell
from tests.simulation.workers import TENANT

ACTOR = job.Actor(TENANT, "ana", roles.Role.ADMIN)
PATIENCE_S = 5.0
SCHEDULES = ("* * * * * *", "*/2 * * * * *", "*/3 * * * * *", "1,4,5,20 * * * * *", "*/10 * * * * *")


@dataclass
class Promised:
    """What people were told had been done."""

    created: list[UUID] = field(default_factory=list)
    made: list[UUID] = field(default_factory=list)
    deleted: list[UUID] = field(default_factory=list)
    cancelled: list[UUID] = field(default_factory=list)


class People:
    """Everybody who is not a machine."""

    def __init__(
        self, nodes: Sequence[SimulatedNode], network: Network, server: Server, chance: Chance, tell: Tell
    ) -> None:
        self._nodes = nodes
        self._network = network
        self._server = server
        self._chance = chance
        self._tell = tell
        self.promised = Promised()

    async def define(self, number: int) -> None:
        """Create some jobs, alone or in a batch."""
        made = 0
        while made < number:
            count = self._chance.one_of((1, 1, 1, 3, 12))
            specs = [self.a_job() for _ in range(min(count, number - made))]
            made += len(specs)
            if len(specs) > 1:
                answer = await self._ask("create_many", lambda node, s=specs: node.catalog.create_many(ACTOR, s))
                self.promised.created += [each.id for each in answer or () if isinstance(each, job.Job)]
            else:
                answer = await self._ask("create", lambda node, s=specs[0]: node.catalog.create(ACTOR, s))
                self.promised.created += [answer.id] if answer else []

    def a_job(self) -> job.JobSpec:
        """A job of any kind."""
        chance = self._chance
        spec = job.JobSpec(
            {"handler": "work"},
            name=f"job-{chance.bits(40):x}",
            jitter_s=chance.one_of((0, 0, 0, 1, 3)),
            misfire=chance.one_of([*Misfire]),
            misfire_grace_s=chance.one_of((0, 2, 5, 60)),
            max_catch_up=chance.one_of((1, 5, 100)),
            overlap=chance.one_of([Overlap.ALLOW, Overlap.ALLOW, Overlap.ALLOW, *Overlap]),
            priority=chance.integer(0, 9),
            timeout_s=chance.one_of((2, 10, 300)),
            retry=RetryPolicy(max_attempts=chance.one_of((1, 2, 4)), base_s=0.5, max_s=2),
        )
        timing = self._timing()
        nameless = {"name": None} if "run_at" in timing and chance.happens(0.5) else {}
        return dataclasses.replace(spec, **timing, **nameless)

    def _timing(self) -> dict[str, Any]:
        chance, now = self._chance, self._server.now()
        kind = chance.one_of(("cron", "cron", "interval", "interval", "once"))
        if kind == "cron":
            bounds: dict[str, Any] = {}
            if chance.happens(0.2):
                bounds["end_at"] = now + timedelta(seconds=chance.integer(5, 40))
            if chance.happens(0.1):
                bounds["start_at"] = now + timedelta(seconds=chance.integer(1, 4))
            return {"schedule": chance.one_of(SCHEDULES), **bounds}
        if kind == "interval":
            return {"interval_s": chance.integer(1, 7)}
        return {"run_at": now + timedelta(seconds=chance.between(-1, 20))}

    async def meddle(self, until: float, pause_s: float) -> None:
        """Do something now and then."""
        loop = asyncio.get_running_loop()
        deeds: list[Callable[[], Awaitable[None]]] = [
            self._edit, self._edit, self._pause, self._resume, self._resume, self._delete, self._run_now, self._run_now,
            self._cancel, self._cancel, self._rerun, lambda: self.define(1),
        ]  # fmt: skip
        harmless = [self._run_now, self._cancel, self._rerun, lambda: self.define(1)]
        while loop.time() < until:
            await asyncio.sleep(self._chance.between(0, 2 * pause_s))
            # While the clock is behind where it has been, ticks ahead are accounted for already, and the books cannot tell of
            # a change which of them it owes: then people only do what leaves schedules alone.
            await self._chance.one_of(deeds if self._server.is_in_time else harmless)()

    async def resume_all(self) -> None:
        """End every pause."""
        for row in list(self._server.tables["jobs"].values()):
            if row["status"] == "paused":
                await self._ask("resume", lambda node, i=row["id"]: node.catalog.resume(ACTOR, i))

    def _some_job(self) -> UUID | None:
        rows = [row["id"] for row in self._server.tables["jobs"].values() if row["deleted_at"] is None]
        return self._chance.one_of(rows) if rows else None

    async def _edit(self) -> None:
        if (which := self._some_job()) is None:
            return
        now = self._server.now()
        patch = self._chance.one_of(
            (
                {"schedule": self._chance.one_of(SCHEDULES), "interval_s": None, "run_at": None},
                {"interval_s": self._chance.integer(1, 7), "schedule": None, "run_at": None},
                {
                    "run_at": _at_a_tick(now + timedelta(seconds=self._chance.integer(-5, 5))),
                    "schedule": None,
                    "interval_s": None,
                },
                {"jitter_s": self._chance.integer(0, 2)},
                {"overlap": str(self._chance.one_of([*Overlap]))},
                {"priority": self._chance.integer(0, 9)},
                {"end_at": (now + timedelta(seconds=5)).isoformat()},
                {"payload": {"n": self._chance.integer(0, 9)}},
            )
        )
        await self._ask(f"patch {which} {patch}", lambda node: node.catalog.patch(ACTOR, which, patch))

    async def _pause(self) -> None:
        if (which := self._some_job()) is not None:
            until = self._server.now() + timedelta(seconds=4) if self._chance.happens(0.3) else None
            await self._ask(f"pause {which}", lambda node: node.catalog.pause(ACTOR, which, None, until))

    async def _resume(self) -> None:
        rows = [row["id"] for row in self._server.tables["jobs"].values() if row["status"] == "paused"]
        if rows:
            which, how = self._chance.one_of(rows), self._chance.one_of((None, "skip", "run_once", "run_all"))
            await self._ask(f"resume {which} {how}", lambda node: node.catalog.resume(ACTOR, which, how))

    async def _delete(self) -> None:
        which = self._some_job() if self._chance.happens(0.4) else None
        if which is not None:
            done = await self._ask(f"delete {which}", lambda node: _done(node.catalog.delete(ACTOR, which)))
            self.promised.deleted += [which] if done else []

    async def _run_now(self) -> None:
        if (which := self._some_job()) is not None:
            made = await self._ask(f"run {which}", lambda node: node.manual.run_now(ACTOR, which))
            self.promised.made += [made] if made else []

    async def _cancel(self) -> None:
        live = [*self._server.tables["runs"]]
        if live:
            which = self._chance.one_of(live)
            done = await self._ask(f"cancel {which}", lambda node: _done(node.canceller.cancel(ACTOR, which)))
            self.promised.cancelled += [which] if done else []

    async def _rerun(self) -> None:
        ended = [*self._server.ended]
        if ended:
            which = self._chance.one_of(ended)
            made = await self._ask(f"rerun {which}", lambda node: node.manual.rerun(ACTOR, which))
            self.promised.made += [made] if made else []

    async def _ask(self, what: str, call: Callable[[Any], Awaitable[Any]]) -> Any:
        """The answer of some node; None when there was none, or a refusal."""
        node = self._chance.one_of(self._nodes)
        if not node.is_serving:
            await asyncio.sleep(0.1)
            return None

        async def served() -> Any:
            if not node.is_serving:
                raise errors.UnavailableError(f"{node.name} is going away")
            return await call(node)

        try:
            answer = await self._network.call("people", node.process, served, PATIENCE_S)
        except (NoAnswer, errors.HorariumError) as error:
            self._tell("people", f"{what} at {node.name}: {type(error).__name__} {error}")
            return None
        self._tell("people", f"{what} at {node.name}: done")
        return answer


async def _done(work: Awaitable[Any]) -> bool:
    await work
    return True


def _at_a_tick(instant: datetime) -> str:
    """On the whole second, where the ticks of cron expressions are: a new time may be one that has had its run."""
    return instant.replace(microsecond=0).isoformat()
