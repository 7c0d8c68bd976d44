"""Which shard is led where: by one of this node's control planes, by a peer, or by nobody that can be asked.

Read from the rows of each database every second, with the renewal of leases, and at once when a peer says that it does not lead
what it was asked about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from horarium import errors
from horarium.services.control_plane import ControlPlane
from horarium.services.peers import Peer, Peers

READ_AGAIN_AFTER_S = 0.1


class Routes:
    """The way to the leader of a shard. `alone`: no other node leads anything, and there is only one database."""

    def __init__(self, own_id: str, planes: Sequence[ControlPlane], peers: Peers) -> None:
        self.planes = planes
        self.peers = peers
        self._own_id = own_id
        self._leaders: dict[int, str | None] = {}
        self._places: dict[int, int] = {}
        self._read_at = 0.0
        self._reading = asyncio.Lock()
        self.alone = len(planes) == 1

    def refresh(self) -> None:
        """Take in what the planes have read of their rows."""
        divisions = [plane.owner.division for plane in self.planes]
        self.peers.update({node.id: node for each in divisions for node in each.nodes.values()}.values())
        self._leaders = {shard: leader for each in divisions for shard, leader in each.leaders.items()}
        self._places = {shard: place for place, each in enumerate(divisions) for shard in each.leaders}
        self.alone = len(self.planes) == 1 and set(self._leaders.values()) <= {None, self._own_id}

    async def read_again(self) -> None:
        """Something was not where it was thought to be: read the rows now, unless that was done a moment ago."""
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        async with self._reading:
            if self._read_at > asked_at - READ_AGAIN_AFTER_S:
                return
            try:
                for plane in self.planes:
                    await plane.owner.look()
            except errors.UnavailableError:
                return  # what was known stays
            self._read_at = loop.time()
            self.refresh()

    def leader_of(self, shard: int) -> int | Peer | None:
        """The place of the own plane that leads a shard, or the peer that does."""
        for place, plane in enumerate(self.planes):
            if plane.leader.leads(shard):
                return place
        return self.peers.get(self._leaders.get(shard))

    def place_of(self, shard: int) -> int:
        """The place of the plane whose database holds a shard."""
        return self._places.get(shard, 0)

    def leading_peers(self) -> Iterator[Peer]:
        """The peers that lead at least one shard."""
        leading = set(self._leaders.values())
        return (peer for peer in self.peers if peer.id in leading)

    def unled(self) -> list[int]:
        """The shards that no live node leads."""
        return [shard for shard, leader in self._leaders.items() if leader is None]
