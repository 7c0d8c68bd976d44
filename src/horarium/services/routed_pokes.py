"""Pokes on their way to the leaders of the shards that they are about: to this node's own planes, or to peers.

Sent and forgotten by whoever made the change. While nobody is known to lead the shard, or the node that does cannot be reached
or leads it no more, the rows are read again and the poke is sent again, for longer than a lease lasts: a shard that is handed
over has no leader for a moment, and the next one may have loaded it before this change. A poke that is lost for good costs the
time to the next sweep, never the change: rows are the truth.
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

# Seconds between attempts. Together they outlast a shard's lease: who takes a shard after that finds the change in the rows.
PAUSES_S = (0.0, 0.1, 0.4, 1.0, 1.5, 2.0)


class RoutedPokes:
    """Tells each leader what it wants to hear. Calls return at once and never raise."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._sending: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()

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

    async def stop(self) -> None:
        """Wait for what is being sent; nothing is sent again from now on."""
        self._stopped.set()
        await self.settle()

    def _tell(self, pokes: wire.Pokes, attempt: int = 0) -> None:
        for target, part in split(pokes, self._routes.leader_of).items():
            if target is None:
                self._hold(self._again(part, attempt))
            elif isinstance(target, Peer):
                self._hold(self._send(target, part, attempt))
            else:
                repeat(part, self._routes.planes[target].leader)

    async def _send(self, peer: Peer, pokes: wire.Pokes, attempt: int) -> None:
        try:
            answer = await peer.poke(pokes)
        except errors.UnreachableError:
            await self._again(pokes, attempt)
            return
        left = set(answer.not_led)
        unplaced = split(pokes, lambda shard: 0 if shard in left else None).get(0)
        if unplaced is not None:
            await self._again(unplaced, attempt)

    async def _again(self, pokes: wire.Pokes, attempt: int) -> None:
        """Read the rows after a pause, and send what did not get through to whoever leads its shards then."""
        if attempt == len(PAUSES_S):
            return
        try:
            async with asyncio.timeout(PAUSES_S[attempt]):
                await self._stopped.wait()
        except TimeoutError:
            await self._routes.read_again()
            self._tell(pokes, attempt + 1)

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
