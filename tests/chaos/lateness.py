"""How late things were: starts by the fault that they came after, a dead leader's gap, reruns of a dead worker's runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from horarium.domain import ids
from tests.chaos.faults import Happened
from tests.chaos.notes import Notes
from tests.chaos.watch import Watch

FIRE_GAP_S = 5.0
RERUN_AFTER_LEASE_S = 2.0
BEFORE_S, AFTER_S = 1.0, 10.0  # what came due so long before and after a fault may be late because of it
QUIET = "none"


@dataclass(frozen=True, slots=True)
class Ended:
    """A row of history, as far as it is looked at. `lag_s`: from its ready time to the start of its last attempt."""

    id: UUID
    job_id: UUID
    shard: int
    token: int
    attempt: int
    ready_at: datetime
    lag_s: float | None


@dataclass(frozen=True, slots=True)
class Lag:
    """The start lags of runs that came due while, or shortly after, a kind of fault happened."""

    kind: str
    times: int
    lags: Sequence[float]


def by_fault(ended: Iterable[Ended], happened: Sequence[Happened], epoch: float) -> list[Lag]:
    """Start lags of first attempts, by the kind of fault. `epoch`: the database's seconds since 1970 at monotonic zero."""
    found: dict[str, list[float]] = defaultdict(list)
    starts = [*(fault.at for fault in happened[1:]), float("inf")]
    windows = [
        (fault.at - BEFORE_S + epoch, min(fault.healed_at + AFTER_S, next_at) + epoch, fault.kind)
        for fault, next_at in zip(happened, starts, strict=True)
    ]
    for row in ended:
        if row.lag_s is not None and row.attempt == 1:
            at = row.ready_at.timestamp()
            for kind in {kind for first, last, kind in windows if first <= at <= last} or {QUIET}:
                found[kind].append(row.lag_s)
    times = {kind: sum(fault.kind == kind for fault in happened) for kind in found}
    return [Lag(kind, times[kind], lags) for kind, lags in sorted(found.items(), key=lambda item: item[0] != QUIET)]


def fire_gaps(ended: Iterable[Ended], happened: Iterable[Happened], epoch: float) -> list[float]:
    """The lags of what came due on a dead leader's shards in the seconds after its death."""
    deaths = [(fault.at + epoch, set(fault.leading)) for fault in happened if fault.kind == "kill_node"]
    return [
        row.lag_s
        for row in ended
        if row.lag_s is not None
        and row.attempt == 1
        and any(row.shard in led and 0 <= row.ready_at.timestamp() - at <= FIRE_GAP_S for at, led in deaths)
    ]


def reruns(notes: Notes, happened: Iterable[Happened], watch: Watch) -> list[float]:
    """From the death of a worker to the next start of what it had at work.

    A leader that takes a shard over gives every running run of it one fresh lease: then it is counted from the take-over.
    """
    found = []
    for fault in happened:
        if fault.kind == "kill_worker":
            for run_id, again_at in notes.left_by(fault.pid, fault.at):
                found.append(again_at - watch.last_taken(ids.shard_of(run_id), fault.at, again_at))
    return found


def quantile(values: Sequence[float], part: float) -> float:
    """The smallest of the values that `part` of them do not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, round(part * len(ordered)) - 1))] if ordered else 0.0
