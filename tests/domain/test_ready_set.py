"""The leader's memory, driven in every order: no run in two places, counts exact, a held run always gets its turn."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from horarium.domain.overlap import Overlap
from horarium.domain.ready_set import JobRuns, ReadySet, Released
from horarium.domain.run import LiveRun, Phase
from tests.builders import a_run, wanted

LEASE_S = 15.0
LIVE = (Phase.LANE, Phase.CLAIMING, Phase.RUNNING)
QUEUES = ("default", "mail")
JOBS = {UUID(int=number): overlap for number, overlap in enumerate([*Overlap, *Overlap], 1)}
jobs = st.sampled_from(list(JOBS))
seconds = st.integers(0, 30).map(lambda tenths: tenths / 10)


class Memory(RuleBasedStateMachine):
    """A ready set, and what the duties around it have in hand: claims and overlap verdicts on their way to rows."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = ReadySet(lease_s=LEASE_S, capacity=40)
        self.now = 1000.0
        self.token = 0
        self.overlaps = dict(JOBS)
        self.edited: set[UUID] = set()
        self.claiming: list[LiveRun] = []
        self.given_up: list[LiveRun] = []

    # what comes in

    @rule(job=jobs, delay=seconds)
    def tick(self, job: UUID, delay: float) -> None:
        run = self._run(job, delay, self.overlaps[job])
        room = len(self.ready) < self.ready.capacity
        assert self.ready.add(run) is room
        assert not self.ready.add(run)

    @rule(job=jobs)
    def by_hand(self, job: UUID) -> None:
        self.ready.add(self._run(job, 0, Overlap.ALLOW))

    @rule(dt=seconds, early=st.sampled_from([0.0, 0.1]))
    def time_passes(self, dt: float, early: float) -> None:
        self.now += dt
        released = self.ready.release(self.now, early)
        self.given_up += [*released.skipped, *(older for older, _ in released.coalesced)]
        assert all(newer.phase is Phase.HELD or newer in self.given_up for _, newer in released.coalesced)
        assert all(run.overlap is Overlap.CANCEL_RUNNING or self.edited for run in released.to_cancel)

    @precondition(lambda self: self.given_up)
    @rule()
    def verdicts_are_written(self) -> None:
        for run in self.given_up:
            self.ready.gone(run.id)
        self.given_up.clear()

    # out to workers and back

    @rule(limit=st.integers(1, 5), queues=st.sampled_from([QUEUES, ("default",), ("mail",)]))
    def a_worker_asks(self, limit: int, queues: tuple[str, ...]) -> None:
        fitting = sum(run.phase is Phase.LANE and run.queue in queues for run in self.ready.runs.values())
        taken = self.ready.take(wanted(*queues), limit)
        assert len(taken) == min(limit, fitting)
        assert {run.phase for run in taken} <= {Phase.CLAIMING}
        self.claiming += taken

    @precondition(lambda self: self.claiming)
    @rule(data=st.data(), outcome=st.sampled_from(["granted", "put_back", "gone"]))
    def a_claim_ends(self, data: st.DataObject, outcome: str) -> None:
        run = self.claiming.pop(data.draw(st.integers(0, len(self.claiming) - 1)))
        was = run.phase
        if outcome == "granted":
            self.token += 1
            self.ready.granted(run, "w1", self.token, run.attempt + 1, 300, self.now)
            assert (run.phase is Phase.RUNNING) is (was is Phase.CLAIMING)
        elif outcome == "put_back":
            self.ready.put_back(run)
        elif self.ready.runs.get(run.id) is run:
            self.ready.gone(run.id)

    @rule(data=st.data(), outcome=st.sampled_from(["ended", "failed", "interrupted"]), delay=seconds)
    def an_attempt_ends(self, data: st.DataObject, outcome: str, delay: float) -> None:
        """Mostly of a run that memory holds as running; sometimes memory is behind the rows."""
        run = self._any(data, Phase.RUNNING if data.draw(st.integers(0, 4)) else None)
        if run is None:
            return
        if run.phase is not Phase.RUNNING:
            self.edited.add(run.job_id)  # it had begun, whatever memory thought: two of one job may be live now
        if outcome == "ended":
            assert self.ready.gone(run.id) is run
        elif outcome == "failed":
            self.ready.wait_again(run.id, self.now + delay, run.attempt)
        else:
            self.ready.wait_again(run.id, self.now, max(0, run.attempt - 1), at_front=True)

    # what else happens to a run

    @rule(data=st.data())
    def retracted(self, data: st.DataObject) -> None:
        run = self._any(data)
        if run is not None:
            self.ready.gone(run.id)
            assert self.ready.gone(run.id) is None

    @rule(data=st.data(), queue=st.sampled_from(QUEUES), priority=st.integers(0, 9))
    def relabelled(self, data: st.DataObject, queue: str, priority: int) -> None:
        run = self._any(data)
        if run is not None and run.phase in (Phase.WHEEL, Phase.LANE, Phase.HELD):
            self.ready.relabel(run, queue, "work", priority)
            assert self.ready.runs[run.id].queue == queue

    @rule(job=jobs, overlap=st.sampled_from(Overlap))
    def the_rule_is_edited(self, job: UUID, overlap: Overlap) -> None:
        self.overlaps[job] = overlap
        self.edited.add(job)
        for run in [run for run in self.ready.runs.values() if run.job_id == job and run.priority != 0]:
            self.ready.obey(self.ready.runs[run.id], overlap)

    @rule(data=st.data())
    def found_running(self, data: st.DataObject) -> None:
        """The sweep: a row that runs under a token that memory has never seen."""
        run = self._any(data)
        if run is not None and run.phase in (Phase.WHEEL, Phase.LANE, Phase.HELD) and run not in self.given_up:
            self.token += 1
            twin = a_run(run.ready_at, job_id=run.job_id, queue=run.queue, overlap=run.overlap, priority=run.priority)
            twin.id = run.id
            self.edited.add(run.job_id)  # two of one job may be live now
            self.ready.add_running(twin, "w2", self.token, 100, self.now)

    @rule(shard=st.integers(0, 3))
    def a_shard_is_lost(self, shard: int) -> None:
        self.ready.forget_shards({shard})
        assert all(run.shard != shard for run in self.ready.runs.values())

    # what holds always

    @invariant()
    def no_run_is_in_two_places(self) -> None:
        here = self.ready.runs
        assert all(here[run_id] is run and run.id == run_id for run_id, run in here.items())
        in_lanes = [run for run in self._in_lanes() if run.phase is Phase.LANE]
        assert collections.Counter(in_lanes) == collections.Counter(self._in_phase(Phase.LANE))
        in_wheels = [run for run in self._in_wheels() if run.phase is Phase.WHEEL]
        assert max(collections.Counter(in_wheels).values(), default=1) == 1
        assert set(in_wheels) | set(self._unwritten(Phase.WHEEL)) == set(self._in_phase(Phase.WHEEL))
        held = [run for job in self.ready._jobs.values() for run in job.held]
        assert collections.Counter(held) + collections.Counter(self._unwritten(Phase.HELD)) == collections.Counter(
            self._in_phase(Phase.HELD)
        )
        assert set(self.ready.leases.all()) == set(self._in_phase(Phase.RUNNING))

    @invariant()
    def counts_are_exact(self) -> None:
        phases = collections.Counter(run.phase for run in self.ready.runs.values())
        assert self.ready.queued == phases[Phase.LANE]
        assert self.ready.has_queued() is (phases[Phase.LANE] > 0)
        depths = self.ready.depths().values()
        assert sum(depth.running for depth in depths) == phases[Phase.RUNNING] == len(self.ready.leases)
        assert sum(depth.scheduled for depth in depths) == phases[Phase.WHEEL]
        assert sum(depth.queued for depth in depths) == len(self.ready) - phases[Phase.RUNNING] - phases[Phase.WHEEL]

    @invariant()
    def live_runs_are_known_to_their_jobs(self) -> None:
        for run in self.ready.runs.values():
            if run.obeys_overlap and run.phase in LIVE:
                assert self._job(run).live.get(run.id) is run
        for job in self.ready._jobs.values():
            assert job.live or job.held
            assert all(self.ready.runs.get(run_id) is run for run_id, run in job.live.items())

    @invariant()
    def a_held_run_waits_for_a_live_one(self) -> None:
        for job in self.ready._jobs.values():
            assert job.live or not job.held

    @invariant()
    def the_rule_is_kept(self) -> None:
        """At most one run of a job is live, and under two of the rules at most one is held back."""
        for job_id, overlap in JOBS.items():
            if job_id not in self.edited and overlap is not Overlap.ALLOW:
                job = self.ready._jobs.get(job_id, JobRuns())
                assert len(job.live) <= 1
                if overlap in (Overlap.QUEUE_ONE, Overlap.CANCEL_RUNNING):
                    assert len(job.held) <= 1
                if overlap is Overlap.SKIP:
                    assert not job.held

    def teardown(self) -> None:
        """Whatever was left, it all comes to an end: every run that is not given up gets its turn."""
        for run in self.claiming:
            self.ready.put_back(run)
        self.claiming.clear()
        while True:
            self.time_passes(100.0, 0.0)
            if self.given_up:
                self.verdicts_are_written()
            running = list(self.ready.leases.all())
            taken = self.ready.take(wanted(*QUEUES), 100)
            if not running and not taken:
                break
            for run in (*running, *taken):
                self.ready.gone(run.id)
        assert len(self.ready) == 0
        assert self.ready._jobs == {}
        assert self.ready.queued == 0

    def _run(self, job: UUID, delay: float, overlap: Overlap) -> LiveRun:
        return a_run(
            self.now + delay,
            job_id=job,
            overlap=overlap,
            shard=job.int % 4,
            queue=QUEUES[job.int % 2],
            priority=0 if overlap is Overlap.ALLOW and JOBS[job] is not Overlap.ALLOW else 5,
        )

    def _any(self, data: st.DataObject, phase: Phase | None = None) -> LiveRun | None:
        found = sorted(
            (run for run in self.ready.runs.values() if phase in (None, run.phase)), key=lambda run: run.id.int
        )
        return data.draw(st.sampled_from(found)) if found else None

    def _in_phase(self, phase: Phase) -> list[LiveRun]:
        return [run for run in self.ready.runs.values() if run.phase is phase]

    def _unwritten(self, phase: Phase) -> list[LiveRun]:
        """Given up, still in memory, and not put anywhere by what happened since."""
        wheels = set(self._in_wheels())
        return [
            run
            for run in self.given_up
            if run.phase is phase and self.ready.runs.get(run.id) is run and run not in wheels
        ]

    def _in_lanes(self) -> Iterator[LiveRun]:
        for queue in self.ready._lanes._queues.values():
            for lane in queue.lanes.values():
                for line in lane.by_target.values():
                    yield from (run for _, _, run in (*line._in_order, *line._others))

    def _in_wheels(self) -> Iterator[LiveRun]:
        for wheel in (self.ready._wheel, self.ready._punctual):
            for bucket in wheel._buckets.values():
                yield from bucket

    def _job(self, run: LiveRun) -> JobRuns:
        return self.ready._jobs.get(run.job_id, JobRuns())


