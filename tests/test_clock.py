"""The database's time, measured from here."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from horarium import clock as clocks
from horarium.clock import DatabaseClock

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Measured:
    """A clock that is measured by hand: `offset` is what the database is ahead of the monotonic clock, in seconds."""

    def __init__(self) -> None:
        self.clock = DatabaseClock()

    def observe(self, offset: float, round_trip: float = 0.002) -> float:
        """One measurement whose middle says `offset`."""
        asked_at = 1000.0
        said = clocks.to_datetime(asked_at + round_trip / 2 + offset)
        return self.clock.observe(said, asked_at, asked_at + round_trip)

    @property
    def offset(self) -> float:
        """What the clock adds to the monotonic one now."""
        return self.clock.time() - time.monotonic()


OFFSET = clocks.to_seconds(AT)
ONE_TICK = 0.001  # between two looks at the monotonic clock


@pytest.fixture
def measured() -> Measured:
    """A clock that was measured once, well."""
    made = Measured()
    assert made.observe(OFFSET) == 0.0
    return made


def test_instants_and_seconds_are_the_same_time() -> None:
    assert clocks.to_datetime(0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert clocks.to_datetime(clocks.to_seconds(AT)) == AT
    assert clocks.to_seconds(AT + timedelta(microseconds=500_000)) == clocks.to_seconds(AT) + 0.5
    assert clocks.to_seconds(datetime(1969, 12, 31, tzinfo=UTC)) == -86400


def test_before_any_measurement_the_machines_time_is_taken() -> None:
    clock = DatabaseClock()
    assert abs(clock.time() - time.time()) < 1
    assert abs(clock.skew()) < 1


def test_the_first_measurement_counts_however_far_off_it_is(measured: Measured) -> None:
    assert measured.offset == pytest.approx(OFFSET, abs=ONE_TICK)
    assert abs(measured.clock.now() - clocks.to_datetime(measured.clock.time())) < timedelta(seconds=1)
    assert measured.clock.skew() == pytest.approx(time.time() - time.monotonic() - OFFSET, abs=1)


def test_time_goes_on_with_the_monotonic_clock(measured: Measured) -> None:
    before, first = time.monotonic(), measured.clock.monotonic()
    assert before <= first <= time.monotonic()
    assert measured.clock.now() < measured.clock.now()


def test_the_shortest_round_trip_counts(measured: Measured) -> None:
    assert measured.observe(OFFSET + 0.004, round_trip=0.100) == 0.0
    assert measured.offset == pytest.approx(OFFSET, abs=ONE_TICK)
    assert measured.observe(OFFSET + 0.005, round_trip=0.001) == 0.0
    assert measured.offset == pytest.approx(OFFSET + 0.005, abs=ONE_TICK)


def test_a_good_measurement_counts_among_the_last_eight_only(measured: Measured) -> None:
    for _ in range(7):
        measured.observe(OFFSET + 0.008, round_trip=0.010)
    assert measured.offset == pytest.approx(OFFSET, abs=ONE_TICK)
    measured.observe(OFFSET + 0.008, round_trip=0.010)
    assert measured.offset == pytest.approx(OFFSET + 0.008, abs=ONE_TICK)


def test_a_busy_moment_is_no_step(measured: Measured) -> None:
    """A round trip of two seconds may be off by one: it says nothing against what is known."""
    assert measured.observe(OFFSET + 1.0, round_trip=2.0) == 0.0
    assert measured.offset == pytest.approx(OFFSET, abs=ONE_TICK)


@pytest.mark.parametrize("step", [3600.0, 0.5, -0.5, -3600.0])
def test_a_step_of_the_database_counts_at_once(measured: Measured, step: float) -> None:
    for _ in range(8):
        measured.observe(OFFSET)
    assert measured.observe(OFFSET + step, round_trip=0.050) == pytest.approx(step)
    assert measured.offset == pytest.approx(OFFSET + step, abs=ONE_TICK)
    assert measured.observe(OFFSET + step) == 0.0
    assert measured.offset == pytest.approx(OFFSET + step, abs=ONE_TICK)


@pytest.mark.parametrize(("off", "is_step"), [(0.011, False), (0.013, True), (-0.011, False), (-0.013, True)])
def test_a_step_is_more_than_both_uncertainties_and_ten_milliseconds(
    measured: Measured, off: float, is_step: bool
) -> None:
    assert (measured.observe(OFFSET + off) != 0.0) is is_step
