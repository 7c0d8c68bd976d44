"""Looks each second where shards live, and ends the pause of a shard whose mover has died.

Every node does it: what is to be done is decided by one conditional write, so it is done once.
"""

from __future__ import annotations

import structlog

from horarium import errors
from horarium.domain.placement import State
from horarium.services.mover import Mover
from horarium.store import moving as rows
from horarium.store.databases import Databases

LOOK_EVERY_S = 1.0

_log = structlog.get_logger("horarium.mender")


class Mender:
    """Keeps the map of shards fresh, and no shard in a pause that nobody ends."""

    def __init__(self, databases: Databases, node_id: str) -> None:
        self._databases = databases
        self._mover = f"mender:{node_id}"

    async def run_once(self) -> float:
        """Look once."""
        await self._databases.reload()
        for shard, source in self._on_the_move():
            await self._mend(shard, source)
        return LOOK_EVERY_S

    def _on_the_move(self) -> list[tuple[int, int]]:
        """(shard, place of the source) of shards that are leaving, or have left and not been cleared away."""
        found = self._databases.states()
        return [
            (shard, place)
            for place, name in enumerate(self._databases.names)
            if name in found
            for shard, state in found[name].shards.items()
            if state in (State.LEAVING, State.LEFT)
        ]

    async def _mend(self, shard: int, source: int) -> None:
        async with self._databases.all[source].connection() as connection:
            standing = await rows.standing(connection, shard)
        found = self._databases.states()
        targets = [place for place, name in enumerate(self._databases.names)
                   if standing and name in found and found[name].number == standing.peer]  # fmt: skip
        if not targets:
            return
        try:
            done = await Mover(self._databases, shard, source, targets[0], self._mover).mend()
        except errors.ConflictError:
            return  # another node was first, or the mover lives
        if done is not None:
            _log.warning("move_mended", shard=shard, step=str(done))
            await self._databases.reload()
