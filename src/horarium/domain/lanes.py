"""Lanes: which ready run goes out next (design: runs section 6).

A lane is (queue, tenant). Inside a lane: priority, then ready time; waiting raises the effective priority by one each
60 seconds, which makes the order a fixed number: `ready_at − 60 × priority`, smallest first. Across the tenants of a queue:
deficit round robin by weight. Across queues the worker decides: by weights, or in strict order.

Everything is decided at the moment a worker asks, never earlier.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from horarium.domain.run import LiveRun, Phase

SECONDS_PER_PRIORITY = 60.0
FRONT = -1e15
LEAST_WEIGHT = 0.01

_sequence = count()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a worker asks for: queues with weights (in strict order when `strict`), and what it can run.

    `handlers` None means any handler, but none of the built-in targets, whose keys start with `@`. `tenant` None means
    the runs of every tenant.
    """

    queues: tuple[tuple[str, float], ...]
    handlers: frozenset[str] | None = None
    strict: bool = False
    tenant: str | None = None

    def accepts(self, target_key: str) -> bool:
        """Whether this worker can run a target."""
        if self.handlers is None:
            return not target_key.startswith("@")
        return target_key in self.handlers


def order_of(run: LiveRun) -> float:
    """The place of a run in its lane: the smallest goes first. Interrupted runs go to the front."""
    return FRONT if run.at_front else run.ready_at - SECONDS_PER_PRIORITY * run.priority


Entry = tuple[float, int, LiveRun]
LaneName = tuple[str, str]  # queue, tenant


class Line:
    """The ready runs of one target in a lane, in their order.

    Runs mostly become ready in that order, so each goes to the end of a queue; the few that do not, as those of a higher
    priority, stand in a heap beside it.
    """

    __slots__ = ("_in_order", "_others")

    def __init__(self) -> None:
        self._in_order: deque[Entry] = deque()
        self._others: list[Entry] = []

    def __len__(self) -> int:
        return len(self._in_order) + len(self._others)

    def push(self, run: LiveRun) -> None:
        entry = (order_of(run), next(_sequence), run)
        if not self._in_order or self._in_order[-1][0] <= entry[0]:
            self._in_order.append(entry)
        else:
            heapq.heappush(self._others, entry)

    def head(self) -> Entry | None:
        """The first run; what is stale before it is cleared away."""
        in_order, others = self._in_order, self._others
        while in_order and in_order[0][2].phase is not Phase.LANE:
            in_order.popleft()
        while others and others[0][2].phase is not Phase.LANE:
            heapq.heappop(others)
        if others and (not in_order or others[0] < in_order[0]):
            return others[0]
        return in_order[0] if in_order else None

    def pop(self) -> LiveRun:
        """Take the run that `head` gave."""
        if self._others and (not self._in_order or self._others[0] < self._in_order[0]):
            return heapq.heappop(self._others)[2]
        return self._in_order.popleft()[2]

    def take(self, limit: int) -> list[LiveRun]:
        """The next runs, at most `limit`."""
        taken: list[LiveRun] = []
        in_order, left = self._in_order, limit
        while left and self._others and self.head() is not None:
            taken.append(self.pop())
            left -= 1
        while left and in_order:
            run = in_order.popleft()[2]
            if run.phase is Phase.LANE:
                taken.append(run)
                left -= 1
        return taken

    def sort(self) -> None:
        """All runs in their order, with nothing beside and nothing that is stale."""
        if self._others:
            entries = sorted(entry for entry in (*self._in_order, *self._others) if entry[2].phase is Phase.LANE)
            self._in_order, self._others = deque(entries), []

    def last_place(self) -> float | None:
        """The place of the last run, as `order_of` gives it."""
        self.sort()
        return self._in_order[-1][0] if self._in_order else None

    def drop_last(self, limit: int) -> list[LiveRun]:
        """Take away the last runs, at most `limit`, but for those by which other runs of their jobs are judged."""
        self.sort()
        dropped: list[LiveRun] = []
        kept: deque[Entry] = deque()
        while self._in_order and len(dropped) < limit and len(kept) <= limit:
            entry = self._in_order.pop()
            if entry[2].phase is not Phase.LANE:
                continue
            if entry[2].obeys_overlap:
                kept.appendleft(entry)
            else:
                dropped.append(entry[2])
        self._in_order += kept
        return dropped


