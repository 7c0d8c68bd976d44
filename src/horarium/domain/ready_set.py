"""The leader's memory of live runs: from the timing wheel into the lanes, out to workers, back or gone.

Pure: every call is given the time. What has to happen to rows is returned as values for the duties to carry out.
Losing this memory loses nothing: it is rebuilt from the rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from horarium.domain.crowding import Crowding
from horarium.domain.lanes import LaneName, Lanes, Wanted
from horarium.domain.lease import Leases
from horarium.domain.overlap import Overlap, Verdict, judge
from horarium.domain.run import LiveRun, Phase
from horarium.domain.wheel import Wheel

RELEASE_AT_ONCE = 20_000


@dataclass(slots=True)
class JobRuns:
    """The live runs of one job whose overlap rule matters: those queued or running, and those held back."""

    live: dict[UUID, LiveRun] = field(default_factory=dict)
    held: deque[LiveRun] = field(default_factory=deque)


@dataclass(slots=True)
class Released:
    """What came of the runs whose instant has come.

    `skipped`: not to be started (overlap `skip`); `coalesced`: (older run, newer run that stands for it);
    `to_cancel`: running runs that should stop for a newer one.
    """

    ready: int = 0
    skipped: list[LiveRun] = field(default_factory=list)
    coalesced: list[tuple[LiveRun, LiveRun]] = field(default_factory=list)
    to_cancel: list[LiveRun] = field(default_factory=list)


@dataclass(slots=True)
class Depth:
    """How many runs of one (queue, tenant) wait for their instant, wait for a worker, run; `oldest` is a ready time."""

    scheduled: int = 0
    queued: int = 0
    running: int = 0
    oldest: float | None = None


class ReadySet:
    """Live runs by id, and where each stands. Bounded: beyond `capacity` runs a new one is refused, or others give way to it (see
    `crowding`). Then `overflowed` is set: some rows wait in the table that memory does not know.

    `incomplete` are shards of which not all that waits is here yet. What has begun is; so runs may start, but for ticks that an
    overlap rule may hold back: they are judged by all that lives of their job, when `completed` is told.
    """

    def __init__(
        self, *, lease_s: float, capacity: int = 200_000, weight_of: Callable[[str], float] = lambda tenant: 1.0
    ) -> None:
        self.leases = Leases(lease_s)
        self.capacity = capacity
        self.runs: dict[UUID, LiveRun] = {}
        self.overflowed = False
        self.incomplete: set[int] = set()
        self._not_judged: list[LiveRun] = []
        self._wheel = Wheel()
        self._punctual = Wheel()
        self._lanes = Lanes(weight_of)
        self._crowding = Crowding(self._lanes, capacity)
        self._jobs: dict[UUID, JobRuns] = {}
        self.queued = 0

    def __len__(self) -> int:
        return len(self.runs)

    def __contains__(self, run_id: UUID) -> bool:
        return run_id in self.runs

    def add(self, run: LiveRun) -> bool:
        """Take up a waiting run; False when it is known already, or when memory is full and nobody gives way."""
        if run.id in self.runs:
            return False
        if len(self.runs) >= self.capacity:
            self.overflowed = True
            if not self._make_room(run):
                return False
        self.runs[run.id] = run
        self._wait(run)
        return True

    def add_running(self, run: LiveRun, worker_id: str, token: int, timeout_left_s: float, now: float) -> None:
        """Take up a run that is leased to a worker, as its row tells: with one fresh lease."""
        known = self.runs.get(run.id)
        if known is not None:
            self._replace(known, run)
        self.runs[run.id] = run
        self._count_live(run)
        self.leases.grant(run, worker_id, token, run.attempt, timeout_left_s, now)

    def next_instant(self, early_s: float = 0.0) -> float | None:
        """When `release` has something to do next; `early_s` seconds sooner for runs that may be claimed early."""
        first, punctual = self._wheel.next_instant(), self._punctual.next_instant()
        instants = [] if first is None else [first - early_s]
        if punctual is not None:
            instants.append(punctual)
        return min(instants, default=None)

    def release(self, now: float, early_s: float = 0.0) -> Released:
        """Move the runs whose instant has come into their lanes, under their jobs' overlap rules.

        Runs that nothing can hold back are released `early_s` seconds before their instant, to be claimed early.
        """
        released = Released()
        for run in self._wheel.release(now + early_s, RELEASE_AT_ONCE):
            self._enter_lane(run)
            released.ready += 1
        for run in self._punctual.release(now, RELEASE_AT_ONCE):
            if run.shard in self.incomplete:
                self._not_judged.append(run)
            else:
                self._judge(run, released)
        return released

    def completed(self, shards: Iterable[int]) -> None:
        """Everything that waits in these shards is here: `release` judges the ticks that had to wait for that."""
        self.incomplete.difference_update(shards)
        waited, self._not_judged = self._not_judged, []
        for run in waited:
            if run.phase is Phase.WHEEL:
                self._punctual.add(run)

    def take(self, wanted: Wanted, limit: int) -> list[LiveRun]:
        """Choose runs for a worker. They are `CLAIMING` until `granted`, `put_back` or `gone` is told of each."""
        taken = self._lanes.take(wanted, limit)
        for run in taken:
            run.phase = Phase.CLAIMING
        self.queued -= len(taken)
        return taken

    def granted(self, run: LiveRun, worker_id: str, token: int, attempt: int, timeout_s: float, now: float) -> None:
        """The claim went through: the run is leased."""
        if run.phase is Phase.CLAIMING:
            self.leases.grant(run, worker_id, token, attempt, timeout_s, now)

    def put_back(self, run: LiveRun) -> None:
        """The claim could not be asked for: the run goes back to its lane."""
        if run.phase is Phase.CLAIMING:
            self._enter_lane(run)

    def wait_again(self, run_id: UUID, ready_at: float, attempt: int, *, at_front: bool = False) -> None:
        """An attempt ended and the run waits again."""
        run = self.runs.get(run_id)
        if run is None:
            return
        if run.phase is Phase.RUNNING:
            self.leases.end(run_id)
        else:
            run = self._twin(run)
        run.phase, run.ready_at, run.attempt, run.at_front, run.cancel_at = (
            Phase.WHEEL,
            ready_at,
            attempt,
            at_front,
            None,
        )
        self._count_live(run)
        self._wheel.add(run)

    def gone(self, run_id: UUID) -> LiveRun | None:
        """The run ended or was retracted: forget it. Runs of its job that were held back get their turn."""
        run = self._leave(run_id)
        if run is None:
            return None
        run.phase = Phase.GONE
        del self.runs[run_id]
        self._discount_live(run)
        return run

    def all_gone(self, run_ids: Sequence[UUID]) -> list[LiveRun]:
        """`gone` for many; returns those that were known. Done here: running runs that nothing waits for, as nearly all are."""
        known: list[LiveRun] = []
        runs, jobs, leases = self.runs, self._jobs, self.leases
        for run_id in run_ids:
            run = runs.get(run_id)
            if run is None:
                continue
            known.append(run)
            if run.phase is Phase.RUNNING and run.job_id not in jobs:
                leases.end(run_id)
                run.phase = Phase.GONE
                del runs[run_id]
            else:
                self.gone(run_id)
        return known

    def relabel(self, run: LiveRun, queue: str, target_key: str, priority: int) -> None:
        """An edit moved a waiting run to another queue, target or priority."""
        if (run.queue, run.target_key, run.priority) == (queue, target_key, priority):
            return
        was_queued = run.phase is Phase.LANE
        if was_queued:
            run = self._twin(run)
        run.queue, run.target_key, run.priority = queue, target_key, priority
        if was_queued:
            self._enter_lane(run)

    def obey(self, run: LiveRun, rule: Overlap) -> None:
        """An edit changed the overlap rule of a job: a tick that is not live yet will be judged by it, a live one counts."""
        if run.overlap is rule:
            return
        run.overlap = rule
        if self._is_live(run):
            self._count_live(run)
        elif run.phase is Phase.WHEEL:
            self._wait(self._twin(run))
        elif run.phase is Phase.HELD and rule is Overlap.ALLOW:
            self._let_go(run)

    def forget_shards(self, shards: set[int]) -> None:
        """Another node leads these shards now: drop what memory holds of them."""
        self.incomplete -= shards
        for run in [run for run in self.runs.values() if run.shard in shards]:
            self.gone(run.id)

    def depths(self) -> dict[tuple[str, str], Depth]:
        """Depth by (queue, tenant): for pages and metrics, not for the hot path."""
        found: dict[tuple[str, str], Depth] = {}
        for run in list(self.runs.values()):  # a copy: a scrape may read from another thread
            depth = found.setdefault((run.queue, run.tenant_id), Depth())
            if run.phase is Phase.RUNNING:
                depth.running += 1
            elif run.phase is Phase.WHEEL:
                depth.scheduled += 1
            else:
                depth.queued += 1
                depth.oldest = run.ready_at if depth.oldest is None else min(depth.oldest, run.ready_at)
        return found

    def queued_depths(self) -> dict[str, int]:
        """About how many runs are ready and wait for a worker, by queue: to be offered to other nodes."""
        return self._lanes.depths() if self.queued else {}

    def has_queued(self) -> bool:
        """Whether any run is ready and waits for a worker."""
        return self.queued > 0

    def crowded(self) -> list[LaneName]:
        """The lanes that wait for room while memory is full; all others are let in."""
        return self._crowding.crowded()

    def _make_room(self, run: LiveRun) -> bool:
        leaving = self._crowding.give_way(run)
        for each in leaving:
            each.phase = Phase.GONE
            del self.runs[each.id]
        self.queued -= len(leaving)
        return bool(leaving)

    def _wait(self, run: LiveRun) -> None:
        run.phase = Phase.WHEEL
        judged = run.obeys_overlap and not self._is_live(run)
        (self._punctual if judged else self._wheel).add(run)
        if not judged:
            self._count_live(run)

    def _is_live(self, run: LiveRun) -> bool:
        """Whether a run counts for its job's overlap rule: queued or running, or begun before, as its token tells."""
        if run.phase in (Phase.LANE, Phase.CLAIMING, Phase.RUNNING) or run.token:
            return True
        job = self._jobs.get(run.job_id)
        return job is not None and run.id in job.live

    def _judge(self, run: LiveRun, released: Released) -> None:
        job = self._jobs.setdefault(run.job_id, JobRuns())
        verdict = judge(run.overlap, len(job.live), len(job.held))
        if verdict is Verdict.START:
            self._count_live(run)
            self._enter_lane(run)
            released.ready += 1
            return
        if verdict is Verdict.SKIP:
            released.skipped.append(run)
            return
        if verdict in (Verdict.REPLACE_HELD, Verdict.CANCEL_AND_HOLD):
            released.coalesced += [(older, run) for older in job.held]
            job.held.clear()
        if verdict is Verdict.CANCEL_AND_HOLD:
            released.to_cancel += [live for live in job.live.values() if live.cancel_at is None]
        run.phase = Phase.HELD
        job.held.append(run)

    def _let_go(self, run: LiveRun) -> None:
        """A run that was held back need not wait any longer, unless a newer one stands for it already."""
        job = self._jobs.get(run.job_id)
        if job is not None and run in job.held:
            job.held.remove(run)
            self._enter_lane(run)

    def _enter_lane(self, run: LiveRun) -> None:
        run.phase = Phase.LANE
        self.queued += 1
        self._lanes.push(run)

    def _leave(self, run_id: UUID) -> LiveRun | None:
        """Take a run out of where it stands; stale references to it are told by its phase."""
        run = self.runs.get(run_id)
        if run is None:
            return None
        if run.phase is Phase.RUNNING:
            self.leases.end(run_id)
        elif run.phase is Phase.LANE:
            self.queued -= 1
        return run

    def _twin(self, run: LiveRun) -> LiveRun:
        """The same run as a new object."""
        twin = replace(run)
        self._replace(run, twin)
        return twin

    def _replace(self, run: LiveRun, by: LiveRun) -> None:
        """Another object stands for a run from now on: whatever still points at the old one, as a lane does, is stale."""
        if run.phase is Phase.LANE:
            self.queued -= 1
        run.phase = Phase.GONE
        self.runs[run.id] = by
        job = self._jobs.get(run.job_id)
        if job is not None:
            if run in job.held:
                job.held.remove(run)
            if run.id in job.live:
                job.live[run.id] = by

    def _count_live(self, run: LiveRun) -> None:
        if run.obeys_overlap:
            self._jobs.setdefault(run.job_id, JobRuns()).live[run.id] = run

    def _discount_live(self, run: LiveRun) -> None:
        job = self._jobs.get(run.job_id)
        if job is None:
            return
        job.live.pop(run.id, None)
        if run in job.held:
            job.held.remove(run)
        if not job.live and job.held:
            next_run = job.held.popleft()
            self._count_live(next_run)
            self._enter_lane(next_run)
        elif not job.live:
            del self._jobs[run.job_id]