Memory.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestMemory = Memory.TestCase


def ready_set(capacity: int = 100) -> ReadySet:
    return ReadySet(lease_s=LEASE_S, capacity=capacity)


def ticks(rule: Overlap, *instants: float) -> list[LiveRun]:
    job = UUID(int=77)
    return [a_run(instant, job_id=job, overlap=rule) for instant in instants]


def added(ready: ReadySet, *runs: LiveRun) -> ReadySet:
    for run in runs:
        assert ready.add(run)
    return ready


def start(ready: ReadySet, now: float, *queues: str) -> LiveRun:
    """The next run goes to a worker."""
    (run,) = ready.take(wanted(*queues), 1)
    ready.granted(run, "w1", 1, run.attempt + 1, 300, now)
    return run


def test_memory_refuses_what_is_beyond_its_capacity() -> None:
    ready = added(ready_set(capacity=2), a_run(), a_run())
    assert not ready.overflowed
    assert not ready.add(a_run())
    assert (len(ready), ready.overflowed) == (2, True)


def test_a_run_that_nothing_holds_back_may_leave_early() -> None:
    ready = added(ready_set(), a_run(10.0))
    assert ready.next_instant(0.1) == pytest.approx(9.9)
    assert ready.release(9.85, 0.1).ready == 0
    assert ready.release(9.9, 0.1).ready == 1


