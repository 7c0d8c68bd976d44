"""Which run goes out next: nothing is held back, shares are fair, waiting raises the priority."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable, Iterable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horarium.domain import lanes
from horarium.domain.lanes import Lanes, Wanted
from horarium.domain.run import LiveRun, Phase
from tests.builders import a_run, wanted

TENANTS = ("acme", "bolt", "core", "dune")
QUEUES = ("default", "mail", "slow")
TARGETS = ("work", "other", "@http")


def filled(runs: Iterable[LiveRun], weight_of: Callable[[str], float] = lambda tenant: 1.0) -> Lanes:
    found = Lanes(weight_of)
    for run in runs:
        run.phase = Phase.LANE
        found.push(run)
    return found


def take(found: Lanes, want: Wanted, limit: int) -> list[LiveRun]:
    """Take, and mark what was taken, as the ready set does."""
    taken = found.take(want, limit)
    for run in taken:
        run.phase = Phase.CLAIMING
    return taken


def weighted(weights: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple(weights.items())


runs = st.builds(
    a_run,
    st.floats(0, 1000),
    tenant=st.sampled_from(TENANTS),
    queue=st.sampled_from(QUEUES),
    target=st.sampled_from(TARGETS),
    priority=st.integers(0, 9),
)
wishes = st.builds(
    Wanted,
    st.lists(st.sampled_from(QUEUES), min_size=1, max_size=3, unique=True).flatmap(
        lambda names: st.tuples(*(st.tuples(st.just(name), st.sampled_from([1.0, 2.0, 6.0])) for name in names))
    ),
    st.none() | st.frozensets(st.sampled_from(TARGETS), max_size=2),
    st.booleans(),
    st.none() | st.sampled_from(TENANTS),
)


def fits(run: LiveRun, want: Wanted) -> bool:
    return (
        run.phase is Phase.LANE
        and run.queue in {name for name, _ in want.queues}
        and want.accepts(run.target_key)
        and want.tenant in (None, run.tenant_id)
    )


@given(st.data())
@settings(max_examples=60)
def test_a_worker_gets_all_that_fits_up_to_its_limit(data: st.DataObject) -> None:
    """Work-conserving, whatever was pushed, taken and retracted before, and whatever the weights are."""
    weights = data.draw(st.fixed_dictionaries({tenant: st.sampled_from([0.01, 0.3, 1, 2.5, 7]) for tenant in TENANTS}))
    found, waiting = Lanes(weights.__getitem__), list[LiveRun]()
    for _ in range(data.draw(st.integers(1, 4))):
        for run in data.draw(st.lists(runs, max_size=8)):
            run.phase = Phase.LANE
            found.push(run)
            waiting.append(run)
        for run in data.draw(st.lists(st.sampled_from(waiting), max_size=3)) if waiting else ():
            if run.phase is Phase.LANE:
                run.phase = Phase.GONE
        want, limit = data.draw(wishes), data.draw(st.integers(1, 15))
        fitting = [run for run in waiting if fits(run, want)]
        taken = take(found, want, limit)
        assert len(taken) == min(limit, len(fitting))
        assert len({run.id for run in taken}) == len(taken)
        assert set(taken) <= set(fitting)


@given(st.lists(st.tuples(st.floats(0, 5000), st.integers(0, 9)), max_size=30), st.integers(1, 7))
def test_inside_a_lane_priority_goes_first_and_waiting_raises_it(
    given_runs: list[tuple[float, int]], limit: int
) -> None:
    """One step of priority for each sixty seconds; equals go in the order they came."""
    found = filled(a_run(ready_at, priority=priority) for ready_at, priority in given_runs)
    order = []
    while taken := take(found, wanted(), limit):
        order += [(run.ready_at, run.priority) for run in taken]
    assert order == sorted(given_runs, key=lambda pair: pair[0] - 60 * pair[1])


@given(st.data())
@settings(max_examples=100)
def test_a_lane_keeps_its_order_whatever_comes_goes_and_is_retracted_between(data: st.DataObject) -> None:
    found, waiting = Lanes(), list[LiveRun]()
    of_one_tenant = st.builds(
        a_run, st.integers(0, 300).map(float), target=st.sampled_from(TARGETS), priority=st.integers(0, 3)
    )
    for _ in range(data.draw(st.integers(1, 5))):
        for run in data.draw(st.lists(of_one_tenant, max_size=10)):
            run.phase = Phase.LANE
            run.at_front = data.draw(st.booleans())
            found.push(run)
            waiting.append(run)
        for run in data.draw(st.lists(st.sampled_from(waiting), max_size=2, unique=True)) if waiting else []:
            run.phase = Phase.GONE
            waiting.remove(run)
        expected = sorted(waiting, key=lanes.order_of)[: data.draw(st.integers(1, 6))]
        assert take(found, wanted(handlers=TARGETS), len(expected)) == expected
        waiting = [run for run in waiting if run not in expected]


@pytest.mark.parametrize(("waited", "first"), [(239.0, "high"), (241.0, "low")])
def test_a_low_priority_overtakes_after_a_minute_a_step(waited: float, first: str) -> None:
    low, high = a_run(0.0, priority=1), a_run(waited, priority=5)
    found = filled([low, high])
    assert take(found, wanted(), 1) == [high if first == "high" else low]


def test_equals_go_in_the_order_they_came() -> None:
    same = [a_run(7.0, target=target) for target in ("b", "a", "c", "a")]
    assert take(filled(same), wanted(), 4) == same


def test_an_interrupted_run_goes_to_the_front_of_its_lane() -> None:
    urgent, interrupted = a_run(0.0, priority=9), a_run(100.0, priority=0)
    interrupted.at_front = True
    assert take(filled([urgent, interrupted]), wanted(), 1) == [interrupted]


def test_a_run_that_has_become_ready_is_the_next_one_out() -> None:
    """Decided at the moment a worker asks: what waits already has no claim to its place."""
    found = filled(a_run(priority=5) for _ in range(10))
    take(found, wanted(), 3)
    critical = a_run(priority=9)
    critical.phase = Phase.LANE
    found.push(critical)
    assert take(found, wanted(), 1) == [critical]


@given(
    st.fixed_dictionaries({tenant: st.sampled_from([1, 2, 3, 5]) for tenant in TENANTS}),
    st.lists(st.integers(1, 9), min_size=1, max_size=25),
)
@settings(max_examples=50)
def test_tenants_share_by_their_weights(weights: dict[str, int], limits: list[int]) -> None:
    """However the takes are cut, no tenant is ever further from its share than one turn of each."""
    found = filled((a_run(tenant=tenant) for tenant in TENANTS for _ in range(sum(limits))), weights.__getitem__)
    counts: collections.Counter[str] = collections.Counter()
    for limit in limits:
        counts.update(run.tenant_id for run in take(found, wanted(), limit))
    total = sum(limits)
    for tenant, weight in weights.items():
        assert abs(counts[tenant] - total * weight / sum(weights.values())) <= 2 * max(weights.values())


def test_fractions_of_weights_add_up() -> None:
    weights = {"acme": 0.25, "bolt": 1.0}
    found = filled((a_run(tenant=tenant) for tenant in weights for _ in range(100)), weights.__getitem__)
    counts = collections.Counter(run.tenant_id for _ in range(50) for run in take(found, wanted(), 1))
    assert counts == {"acme": 10, "bolt": 40}


@pytest.mark.parametrize("limit", [1, 10])
def test_a_tenant_with_a_hundred_thousand_waiting_delays_another_by_at_most_one_round(limit: int) -> None:
    found = filled(a_run(tenant="flood", priority=9) for _ in range(100_000))
    take(found, wanted(), limit)
    late = a_run(1e6, tenant="small", priority=0)
    late.phase = Phase.LANE
    found.push(late)
    next_out = take(found, wanted(), 1) + take(found, wanted(), 1)
    assert late in next_out


def test_a_tenant_that_was_empty_saves_nothing_up() -> None:
    """A lane that comes back starts anew, so its tenant cannot take a burst."""
    found = filled([a_run(tenant="quiet"), *(a_run(tenant="busy") for _ in range(60))])
    take(found, wanted(), 40)
    for _ in range(20):
        run = a_run(tenant="quiet")
        run.phase = Phase.LANE
        found.push(run)
    assert collections.Counter(run.tenant_id for run in take(found, wanted(), 10)) == {"quiet": 5, "busy": 5}


@given(
    st.fixed_dictionaries({queue: st.sampled_from([1.0, 2.0, 3.0, 6.0]) for queue in QUEUES}),
    st.lists(st.integers(1, 9), min_size=1, max_size=25),
)
@settings(max_examples=50)
def test_queues_share_by_the_workers_weights(weights: dict[str, float], limits: list[int]) -> None:
    found = filled(a_run(queue=queue) for queue in QUEUES for _ in range(sum(limits)))
    counts: collections.Counter[str] = collections.Counter()
    for limit in limits:
        counts.update(run.queue for run in take(found, Wanted(weighted(weights)), limit))
    for queue, weight in weights.items():
        assert abs(counts[queue] - sum(limits) * weight / sum(weights.values())) <= 2


def test_what_a_queue_cannot_use_goes_to_the_others() -> None:
    found = filled([a_run(queue="slow"), *(a_run(queue="default") for _ in range(10))])
    taken = take(found, Wanted(weighted({"mail": 6, "slow": 3, "default": 1})), 8)
    assert collections.Counter(run.queue for run in taken) == {"slow": 1, "default": 7}


def test_in_strict_order_the_first_queue_goes_first() -> None:
    found = filled([*(a_run(queue="default", priority=9) for _ in range(5)), *(a_run(queue="mail") for _ in range(3))])
    taken = take(found, Wanted(weighted({"mail": 1, "default": 1}), strict=True), 5)
    assert [run.queue for run in taken] == ["mail"] * 3 + ["default"] * 2


def test_a_queue_that_nobody_asks_for_stays() -> None:
    found = filled([a_run(queue="mail")])
    assert take(found, wanted("default"), 5) == []
    assert len(take(found, wanted("mail"), 5)) == 1


@pytest.mark.parametrize(
    ("handlers", "fitting"),
    [(None, {"work", "other"}), ({"work"}, {"work"}), ({"@http"}, {"@http"}), ({"none"}, set()), (set(), set())],
)
def test_a_worker_gets_what_it_can_run(handlers: set[str] | None, fitting: set[str]) -> None:
    """Any handler means none of the built-in targets."""
    found = filled(a_run(target=target) for target in TARGETS)
    taken = take(found, Wanted((("default", 1.0),), None if handlers is None else frozenset(handlers)), 10)
    assert {run.target_key for run in taken} == fitting


def test_a_worker_is_not_slowed_by_what_it_cannot_run() -> None:
    """Runs are kept apart by target: the head of each is looked at, not what is behind it."""
    found = filled([*(a_run(0.0, target="other", priority=9) for _ in range(50_000)), a_run(target="work")])
    looked_at = 0

    def accepts(target: str) -> bool:
        nonlocal looked_at
        looked_at += 1
        return target == "work"

    lane = found._queues["default"].lanes["default"]
    assert [run.target_key for run in lane.take(accepts, 5)] == ["work"]
    assert looked_at == 2


def test_empty_tenants_before_a_full_one_do_not_end_the_walk() -> None:
    gone = [a_run(tenant=f"gone-{number}") for number in range(5)]
    found = filled([*gone, a_run(tenant="here")])
    for run in gone:
        run.phase = Phase.GONE
    assert [run.tenant_id for run in take(found, wanted(), 5)] == ["here"]


def test_what_is_empty_is_forgotten() -> None:
    rng = random.Random(7)
    found = filled(a_run(tenant=rng.choice(TENANTS), queue=rng.choice(QUEUES)) for _ in range(50))
    assert len(take(found, wanted(*QUEUES), 100)) == 50
    assert found._queues == {}


def test_the_shares_of_odd_requests_are_not_kept_for_ever() -> None:
    found = Lanes()
    for number in range(3000):
        for run in (a_run(queue="a"), a_run(queue="b")):
            run.phase = Phase.LANE
            found.push(run)
        take(found, Wanted((("a", 1.0), ("b", 1.0 + number))), 2)
    assert len(found._credits) <= 1001


def test_order_is_a_fixed_number() -> None:
    run = a_run(100.0, priority=3)
    assert lanes.order_of(run) == 100.0 - 180.0
    run.at_front = True
    assert lanes.order_of(run) == lanes.FRONT
