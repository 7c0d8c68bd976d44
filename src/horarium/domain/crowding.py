"""Who has room in a leader's memory that is full: no lane keeps another out (design: runs section 6).

A lane is (queue, tenant). While memory is full, a run of a short lane takes the place of the last runs of the longest one, and a
run that would stand before those in that lane takes it too. Whoever gives way waits in the table and comes back when there is
room. So a tenant that has a million runs waiting holds up its own, and of these the last ones.
"""

from __future__ import annotations

from horarium.domain.lanes import Lane, LaneName, Lanes, order_of
from horarium.domain.run import LiveRun

# A lane is let in while it is shorter than this part of the longest one.
FAIR_PART = 0.5
# How many runs give way at once, as a part of those that give way and the others.
PART_AT_ONCE = 0.01
# The longest lane is looked for again after so many runs that were refused.
LOOKED_FOR_EVERY = 500


class Crowding:
    """Decides who gives way. `capacity` is how many runs memory holds."""

    def __init__(self, lanes: Lanes, capacity: int) -> None:
        self._lanes = lanes
        self._at_once = max(1, int(capacity * PART_AT_ONCE))
        self._longest: LaneName | None = None
        self._refused = 0

    def give_way(self, run: LiveRun) -> list[LiveRun]:
        """The runs that leave for this one; none when it is this one's turn to wait. They have left their lanes."""
        longest = self._longest_lane()
        given: list[LiveRun] = []
        if longest is not None and self._is_let_in(run, longest):
            given = longest.longest().drop_last(self._at_once)
        self._refused = 0 if given else self._refused + 1
        return given

    def crowded(self) -> list[LaneName]:
        """The lanes that are not let in while memory is full."""
        sizes = self._lanes.sizes()
        longest = max(sizes.values(), default=0)
        return [name for name, size in sizes.items() if not self._is_short(size, longest)]

    def _longest_lane(self) -> Lane | None:
        known = self._lanes.lane(self._longest) if self._longest else None
        if known is not None and self._refused % LOOKED_FOR_EVERY:
            return known
        sizes = self._lanes.sizes()
        self._longest = max(sizes, key=sizes.__getitem__, default=None)
        return self._lanes.lane(self._longest) if self._longest else None

    def _is_let_in(self, run: LiveRun, longest: Lane) -> bool:
        own = self._lanes.lane((run.queue, run.tenant_id))
        if own is longest:
            last = longest.longest().last_place()
            return last is not None and order_of(run) < last
        return self._is_short(0 if own is None else len(own), len(longest))

    @staticmethod
    def _is_short(size: int, longest: int) -> bool:
        return size < FAIR_PART * longest