def test_a_run_that_may_be_held_back_is_judged_at_its_instant() -> None:
    """An earlier run may still end in the tenth of a second before."""
    (tick,) = ticks(Overlap.SKIP, 10.0)
    ready = added(ready_set(), tick)
    assert ready.next_instant(0.1) == 10.0
    assert ready.release(9.95, 0.1).ready == 0
    assert ready.release(10.0, 0.1).ready == 1


def test_the_next_instant_is_the_earlier_of_both_kinds() -> None:
    (tick,) = ticks(Overlap.SKIP, 10.0)
    ready = added(ready_set(), tick, a_run(10.05))
    assert ready.next_instant(0.1) == pytest.approx(9.95)
    assert ready_set().next_instant() is None


@pytest.mark.parametrize("overlap", list(Overlap))
def test_the_first_tick_starts_under_every_rule(overlap: Overlap) -> None:
    (tick,) = ticks(overlap, 1.0)
    ready = added(ready_set(), tick)
    released = ready.release(1.0)
    assert (released.ready, released.skipped, released.coalesced, released.to_cancel) == (1, [], [], [])
    assert start(ready, 1.0) is tick


def second_tick(overlap: Overlap) -> tuple[ReadySet, LiveRun, LiveRun, Released]:
    """A second tick's instant comes while the first one runs."""
    first, second = ticks(overlap, 1.0, 2.0)
    ready = added(ready_set(), first, second)
    ready.release(1.0)
    start(ready, 1.0)
    return ready, first, second, ready.release(2.0)