@dataclass(slots=True)
class Lane:
    """The ready runs of one tenant in one queue, apart by target so that a worker never wades through what it cannot run."""

    by_target: dict[str, Line] = field(default_factory=dict)
    deficit: float = 0.0

    def push(self, run: LiveRun) -> None:
        line = self.by_target.get(run.target_key)
        if line is None:
            line = self.by_target[run.target_key] = Line()
        line.push(run)

    def __len__(self) -> int:
        return sum(len(line) for line in self.by_target.values())

    def longest(self) -> Line:
        """The line with the most runs."""
        return max(self.by_target.values(), key=len, default=Line())

    def heads(self, accepts: Callable[[str], bool]) -> list[tuple[float, int, str]]:
        """The first run of each target that is accepted, as a heap; lines that are empty are cleared away."""
        found = []
        for target in list(self.by_target):
            head = self.by_target[target].head()
            if head is None:
                del self.by_target[target]
            elif accepts(target):
                found.append((head[0], head[1], target))
        heapq.heapify(found)
        return found

    def take(self, accepts: Callable[[str], bool], limit: int) -> list[LiveRun]:
        """The next runs of this lane, at most `limit`."""
        taken: list[LiveRun] = []
        if len(self.by_target) > 1:
            self._merge(self.heads(accepts), limit, taken)
        elif accepts(target := next(iter(self.by_target), "")):
            self._drain(target, limit, taken)
        return taken

    def _merge(self, heads: list[tuple[float, int, str]], limit: int, taken: list[LiveRun]) -> None:
        """Take from several targets, whoever is first; `heads` is a heap of them."""
        while len(heads) > 1 and len(taken) < limit:
            target = heads[0][2]
            line = self.by_target[target]
            taken.append(line.pop())
            head = line.head()
            if head is not None:
                heapq.heapreplace(heads, (head[0], head[1], target))
            else:
                heapq.heappop(heads)
                del self.by_target[target]
        if heads:
            self._drain(heads[0][2], limit - len(taken), taken)

    def _drain(self, target: str, limit: int, taken: list[LiveRun]) -> None:
        """Take from one target alone."""
        line = self.by_target.get(target)
        if line is not None:
            taken += line.take(limit)
            if line.head() is None:
                del self.by_target[target]


class Queue:
    """The lanes of one queue, served by deficit round robin: a round gives each tenant as many runs as its weight."""

    def __init__(self) -> None:
        self.lanes: dict[str, Lane] = {}
        self._round: deque[str] = deque()

    def push(self, run: LiveRun) -> None:
        lane = self.lanes.get(run.tenant_id)
        if lane is None:
            lane = self.lanes[run.tenant_id] = Lane()
            self._round.append(run.tenant_id)
        lane.push(run)

    def depth(self) -> int:
        return sum(len(lane) for lane in self.lanes.values())

    def take(self, wanted: Wanted, limit: int, weight_of: Callable[[str], float]) -> list[LiveRun]:
        """The next runs of this queue, at most `limit`, shared among its tenants."""
        accepts = wanted.accepts
        if wanted.tenant is not None:
            return self._take_alone(wanted.tenant, accepts, limit)
        if len(self._round) == 1:
            return self._take_alone(self._round[0], accepts, limit)
        taken = self._take_rounds(accepts, limit, weight_of)
        idle = 0
        while len(taken) < limit and idle < len(self._round):
            tenant = self._round[0]
            lane = self.lanes[tenant]
            got = self._serve(lane, accepts, limit - len(taken), weight_of(tenant))
            taken += got
            if not lane.by_target:
                self._forget(tenant)
            elif got or lane.deficit:
                idle = 0
            else:
                idle += 1
        return taken

    def _take_rounds(
        self, accepts: Callable[[str], bool], limit: int, weight_of: Callable[[str], float]
    ) -> list[LiveRun]:
        """Rounds that fit whole into the limit, each tenant's turns of them at once: it goes to one claim anyhow."""
        taken: list[LiveRun] = []
        weights = [(tenant, max(weight_of(tenant), LEAST_WEIGHT)) for tenant in self._round]
        rounds = int(limit / sum(weight for _, weight in weights)) if weights else 0
        for tenant, weight in weights if rounds > 1 else ():
            lane = self.lanes[tenant]
            lane.deficit += rounds * weight
            asked = min(limit - len(taken), int(lane.deficit))
            got = lane.take(accepts, asked)
            taken += got
            lane.deficit = lane.deficit - len(got) if len(got) == asked else 0.0
            if not lane.by_target:
                self._forget(tenant)
        return taken

    def _serve(self, lane: Lane, accepts: Callable[[str], bool], limit: int, weight: float) -> list[LiveRun]:
        """The turn of the lane whose turn it is. It ends when the deficit is used up, not when only the limit stopped it.

        A weight below one saves up over several rounds; a lane that has nothing to give saves nothing.
        """
        if lane.deficit < 1:
            lane.deficit += max(weight, LEAST_WEIGHT)
        asked = min(limit, int(lane.deficit))
        got = lane.take(accepts, asked)
        if got:
            lane.deficit -= len(got)
        elif asked or not lane.heads(accepts):
            lane.deficit = 0.0
        if lane.deficit < 1 or len(got) < asked:
            self._round.rotate(-1)
        return got

    def _take_alone(self, tenant: str, accepts: Callable[[str], bool], limit: int) -> list[LiveRun]:
        lane = self.lanes.get(tenant)
        if lane is None:
            return []
        got = lane.take(accepts, limit)
        if not lane.by_target:
            self._forget(tenant)
        return got

    def _forget(self, tenant: str) -> None:
        """An empty lane starts anew when it comes back."""
        del self.lanes[tenant]
        self._round.remove(tenant)


