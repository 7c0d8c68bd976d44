"""A worker process: asks a node, carries out, beats, reports until it is answered; and does none of it when it is frozen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec

from horarium import errors
from horarium.domain import roles
from horarium.domain.job import Actor
from horarium.protocol import messages
from tests.simulation.chance import Chance
from tests.simulation.loop import Process
from tests.simulation.network import Network, NoAnswer
from tests.simulation.nodes import SimulatedNode, Tell

TENANT = "default"
ACTOR = Actor(TENANT, "worker", roles.Role.WORKER)
WAIT_S = 3.0
TRIES = 40


@dataclass(frozen=True)
class Execution:
    """That an attempt was begun, for the verdict."""

    run_id: UUID
    token: int
    attempt: int
    worker: str


@dataclass(frozen=True)
class Acknowledged:
    """What a node answered to a report: it counted, or it came too late."""

    run_id: UUID
    token: int
    attempt: int
    outcome: str
    accepted: bool


@dataclass
class Manners:
    """How handlers behave."""

    troubled: bool = True
    longest_s: float = 3.0


class SimulatedWorker:
    """One worker process on a machine that starts it again."""

    def __init__(
        self, name: str, nodes: Sequence[SimulatedNode], network: Network, chance: Chance, manners: Manners, tell: Tell
    ) -> None:
        self.name = name
        self._nodes = nodes
        self._network = network
        self._chance = chance
        self._manners = manners
        self._tell = tell
        self._boots = 0
        self.slots = chance.integer(1, 8)
        self.process = Process(name)
        self.past: list[Process] = []
        self.executions: list[Execution] = []
        self.answers: list[Acknowledged] = []
        self.lease_s = 15.0

    def boot(self) -> None:
        """Start: a new process that holds nothing."""
        self._boots += 1
        self.past.append(self.process)
        self.process = Process(self.name)
        self.info = messages.WorkerInfo(f"{self.name}.{self._boots}")
        self._held: dict[UUID, messages.Lease] = {}
        self._tasks: dict[UUID, asyncio.Task[Any]] = {}
        self._node = self._chance.one_of(self._nodes)
        for work in (self._ask_for_ever(), self._beat_for_ever()):
            self.process.spawn(work)

    def crash(self) -> None:
        self._tell(self.name, "crashes")
        self.process.kill()

    @property
    def holds(self) -> int:
        return len(self._held)

    async def _ask_for_ever(self) -> None:
        while True:
            free = self.slots - len(self._held)
            if free <= 0:
                await asyncio.sleep(0.05)
                continue
            request = messages.LeaseRequest(self.info, [messages.QueueWeight("default")], free, WAIT_S)
            answer = await self._call("lease", request, WAIT_S + 2)
            if answer is None:
                await asyncio.sleep(0.2)
                continue
            response = messages.lease_responses.decode(answer)
            for lease in response.leases:
                self._take(lease)
            if response.drain:
                self._node = self._chance.one_of(self._nodes)

    def _take(self, lease: messages.Lease) -> None:
        run_id = UUID(lease.run_id)
        if self._manners.troubled and self._chance.happens(0.01):
            self._tell(self.name, f"forgets {run_id}")
            return
        held = self._held.get(run_id)
        if held is not None and held.fencing_token >= lease.fencing_token:
            return
        self.lease_s = lease.lease_s
        self._held[run_id] = lease
        if (former := self._tasks.pop(run_id, None)) is not None:
            former.cancel()
        self._tasks[run_id] = asyncio.get_running_loop().create_task(self._carry_out(run_id, lease))

    async def _carry_out(self, run_id: UUID, lease: messages.Lease) -> None:
        await asyncio.sleep(lease.start_in_s)
        self.executions.append(Execution(run_id, lease.fencing_token, lease.attempt, self.info.id))
        await asyncio.sleep(self._duration())
        result = self._result(run_id, lease)
        await self._report(run_id, lease, result)
        if self._held.get(run_id) is lease:
            del self._held[run_id]
            self._tasks.pop(run_id, None)

    def _duration(self) -> float:
        if self._manners.troubled and self._chance.happens(0.02):
            return self._chance.between(5, 30)
        return self._chance.between(0.005, self._manners.longest_s) ** 2 / self._manners.longest_s

    def _result(self, run_id: UUID, lease: messages.Lease) -> messages.Result:
        text, token = str(run_id), lease.fencing_token
        fate = self._chance.between(0, 1) if self._manners.troubled else 0.0
        if fate < 0.5:
            return messages.Result(text, token, "succeeded")
        if fate < 0.75:
            return messages.Result(text, token, "succeeded", result=msgspec.Raw(b'{"ok": true}'))
        if fate < 0.88:
            error = messages.ErrorInfo("ValueError", "no luck")
            retry_in_s = self._chance.between(0, 2) if self._chance.happens(0.3) else None
            return messages.Result(text, token, "failed", error=error, retry_in_s=retry_in_s)
        if fate < 0.92:
            return messages.Result(text, token, "discard", error=messages.ErrorInfo("Discard", "no such user"))
        if fate < 0.96:
            return messages.Result(text, token, "snooze", retry_in_s=self._chance.between(0, 2))
        return messages.Result(text, token, "interrupted")

    async def _report(self, run_id: UUID, lease: messages.Lease, result: messages.Result) -> None:
        """Until it is answered, to whichever node answers."""
        request = messages.ReportRequest(self.info, [result])
        for _ in range(TRIES):
            answer = await self._call("report", request, 3.0)
            if answer is not None:
                said = messages.report_responses.decode(answer)
                if said.accepted or said.lost:
                    self._note(run_id, lease, result, accepted=bool(said.accepted))
                    return
            await asyncio.sleep(self._chance.between(0.1, 0.5))

    def _note(self, run_id: UUID, lease: messages.Lease, result: messages.Result, *, accepted: bool) -> None:
        self.answers.append(Acknowledged(run_id, lease.fencing_token, lease.attempt, result.outcome, accepted))
        word = "accepted" if accepted else "refused"
        self._tell(self.name, f"{word}: {result.outcome} of {run_id} under {lease.fencing_token}")

    async def _beat_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self.lease_s / 3)
            held = [messages.HeldRun(str(run_id), lease.fencing_token) for run_id, lease in self._held.items()]
            answer = await self._call("heartbeat", messages.HeartbeatRequest(self.info, held), 2.0)
            if answer is not None:
                heard = messages.heartbeat_responses.decode(answer)
                tokens = {UUID(run.run_id): run.fencing_token for run in held}
                self._give_up([run_id for text in heard.lost if (run_id := UUID(text)) in tokens], tokens)
                self._stop([UUID(text) for text in heard.cancel])

    def _give_up(self, lost: Sequence[UUID], tokens: dict[UUID, int]) -> None:
        for run_id in lost:
            lease = self._held.get(run_id)
            if lease is None or lease.fencing_token != tokens[run_id]:
                continue
            self._tell(self.name, f"has lost {run_id}")
            if self._manners.troubled and self._chance.happens(0.2):
                continue  # one that does not listen, and reports all the same
            del self._held[run_id]
            if (task := self._tasks.pop(run_id, None)) is not None:
                task.cancel()

    def _stop(self, cancelled: Sequence[UUID]) -> None:
        for run_id in cancelled:
            lease, task = self._held.get(run_id), self._tasks.get(run_id)
            if lease is None or task is None or (self._manners.troubled and self._chance.happens(0.3)):
                continue
            task.cancel()
            result = messages.Result(str(run_id), lease.fencing_token, "interrupted")
            self._tasks[run_id] = asyncio.get_running_loop().create_task(self._end(run_id, lease, result))

    async def _end(self, run_id: UUID, lease: messages.Lease, result: messages.Result) -> None:
        await self._report(run_id, lease, result)
        if self._held.get(run_id) is lease:
            del self._held[run_id]
            self._tasks.pop(run_id, None)

    async def _call(self, verb: str, request: Any, patience_s: float) -> bytes | None:
        """The answer of the node that answered last; None for everything that a worker repeats, then to another one."""
        node = self._node
        answer = await self._ask(node, verb, request, patience_s)
        if answer is None and self._node is node:
            self._node = self._chance.one_of(self._nodes)
        return answer

    async def _ask(self, node: SimulatedNode, verb: str, request: Any, patience_s: float) -> bytes | None:
        calls = node.calls
        if calls is None:
            await asyncio.sleep(0.05)
            return None
        call: Callable[..., Any] = getattr(calls, verb)
        body = messages.encode(request)
        with suppress(NoAnswer, errors.UnavailableError):
            answer: bytes = await self._network.call(self.name, node.process, lambda: call(ACTOR, body), patience_s)
            return answer
        return None
