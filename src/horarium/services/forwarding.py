"""Heartbeats and reports on their way to the leaders of the runs they are about; the run's id tells its shard.

What this node leads is dealt with here. The rest goes to its leaders, and the answers are put together. A leader that cannot be
asked leaves its runs in doubt in a heartbeat's answer (neither lost nor extended); results are then written here, since a report
counts by (id, token) whoever writes it. A result that nobody can place now is left out of the answer, and its worker repeats it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from horarium import errors
from horarium.domain import ids
from horarium.domain.job import Actor
from horarium.protocol import messages
from horarium.protocol import peer_messages as wire
from horarium.services.peers import Peer
from horarium.services.routes import Routes
from horarium.store import runs

HEARD_FOR_S = 60.0

Run = TypeVar("Run", messages.HeldRun, messages.Result)


class Attendant(Protocol):
    """What one control plane does with workers' messages. `gateway.worker_calls` is it."""

    async def hear(self, actor: Actor, request: messages.HeartbeatRequest) -> messages.HeartbeatResponse:
        """Take in a heartbeat."""

    async def take_in(self, actor: Actor, request: messages.ReportRequest) -> messages.ReportResponse:
        """Take in results. UnavailableError when they cannot be made durable now."""


class Forwarding:
    """Splits messages by leader. `here` has an attendant for each plane of this node."""

    def __init__(self, routes: Routes, here: Sequence[Attendant]) -> None:
        self._routes = routes
        self._here = here
        self._asked: dict[str, dict[str, float]] = {}

    @property
    def is_needed(self) -> bool:
        """Whether anything may have to go elsewhere at all."""
        return not self._routes.alone

    def asked_for(self, worker_id: str, peer: Peer) -> None:
        """A peer was asked for runs for this worker: it hears the worker's heartbeats, in case its answer was lost."""
        now = asyncio.get_running_loop().time()
        self._asked.setdefault(worker_id, {})[peer.id] = now + HEARD_FOR_S
        if len(self._asked) > 10_000:
            self._asked = {
                worker: peers for worker, peers in self._asked.items() if any(until > now for until in peers.values())
            }

    async def hear(self, actor: Actor, request: messages.HeartbeatRequest) -> messages.HeartbeatResponse:
        """A heartbeat, heard by the leaders of all runs that it lists."""
        parts = _split(self._routes, request.runs)
        calls = [
            attendant.hear(actor, messages.HeartbeatRequest(request.worker, parts.pop(place, [])))
            for place, attendant in enumerate(self._here)
        ]
        unled = parts.pop(None, [])
        for peer in self._also_asked(request.worker.id):
            parts.setdefault(peer, [])
        calls += [
            self._hear_far(peer, actor, messages.HeartbeatRequest(request.worker, held))
            for peer, held in parts.items()
            if isinstance(peer, Peer)
        ]
        answers = await asyncio.gather(*calls)
        return messages.HeartbeatResponse(
            min(answer.lease_s for answer in answers),
            [run_id for answer in answers for run_id in answer.lost],
            [run_id for answer in answers for run_id in answer.cancel],
            [*(run.run_id for run in unled), *(run_id for answer in answers for run_id in answer.unsure)],
        )

    async def take_in(self, actor: Actor, request: messages.ReportRequest) -> messages.ReportResponse:
        """Results, each taken in by the leader of its run. UnavailableError when none could be placed."""
        answers = await self._place(actor, request.worker, request.results, again=True)
        accepted = [run_id for answer in answers for run_id in answer.accepted]
        lost = [run_id for answer in answers for run_id in answer.lost]
        if request.results and not accepted and not lost:
            raise errors.UnavailableError("who leads these runs cannot be asked right now: report again")
        return messages.ReportResponse(accepted, lost)

    async def _place(
        self, actor: Actor, worker: messages.WorkerInfo, results: Iterable[messages.Result], *, again: bool
    ) -> list[messages.ReportResponse]:
        parts = _split(self._routes, results)
        unled = parts.pop(None, [])
        calls = [
            self._take_in_far(target, actor, messages.ReportRequest(worker, part), again=again)
            if isinstance(target, Peer)
            else self._take_in_here(target or 0, actor, messages.ReportRequest(worker, part))
            for target, part in parts.items()
        ]
        if unled and again:
            calls.append(self._place_again(actor, worker, unled))
        return [answer for found in await asyncio.gather(*calls) for answer in found]

    async def _place_again(
        self, actor: Actor, worker: messages.WorkerInfo, results: Iterable[messages.Result]
    ) -> list[messages.ReportResponse]:
        await self._routes.read_again()
        return await self._place(actor, worker, results, again=False)

    async def _take_in_here(
        self, place: int, actor: Actor, request: messages.ReportRequest
    ) -> list[messages.ReportResponse]:
        try:
            return [await self._here[place].take_in(actor, request)]
        except errors.UnavailableError:
            return []

    async def _take_in_far(
        self, peer: Peer, actor: Actor, request: messages.ReportRequest, *, again: bool
    ) -> list[messages.ReportResponse]:
        try:
            found = await peer.report(actor.tenant_id, request)
        except errors.UnreachableError:
            return await self._write_here(actor, request)
        moved = [result for result in request.results if shard_of(result.run_id) in set(found.not_led)]
        if moved and again:
            return [*found.answers, *await self._place_again(actor, request.worker, moved)]
        return found.answers

    async def _write_here(self, actor: Actor, request: messages.ReportRequest) -> list[messages.ReportResponse]:
        """The leader cannot be asked: rows are the truth, and a result is written to them under its token."""
        parts: dict[int, list[messages.Result]] = {}
        for result in request.results:
            parts.setdefault(self._routes.place_of(shard_of(result.run_id)), []).append(result)
        calls = [
            self._take_in_here(place, actor, messages.ReportRequest(request.worker, part))
            for place, part in parts.items()
        ]
        return [answer for found in await asyncio.gather(*calls) for answer in found]

    async def _hear_far(
        self, peer: Peer, actor: Actor, request: messages.HeartbeatRequest
    ) -> messages.HeartbeatResponse:
        try:
            answer: messages.HeartbeatResponse = await peer.heartbeat.add(wire.Heartbeat(actor.tenant_id, request))
        except errors.UnreachableError:
            return messages.HeartbeatResponse(float("inf"), unsure=[run.run_id for run in request.runs])
        return answer

    def _also_asked(self, worker_id: str) -> list[Peer]:
        """The peers that were asked for runs for a worker not long ago."""
        now = asyncio.get_running_loop().time()
        asked = {peer: until for peer, until in self._asked.get(worker_id, {}).items() if until > now}
        if asked:
            self._asked[worker_id] = asked
        else:
            self._asked.pop(worker_id, None)
        return [peer for node_id in asked if (peer := self._routes.peers.get(node_id)) is not None]


def shard_of(run_id: str) -> int:
    """The shard in a run's id as a worker wrote it; InvalidError when it is no id."""
    try:
        return ids.shard_of(runs.uuid_of(run_id))
    except ValueError as error:
        raise errors.InvalidError(
            [errors.Fault("/run_id", f"{run_id[:60]!r} is no run id", "malformed_message")]
        ) from error


def _split(routes: Routes, listed: Iterable[Run]) -> dict[int | Peer | None, list[Run]]:
    """Runs by who leads them."""
    leaders: dict[int, int | Peer | None] = {}
    parts: dict[int | Peer | None, list[Run]] = {}
    for run in listed:
        shard = shard_of(run.run_id)
        if shard not in leaders:
            leaders[shard] = routes.leader_of(shard)
        parts.setdefault(leaders[shard], []).append(run)
    return parts
