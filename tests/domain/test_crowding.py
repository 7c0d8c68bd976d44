"""Who has room in a full memory: short lanes and earlier places are let in, and what gives way is the end of the longest lane."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from horarium.domain import crowding
from horarium.domain.overlap import Overlap
from horarium.domain.ready_set import ReadySet
from horarium.domain.run import LiveRun, Phase
from tests.builders import a_run, wanted

CAPACITY = 20


def crowded_set(*runs: LiveRun, capacity: int = CAPACITY) -> ReadySet:
    """A memory with these runs, all of them ready."""
    ready = ReadySet(lease_s=15.0, capacity=capacity)
    for run in runs:
        assert ready.add(run)
    ready.release(1e9)
    return ready


def loud(count: int = CAPACITY, first: float = 0.0, **members: int) -> list[LiveRun]:
    """Runs of a tenant that has many."""
    return [a_run(first + at, tenant="loud", **members) for at in range(count)]


def test_a_tenant_with_few_runs_is_let_in_and_the_last_of_the_longest_lane_gives_way() -> None:
    runs = loud()
    ready = crowded_set(*runs)
    quiet = a_run(500.0, tenant="quiet")
    assert ready.add(quiet)
    assert (len(ready), ready.overflowed, ready.queued) == (CAPACITY, True, CAPACITY - 1)
    assert runs[-1].id not in ready and runs[-1].phase is Phase.GONE
    ready.release(1e9)
    assert quiet in ready.take(wanted("default"), 2), "it has its turn in the round robin at once"


def test_who_fills_memory_waits_behind_its_own_runs() -> None:
    ready = crowded_set(*loud())
    assert not ready.add(a_run(500.0, tenant="loud"))
    assert len(ready) == CAPACITY


def test_another_queue_of_the_same_tenant_is_another_lane() -> None:
    ready = crowded_set(*loud())
    assert ready.add(a_run(500.0, tenant="loud", queue="billing"))


def test_a_more_urgent_run_takes_the_place_of_the_last_one() -> None:
    runs = loud(first=1000.0)
    ready = crowded_set(*runs)
    urgent = a_run(1100.0, tenant="loud", priority=9)
    assert ready.add(urgent)
    ready.release(1e9)
    assert ready.take(wanted("default"), 1) == [urgent]
    assert runs[-1].id not in ready


def test_lanes_of_like_length_do_not_push_each_other_out() -> None:
    ready = crowded_set(*loud(10), *(a_run(at, tenant="other") for at in range(10)))
    for tenant in ("loud", "other"):
        assert not ready.add(a_run(500.0, tenant=tenant))
    assert sorted(ready.crowded()) == [("default", "loud"), ("default", "other")]


def test_runs_by_which_others_are_judged_do_not_give_way() -> None:
    ready = crowded_set(*(a_run(at, tenant="loud", overlap=Overlap.SKIP) for at in range(CAPACITY)))
    assert not ready.add(a_run(500.0, tenant="quiet"))
    assert len(ready) == CAPACITY


def test_runs_whose_instant_has_not_come_do_not_give_way() -> None:
    ready = ReadySet(lease_s=15.0, capacity=2)
    for run in (a_run(5.0), a_run(6.0)):
        assert ready.add(run)
    assert not ready.add(a_run(1.0, tenant="quiet"))
    assert ready.crowded() == []


def test_the_longest_lane_is_found_again_after_it_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowding, "LOOKED_FOR_EVERY", 5)
    ready = crowded_set(*loud(12), *(a_run(at, tenant="other") for at in range(8)))
    assert not ready.add(a_run(500.0, tenant="loud"))
    for run in ready.take(wanted("default", tenant="loud"), 11):
        ready.gone(run.id)
    for at in range(11):
        assert ready.add(a_run(600.0 + at, tenant="other"))
    ready.release(1e9)
    let_in = [ready.add(a_run(700.0 + at, tenant="loud")) for at in range(5)]
    assert let_in[-1], "within so many tries"


@pytest.mark.parametrize("seed", range(20))
def test_the_books_of_memory_balance_whatever_gives_way(seed: int) -> None:
    chance, ready, known = random.Random(seed), ReadySet(lease_s=15.0, capacity=50), Counter[str]()
    for step in range(2_000):
        tenant = chance.choice(["loud"] * 20 + ["quiet", "still"])
        overlap = chance.choice([Overlap.ALLOW, Overlap.ALLOW, Overlap.QUEUE_ALL])
        known[tenant] += ready.add(
            a_run(
                float(step), tenant=tenant, priority=chance.randint(0, 9), overlap=overlap, target=chance.choice("ab")
            )
        )
        ready.release(float(step))
        if chance.random() < 0.2:
            for run in ready.take(wanted("default"), 3):
                ready.granted(run, "w", 1, 1, 60.0, float(step))
                ready.gone(run.id)
        phases = Counter(run.phase for run in ready.runs.values())
        assert ready.queued == phases[Phase.LANE]
        assert len(ready) <= 50
        assert Phase.GONE not in phases
    assert all(known[tenant] > 20 for tenant in ("quiet", "still"))
    while taken := ready.take(wanted("default"), 10):
        for run in taken:
            ready.gone(run.id)
    assert ready.queued == 0