def test_allow_starts_beside_the_other() -> None:
    ready, _, second, released = second_tick(Overlap.ALLOW)
    assert released.ready == 1
    assert start(ready, 2.0) is second


def test_skip_gives_the_tick_up() -> None:
    ready, _, second, released = second_tick(Overlap.SKIP)
    assert (released.ready, released.skipped) == (0, [second])
    assert not ready.has_queued()


@pytest.mark.parametrize("overlap", [Overlap.QUEUE_ALL, Overlap.QUEUE_ONE, Overlap.CANCEL_RUNNING])
def test_a_held_run_starts_when_the_other_has_ended(overlap: Overlap) -> None:
    ready, first, second, released = second_tick(overlap)
    assert released.to_cancel == ([first] if overlap is Overlap.CANCEL_RUNNING else [])
    assert second.phase is Phase.HELD
    ready.gone(first.id)
    assert start(ready, 3.0) is second


def test_a_held_run_waits_while_the_other_is_in_back_off() -> None:
    ready, first, second, _ = second_tick(Overlap.QUEUE_ALL)
    ready.wait_again(first.id, 100.0, 1)
    assert ready.release(50.0).ready == 0
    assert second.phase is Phase.HELD
    ready.release(100.0)
    assert start(ready, 100.0).id == first.id
    ready.gone(first.id)
    assert start(ready, 101.0) is second


