"""Pokes on their way to the leaders of the shards that they are about: to this node's own planes, or to peers.

Sent and forgotten. One that meets a node which does not lead the shard any more is sent once more to the one that does. A poke
that is lost for good costs seconds, never the change: rows are the truth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from uuid import UUID

from horarium import errors
from horarium.domain import ids
from horarium.protocol import peer_messages as wire
from horarium.services.peers import Peer, quietly
from horarium.services.pokes import Pokes
from horarium.services.routes import Routes
from horarium.store.runs import RunRow


class RoutedPokes:
    """Tells each leader what it wants to hear. Calls return at once and never raise."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._sending: set[asyncio.Task[None]] = set()

    def timers_changed(self, changes: Sequence[tuple[int, datetime]]) -> None:
        self._tell(wire.Pokes(timers=list(changes)))

    def runs_added(self, rows: Sequence[RunRow]) -> None:
        self._tell(wire.Pokes(added=[wire.MadeRun(*row[:11]) for row in rows]))

    def runs_removed(self, ids: Sequence[UUID]) -> None:
        self._tell(wire.Pokes(removed=list(ids)))

    def cancel_requested(self, ids: Sequence[UUID]) -> None:
        self._tell(wire.Pokes(cancelling=list(ids)))

    def job_edited(self, job_id: UUID) -> None:
        self._tell(wire.Pokes(edited=[job_id]))

    def shards_freed(self) -> None:
        """This node gave shards up: whoever is to have them may take them now."""
        for peer in self._routes.peers:
            self._hold(quietly(peer.poke(wire.Pokes(freed=True))))

    async def settle(self) -> None:
        """Wait for the pokes that are on their way."""
        while self._sending:
            await asyncio.gather(*self._sending, return_exceptions=True)

    def _tell(self, pokes: wire.Pokes, *, again: bool = True) -> None:
        for target, part in split(pokes, self._routes.leader_of).items():
            if isinstance(target, Peer):
                self._hold(self._send(target, part, again=again))
            elif target is not None:
                repeat(part, self._routes.planes[target].leader)

    async def _send(self, peer: Peer, pokes: wire.Pokes, *, again: bool) -> None:
        try:
            answer = await peer.poke(pokes)
        except errors.UnreachableError:
            return
        left = set(answer.not_led)
        if again and left:
            await self._routes.read_again()
            unplaced = split(pokes, lambda shard: 0 if shard in left else None).get(0)
            if unplaced is not None:
                self._tell(unplaced, again=False)

    def _hold(self, call: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(call, name="poke")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)


def split(pokes: wire.Pokes, leader_of: Callable[[int], int | Peer | None]) -> dict[int | Peer | None, wire.Pokes]:
    """What concerns each leader."""
    parts: dict[int | Peer | None, wire.Pokes] = {}

    def part(shard: int) -> wire.Pokes:
        return parts.setdefault(leader_of(shard), wire.Pokes())

    for shard, due_at in pokes.timers:
        part(shard).timers.append((shard, due_at))
    for run in pokes.added:
        part(run.shard).added.append(run)
    for run_id in pokes.removed:
        part(ids.shard_of(run_id)).removed.append(run_id)
    for run_id in pokes.cancelling:
        part(ids.shard_of(run_id)).cancelling.append(run_id)
    for job_id in pokes.edited:
        part(ids.shard_of(job_id)).edited.append(job_id)
    return parts


def repeat(pokes: wire.Pokes, leader: Pokes) -> None:
    """Tell a leader of this process."""
    if pokes.removed:
        leader.runs_removed(pokes.removed)
    if pokes.timers:
        leader.timers_changed(pokes.timers)
    if pokes.added:
        leader.runs_added([_row(run) for run in pokes.added])
    if pokes.cancelling:
        leader.cancel_requested(pokes.cancelling)
    for job_id in pokes.edited:
        leader.job_edited(job_id)


def _row(run: wire.MadeRun) -> RunRow:
    return RunRow(
        run.id,
        run.job_id,
        run.shard,
        run.tenant_id,
        run.queue,
        run.target_key,
        run.priority,
        run.scheduled_for,
        run.ready_at,
        run.job_version,
        run.trigger,
    )
