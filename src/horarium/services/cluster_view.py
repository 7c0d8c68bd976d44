"""What people see of the memory of all leaders of one database: here, and asked from peers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from uuid import UUID

from horarium import errors
from horarium.domain import ids
from horarium.protocol import peer_messages as wire
from horarium.services.live_view import LeaderView
from horarium.services.peers import Peer
from horarium.services.routes import Routes
from horarium.services.views import QueueState, QueueStates


class ClusterView:
    """Reads the memory of all leaders of one database, the one at `place`: here, and from peers, bounded by a second."""

    def __init__(self, routes: Routes, place: int) -> None:
        self._routes = routes
        self._place = place
        self._here = LeaderView(routes.planes[place].leader)

    async def queues(self) -> QueueStates:
        """Every queue of every tenant that has live runs; not exact where a leader did not answer."""
        here = await self._here.queues()
        if self._routes.alone:
            return here
        answers = await asyncio.gather(*(self._ask(peer) for peer in self._routes.leading_peers()))
        far = [QueueState(*_members(depth)) for answer in answers if answer for depth in answer.depths]
        return QueueStates(merged([*here.states, *far]), exact=None not in answers)

    async def progress(self, run_id: UUID) -> str | None:
        """The progress that a running run last reported, as JSON text; None also when its leader does not answer."""
        leader = self._routes.leader_of(ids.shard_of(run_id))
        if not isinstance(leader, Peer):
            return await self._here.progress(run_id)
        try:
            return (await leader.view(wire.ViewRequest(self._place, run_id))).progress
        except errors.UnreachableError:
            return None

    async def _ask(self, peer: Peer) -> wire.View | None:
        try:
            return await peer.view(wire.ViewRequest(self._place))
        except errors.UnreachableError:
            return None


def merged(states: Iterable[QueueState]) -> list[QueueState]:
    """One entry for each queue of a tenant, whose runs several leaders hold."""
    found: dict[tuple[str, str], QueueState] = {}
    for state in states:
        key = (state.name, state.tenant_id)
        before = found.get(key)
        found[key] = state if before is None else _together(before, state)
    return list(found.values())


def _together(one: QueueState, other: QueueState) -> QueueState:
    waits = [wait for wait in (one.oldest_due_s, other.oldest_due_s) if wait is not None]
    return QueueState(
        one.name,
        one.tenant_id,
        one.scheduled + other.scheduled,
        one.queued + other.queued,
        one.running + other.running,
        max(waits, default=None),
    )


def _members(depth: wire.Depth) -> tuple[str, str, int, int, int, float | None]:
    return (depth.name, depth.tenant_id, depth.scheduled, depth.queued, depth.running, depth.oldest_due_s)