def test_a_run_taken_over_while_it_runs_counts_as_live() -> None:
    first, second = ticks(Overlap.SKIP, 1.0, 2.0)
    ready = ready_set()
    ready.add_running(first, "w1", 5, 100, 0.0)
    ready.add(second)
    assert ready.release(2.0).skipped == [second]


def test_a_run_taken_over_in_back_off_counts_as_live() -> None:
    first, second = ticks(Overlap.SKIP, 50.0, 2.0)
    first.attempt, first.token = 1, 9
    ready = added(ready_set(), first, second)
    assert ready.release(2.0).skipped == [second]
    assert ready.release(50.0).ready == 1


def test_a_snoozed_run_taken_over_counts_as_live() -> None:
    """A snooze uses no attempt: that it had begun is told by its token."""
    first, second = ticks(Overlap.SKIP, 50.0, 2.0)
    first.token = 9
    ready = added(ready_set(), first, second)
    assert ready.release(2.0).skipped == [second]
    assert ready.release(50.0).ready == 1


@pytest.mark.parametrize("before", [Overlap.ALLOW, Overlap.QUEUE_ALL])
def test_a_snoozed_run_is_not_judged_again_after_an_edit(before: Overlap) -> None:
    (run,) = ticks(before, 1.0)
    ready = added(ready_set(), run)
    ready.release(1.0)
    start(ready, 1.0)
    ready.wait_again(run.id, 50.0, 0)
    ready.obey(ready.runs[run.id], Overlap.SKIP)
    released = ready.release(50.0)
    assert (released.ready, released.skipped) == (1, [])


def test_only_so_many_are_released_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horarium.domain.ready_set.RELEASE_AT_ONCE", 3)
    ready = added(ready_set(), *(a_run(1.0) for _ in range(5)))
    assert [ready.release(1.0).ready for _ in range(3)] == [3, 2, 0]


def test_a_stale_claim_grants_nothing() -> None:
    ready = added(ready_set(), a_run())
    ready.release(1.0)
    (run,) = ready.take(wanted(), 1)
    ready.gone(run.id)
    ready.granted(run, "w1", 1, 1, 300, 1.0)
    ready.put_back(run)
    assert (len(ready.leases), ready.has_queued(), run.phase) == (0, False, Phase.GONE)


def test_depths_tell_what_waits_and_since_when() -> None:
    ready = added(
        ready_set(), a_run(5.0, queue="mail"), a_run(3.0, queue="mail"), a_run(99.0, queue="mail"), a_run(1.0)
    )
    ready.release(10.0)
    start(ready, 10.0, "default")
    depth = ready.depths()
    assert (depth["mail", "default"].scheduled, depth["mail", "default"].queued) == (1, 2)
    assert (depth["mail", "default"].running, depth["mail", "default"].oldest) == (0, 3.0)
    assert (depth["default", "default"].running, depth["default", "default"].oldest) == (1, None)


def test_many_are_gone_as_one_would_be() -> None:
    """Running, waiting, held back by the overlap rule, and unknown: what waited for one of them gets its turn."""
    ready = ReadySet(lease_s=15)
    plain, waiting = a_run(), a_run(ready_at=9e9)
    job = UUID(int=9)
    first, second = (a_run(job_id=job, overlap=Overlap.QUEUE_ALL, ready_at=float(at)) for at in (1, 2))
    for run in (plain, waiting, first, second):
        assert ready.add(run)
    ready.release(5.0)
    for number, run in enumerate(ready.take(wanted("default"), 10)):
        ready.granted(run, "w1", number + 1, 1, 60, 0.0)
    gone = ready.all_gone([plain.id, UUID(int=404), waiting.id, first.id])
    assert gone == [plain, waiting, first]
    assert {run.phase for run in gone} == {Phase.GONE}
    assert list(ready.runs.values()) == [second]
    assert (second.phase, len(ready.leases)) == (Phase.LANE, 0)
