"""Pokes on their way to the leaders of the shards that they are about: to this node's own planes, or to peers.

Sent and forgotten by whoever made the change. One that finds no leader, or one that cannot be reached or leads no more, is kept:
the rows are read again and it is sent again, until the next sweep finds the change anyhow. So it is while a shard is handed over:
nobody leads it for a moment, and the next one may have loaded it before this change. A poke that is lost for good costs the time
to the sweep, never the change: rows are the truth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import datetime
from uuid import UUID

from horarium import errors
from horarium.domain import ids
from horarium.protocol import peer_messages as wire
from horarium.services.peers import Peer, quietly
from horarium.services.pokes import Pokes
from horarium.services.routes import Routes
from horarium.store.runs import RunRow

KEPT_S = 30.0  # as long as from sweep to sweep
AGAIN_EVERY_S = 0.25


class RoutedPokes:
    """Tells each leader what it wants to hear. Calls return at once and never raise."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._sending: set[asyncio.Task[None]] = set()
        self._unplaced: list[tuple[float, wire.Pokes]] = []
        self._placing: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()

    def timers_changed(self, changes: Sequence[tuple[int, datetime]]) -> None:
        self._tell(wire.Pokes(timers=list(changes)))

    def runs_added(self, rows: Sequence[RunRow]) -> None:
        parts: dict[int | Peer | None, list[RunRow]] = {}
        for row in rows:
            parts.setdefault(self._routes.leader_of(row.shard), []).append(row)
        for target, part in parts.items():
            if isinstance(target, int):  # mostly: nothing is packed for a way that it does not go
                self._routes.planes[target].leader.runs_added(part)
            else:
                self._tell(wire.Pokes(added=[wire.MadeRun(*row[:11]) for row in part]))

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
        """Wait for the pokes that are on their way, and those that are kept."""
        while self._sending or self._placing:
            await asyncio.gather(*self._sending, *filter(None, [self._placing]), return_exceptions=True)

    async def stop(self) -> None:
        """Wait for what is being sent; nothing is sent again from now on."""
        self._stopped.set()
        await self.settle()

    def _tell(self, pokes: wire.Pokes, until: float | None = None) -> None:
        for target, part in split(pokes, self._routes.leader_of).items():
            if target is None:
                self._keep(part, until)
            elif isinstance(target, Peer):
                self._hold(self._send(target, part, until))
            else:
                repeat(part, self._routes.planes[target].leader)

    async def _send(self, peer: Peer, pokes: wire.Pokes, until: float | None) -> None:
        try:
            answer = await peer.poke(pokes)
        except errors.UnreachableError:
            self._keep(pokes, until)
            return
        left = set(answer.not_led)
        unplaced = split(pokes, lambda shard: 0 if shard in left else None).get(0)
        if unplaced is not None:
            self._keep(unplaced, until)

    def _keep(self, pokes: wire.Pokes, until: float | None) -> None:
        """Have it sent again until a moment of the loop's clock; at first KEPT_S from now."""
        loop = asyncio.get_running_loop()
        self._unplaced.append((loop.time() + KEPT_S if until is None else until, pokes))
        if self._placing is None:
            self._placing = loop.create_task(self._place(), name="place pokes")

    async def _place(self) -> None:
        """Read the rows, and send what is kept to whoever leads its shards now."""
        try:
            while self._unplaced and not self._stopped.is_set():
                await self._routes.read_again()
                self._tell_again()
                with suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_EVERY_S):
                        await self._stopped.wait()
        finally:
            self._placing = None

    def _tell_again(self) -> None:
        now = asyncio.get_running_loop().time()
        kept, self._unplaced = self._unplaced, []
        for until, pokes in kept:
            if until > now:
                self._tell(pokes, until)

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
