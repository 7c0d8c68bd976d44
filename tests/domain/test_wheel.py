"""The timing wheel: nothing early, nothing late, nothing lost, in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from horarium.domain.run import LiveRun, Phase
from horarium.domain.wheel import Wheel
from tests.builders import a_run

NOW = 1_800_000_000.0
EVER = 1e12
instants = st.floats(NOW, NOW + 3, allow_nan=False) | st.integers(0, 300).map(lambda n: NOW + n / 100)


def filled(ready_at: list[float]) -> tuple[Wheel, list[LiveRun]]:
    wheel, runs = Wheel(), [a_run(instant) for instant in ready_at]
    for run in runs:
        wheel.add(run)
    return wheel, runs


def released(wheel: Wheel, until: float, limit: int = 1_000_000) -> list[LiveRun]:
    """Release, and move on what was released, as the ready set does."""
    found = []
    for run in wheel.release(until, limit):
        run.phase = Phase.LANE
        found.append(run)
    return found


@given(st.lists(instants, max_size=40))
def test_runs_come_out_in_the_order_of_their_instants(ready_at: list[float]) -> None:
    wheel, runs = filled(ready_at)
    found = released(wheel, EVER)
    assert [run.ready_at for run in found] == sorted(ready_at)
    assert set(found) == set(runs)
    assert not wheel
    assert wheel.next_instant() is None


@given(st.lists(instants, max_size=40), st.lists(instants, max_size=5).map(sorted))
def test_a_run_comes_out_at_the_first_look_that_is_not_before_it(ready_at: list[float], looks: list[float]) -> None:
    wheel, runs = filled(ready_at)
    for before, now in zip([NOW - 1, *looks], looks, strict=False):
        assert {run.ready_at for run in released(wheel, now)} == {
            instant for instant in ready_at if before < instant <= now
        }
    last = max(looks, default=NOW - 1)
    assert len(released(wheel, EVER)) == sum(run.ready_at > last for run in runs)


@given(st.lists(instants, min_size=1, max_size=40), st.integers(1, 7))
def test_no_more_than_the_limit_comes_out_at_once(ready_at: list[float], limit: int) -> None:
    wheel, _ = filled(ready_at)
    found: list[LiveRun] = []
    while some := released(wheel, EVER, limit):
        assert len(some) <= limit
        found += some
    assert [run.ready_at for run in found] == sorted(ready_at)


@given(st.lists(st.tuples(instants, st.booleans()), max_size=40), st.integers(1, 50))
def test_runs_that_are_gone_are_dropped_and_do_not_count(given_runs: list[tuple[float, bool]], limit: int) -> None:
    wheel, runs = filled([instant for instant, _ in given_runs])
    for run, (_, gone) in zip(runs, given_runs, strict=True):
        run.phase = Phase.GONE if gone else Phase.WHEEL
    here = [run for run in runs if run.phase is Phase.WHEEL]
    assert len(released(wheel, EVER, limit)) == min(limit, len(here))
    released(wheel, EVER)
    assert not wheel


@given(st.lists(instants, min_size=1, max_size=20), st.lists(instants, max_size=20))
def test_runs_may_be_added_between_looks(first: list[float], later: list[float]) -> None:
    """Also into the bucket that was put in order already, and before everything else."""
    wheel, _ = filled(first)
    assert wheel.next_instant() == min(first)
    out = [run.ready_at for run in released(wheel, min(first), 1)]
    for instant in later:
        wheel.add(a_run(instant))
    out += [run.ready_at for run in released(wheel, EVER)]
    assert sorted(out) == sorted([*first, *later])
    assert out[1:] == sorted(out[1:])


@given(st.lists(instants, min_size=1, max_size=20))
def test_the_next_instant_is_the_earliest(ready_at: list[float]) -> None:
    wheel, _ = filled(ready_at)
    for instant in sorted(ready_at):
        assert wheel.next_instant() == instant
        released(wheel, EVER, 1)


def test_an_empty_wheel_has_no_next_instant() -> None:
    wheel = Wheel()
    assert not wheel
    assert wheel.next_instant() is None
    assert released(wheel, EVER) == []


def test_nothing_is_early_by_a_part_of_a_bucket() -> None:
    wheel, _ = filled([NOW + 0.0099])
    assert released(wheel, NOW + 0.0098) == []
    assert len(released(wheel, NOW + 0.0099)) == 1


def test_a_full_hour_costs_one_bucket() -> None:
    wheel, _ = filled([NOW] * 10_000)
    assert len(wheel._order) == 1
    assert len(released(wheel, NOW)) == 10_000
