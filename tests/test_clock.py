"""The database's time, carried by a clock that never steps."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium import clock as clocks
from horarium.clock import DatabaseClock

NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
instants = st.integers(0, 7_258_118_400 * 10**6).map(lambda micros: clocks.EPOCH + timedelta(microseconds=micros))


@pytest.fixture
def elapsed(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The machine's monotonic clock, moved by hand."""
    passed = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: passed[0])
    monkeypatch.setattr(time, "time", lambda: clocks.to_seconds(NOW) + passed[0])
    return passed


def observe(clock: DatabaseClock, database_now: datetime, asked_at: float, round_trip: float = 0.002) -> float:
    """The database's answer, said in the middle of the round trip."""
    return clock.observe(database_now, asked_at, asked_at + round_trip)


@given(instants)
def test_seconds_and_instants_are_one(instant: datetime) -> None:
    assert abs(clocks.to_datetime(clocks.to_seconds(instant)) - instant) <= timedelta(microseconds=2)


def test_time_goes_on_between_measurements(elapsed: list[float]) -> None:
    clock = DatabaseClock()
    observe(clock, NOW, 1000.0 - 0.001)
    assert clock.now() == NOW
    elapsed[0] += 12.5
    assert clock.now() == NOW + timedelta(seconds=12.5)
    assert clock.monotonic() == 1012.5
    assert clock.time() == pytest.approx(clocks.to_seconds(NOW) + 12.5)


def test_before_the_first_measurement_the_machines_clock_stands_in(elapsed: list[float]) -> None:
    assert DatabaseClock().time() == pytest.approx(clocks.to_seconds(NOW) + 1000.0)


def test_the_first_measurement_is_no_step(elapsed: list[float]) -> None:
    """The machine's own clock may be hours off: that has no effect on when jobs run."""
    clock = DatabaseClock()
    assert observe(clock, NOW + timedelta(hours=5), 1000.0) == 0.0
    assert clock.skew() == pytest.approx(1000 - 5 * 3600, abs=0.01)


def test_of_several_measurements_the_quickest_counts(elapsed: list[float]) -> None:
    """A busy loop makes round trips long, not the clock wrong."""
    clock = DatabaseClock()
    observe(clock, NOW, 1000.0, 0.002)
    exact = clock.time()
    clock.observe(NOW, 1000.0 - 3.0, 1000.0)  # said at the end of a round trip of three seconds
    assert clock.time() == exact


def test_an_old_measurement_gives_way_after_eight_others(elapsed: list[float]) -> None:
    clock = DatabaseClock()
    observe(clock, NOW, 1000.0, 0.0)
    for second in range(1, 9):
        elapsed[0] += 1
        observe(clock, NOW + timedelta(seconds=second, milliseconds=4), elapsed[0], 0.002)
    assert clock.now() - NOW - timedelta(seconds=8) == pytest.approx(timedelta(milliseconds=3), abs=timedelta(0.001))


@pytest.mark.parametrize("step", [3600.0, -3600.0, 0.5, -0.5])
def test_a_step_counts_at_once_and_is_told(elapsed: list[float], step: float) -> None:
    clock = DatabaseClock()
    for _ in range(8):
        observe(clock, NOW, 1000.0)
    assert observe(clock, NOW + timedelta(seconds=step), 1000.0) == pytest.approx(step)
    assert clock.time() == pytest.approx(clocks.to_seconds(NOW) + step, abs=0.01)
    assert observe(clock, NOW + timedelta(seconds=step), 1000.0) == 0.0


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 1)), max_size=30))
def test_honest_answers_are_never_a_step(given_trips: list[tuple[float, float]]) -> None:
    """Wherever in the round trip the database read its clock, and however long it took."""
    clock, asked_at = DatabaseClock(), 0.0
    for round_trip, share in given_trips:
        said = NOW + timedelta(seconds=asked_at + round_trip * share)
        assert clock.observe(said, asked_at, asked_at + round_trip) == 0.0
        asked_at += round_trip + 1
    if given_trips:
        worst = min(round_trip for round_trip, _ in given_trips[-8:]) / 2
        assert abs(clock._offset - clocks.to_seconds(NOW)) <= worst + 0.001
