"""A node among others: its control planes (one for each database), its peers, and what lies between them.

routes        which shard is led where                 every second, and when a peer says no
offers        what is queued here for others           after each hand-out
switchboard   who serves a worker's request            with each request
forwarding    heartbeats and reports to leaders        with each message
routed_pokes  what an API call changed, to leaders     with each change
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

from horarium import errors
from horarium.domain import ids
from horarium.services.cluster_view import ClusterView
from horarium.services.control_plane import ControlPlane
from horarium.services.forwarding import Attendant, Forwarding
from horarium.services.offers import OfferBoard
from horarium.services.peers import Caller, Peer, Peers, quietly
from horarium.services.routed_pokes import RoutedPokes
from horarium.services.routes import Routes
from horarium.services.switchboard import Switchboard

WANTED_FOR_S = 10.0
PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0


class Cluster:
    """Connects the planes of a node with each other and with peers. `secret` is what the nodes of a cluster know."""

    def __init__(self, own_id: str, secret: str, planes: Sequence[ControlPlane]) -> None:
        self.own_id = own_id
        self.peers = Peers(Caller(own_id, secret))
        self.routes = Routes(own_id, planes, self.peers)
        self.board = OfferBoard([plane.leader.ready.queued_depths for plane in planes])
        self.switchboard = Switchboard([plane.dispatcher for plane in planes], self.board, self.peers, self.give_back)
        self.pokes = RoutedPokes(self.routes)
        self.forwarding: Forwarding | None = None
        self._wanted_until: dict[str, float] = {}
        self._followers: dict[Peer, asyncio.Task[None]] = {}
        self._wanted_changed = asyncio.Event()
        for plane in planes:
            plane.dispatcher.give_back = self.give_back
            plane.owner.on_looked = self._looked
            plane.owner.on_freed = self.pokes.shards_freed
            if plane is not planes[0]:
                plane.dispatcher.share_waiters(planes[0].dispatcher)
        self.switchboard.on_wanted = self._wanted_changed.set

    def attend(self, here: Sequence[Attendant]) -> Forwarding:
        """What the planes do with workers' messages; returns the way for messages that may be for others."""
        self.forwarding = Forwarding(self.routes, here)
        self.switchboard.on_asked = self.forwarding.asked_for
        return self.forwarding

    def view(self, place: int) -> ClusterView:
        """What the leaders of one database know."""
        return ClusterView(self.routes, place)

    async def start(self, *, patient: bool = False) -> None:
        """Start the planes, and follow what peers offer. `patient`: see `ControlPlane.start`."""
        await asyncio.gather(*(plane.start(patient=patient) for plane in self.routes.planes))
        self._looked()

    async def drain(self) -> None:
        """Hand out no more runs, offer nothing, and give the shards to others; reports are still taken in."""
        self.board.close()
        await asyncio.gather(*(plane.drain() for plane in self.routes.planes))
        await self.switchboard.settle()

    async def stop(self) -> None:
        """End in order."""
        await self.drain()
        for follower in self._followers.values():
            follower.cancel()
        await asyncio.gather(*self._followers.values(), return_exceptions=True)
        await asyncio.gather(*(plane.stop() for plane in self.routes.planes))
        await self.pokes.stop()
        await self.peers.close()

    async def give_back(self, held: Sequence[tuple[UUID, int]]) -> None:
        """Leases that reached no worker go back to their leaders, and use no attempt."""
        parts: dict[int | Peer | None, list[tuple[UUID, int]]] = defaultdict(list)
        for run_id, token in held:
            parts[self.routes.leader_of(ids.shard_of(run_id))].append((run_id, token))
        for target, part in parts.items():
            if isinstance(target, Peer):
                await quietly(target.give_back(part))  # if it fails, they come back when their leases lapse
            elif target is not None:
                await self.routes.planes[target].completer.give_back(part)

    def wanted_by(self, node_id: str, queues: Sequence[str]) -> None:
        """A peer's workers wait for these queues: what is due there is released early for them."""
        if queues:
            self._wanted_until[node_id] = asyncio.get_running_loop().time() + WANTED_FOR_S
            self._release_early()

    def look_now(self) -> None:
        """Shards were freed by a peer: see whether some of them are this node's to take."""
        for plane in self.routes.planes:
            plane.look_now()

    def unready(self) -> list[str]:
        """What keeps this node from its work; nothing while one of several databases gives it some."""
        faults = [plane.unready() for plane in self.routes.planes]
        return [fault for each in faults for fault in each] if all(faults) else []

    def warnings(self) -> list[str]:
        """What is not as it should be, and does not keep this node from its work."""
        return [*self.peers.faults(), *(each for plane in self.routes.planes for each in plane.warnings())]

    def _looked(self) -> None:
        """The rows were read: what follows from them."""
        self.routes.refresh()
        self.switchboard.connect(self.routes.alone)
        self._release_early()
        # By the peer and not by its id: one that was out of sight for a moment is another object, with offers of its own.
        leading = () if self.board.closed else tuple(self.routes.leading_peers())
        for peer in [peer for peer in self._followers if peer not in leading]:
            self._followers.pop(peer).cancel()
        for peer in leading:
            if peer not in self._followers:
                follower = asyncio.get_running_loop().create_task(self._follow(peer), name=f"follow {peer.id}")
                self._followers[peer] = follower

    async def _follow(self, peer: Peer) -> None:
        """Keep what a peer offers up to date, for as long as it leads anything."""
        pause = PAUSE_S
        while True:
            try:
                came = await self._look_at(peer)
                pause = PAUSE_S
            except errors.UnreachableError:
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load, no secret
                pause = min(LONGEST_PAUSE_S, 2 * pause)
                continue
            if came and peer.offers:
                self.switchboard.offered()
            elif not came:
                await asyncio.sleep(PAUSE_S)  # a node that is going away keeps nobody waiting

    async def _look_at(self, peer: Peer) -> bool:
        """One long poll; it is broken off when workers here come to wait for another queue, so that the peer hears of it."""
        self._wanted_changed.clear()
        looking = asyncio.ensure_future(peer.look_at_offers(self.switchboard.wanted()))
        changing = asyncio.ensure_future(self._wanted_changed.wait())
        try:
            await asyncio.wait({looking, changing}, return_when=asyncio.FIRST_COMPLETED)
            return looking.result() if looking.done() else False
        finally:
            for task in (looking, changing):
                if not task.done():
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task

    def _release_early(self) -> None:
        now = asyncio.get_running_loop().time()
        is_wanted = any(until > now for until in self._wanted_until.values())
        for plane in self.routes.planes:
            if is_wanted and not plane.dispatcher.early_for_others:
                plane.dispatcher.wake()
            plane.dispatcher.early_for_others = is_wanted