class Lanes:
    """All ready runs. `weight_of` gives a tenant's weight in the round robin (default 1)."""

    def __init__(self, weight_of: Callable[[str], float] = lambda tenant: 1.0) -> None:
        self._queues: dict[str, Queue] = {}
        self._credits: dict[tuple[tuple[str, float], ...], list[float]] = {}
        self._weight_of = weight_of

    def push(self, run: LiveRun) -> None:
        """A run has become ready."""
        queue = self._queues.get(run.queue)
        if queue is None:
            queue = self._queues[run.queue] = Queue()
        queue.push(run)

    def take(self, wanted: Wanted, limit: int) -> list[LiveRun]:
        """The runs that go to a worker now, at most `limit`. They leave their lanes."""
        if len(wanted.queues) == 1 or wanted.strict:
            return self._take_in_order((name for name, _ in wanted.queues), wanted, limit)
        return self._take_by_weight(wanted, limit)

    def depths(self) -> dict[str, int]:
        """About how many runs are ready in each queue: what is stale and not cleared away yet is counted too."""
        found = {name: queue.depth() for name, queue in self._queues.items()}
        return {name: depth for name, depth in found.items() if depth}

    def sizes(self) -> dict[LaneName, int]:
        """About how many runs are ready in each lane, as `depths` counts."""
        return {
            (name, tenant): len(lane) for name, queue in self._queues.items() for tenant, lane in queue.lanes.items()
        }

    def lane(self, name: LaneName) -> Lane | None:
        """The lane of that name, if any run is ready in it."""
        queue = self._queues.get(name[0])
        return None if queue is None else queue.lanes.get(name[1])

    def _take_in_order(self, names: Iterable[str], wanted: Wanted, limit: int) -> list[LiveRun]:
        taken: list[LiveRun] = []
        for name in names:
            if len(taken) >= limit:
                break
            taken += self._take_from(name, wanted, limit - len(taken))
        return taken

    def _take_by_weight(self, wanted: Wanted, limit: int) -> list[LiveRun]:
        """Shares by weight; what a queue cannot use goes to the others (work-conserving)."""
        taken: list[LiveRun] = []
        open_queues = [item for item in wanted.queues if item[0] in self._queues]
        while open_queues and len(taken) < limit:
            shares = self._shares(tuple(open_queues), limit - len(taken))
            still_open = []
            for item, share in zip(open_queues, shares, strict=True):
                got = self._take_from(item[0], wanted, share)
                taken += got
                if len(got) == share:
                    still_open.append(item)
            open_queues = still_open
        return taken

    def _shares(self, queues: tuple[tuple[str, float], ...], limit: int) -> Sequence[int]:
        """How many runs each queue may give: the whole part of its share now, fractions carried over to the next time."""
        total = sum(weight for _, weight in queues)
        if len(self._credits) > 1000:
            self._credits.clear()
        credit = self._credits.setdefault(queues, [0.0] * len(queues))
        for index, (_, weight) in enumerate(queues):
            credit[index] += limit * weight / total
        shares = [max(0, int(value + 1e-9)) for value in credit]
        while sum(shares) < limit:
            index = max(range(len(queues)), key=lambda i: credit[i] - shares[i])
            shares[index] += 1
        while sum(shares) > limit:
            index = min((i for i in range(len(queues)) if shares[i]), key=lambda i: credit[i] - shares[i])
            shares[index] -= 1
        for index, share in enumerate(shares):
            credit[index] -= share
        return shares

    def _take_from(self, name: str, wanted: Wanted, limit: int) -> list[LiveRun]:
        queue = self._queues.get(name)
        if queue is None or limit <= 0:
            return []
        got = queue.take(wanted, limit, self._weight_of)
        if not queue.lanes:
            del self._queues[name]
        return got
