"""Whether the books of a job balance: nothing lost, nothing doubled, nothing that was not due."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horarium.domain import schedule
from horarium.domain.audit import Books, Finding, Span, Stretch, Version, Wrong, judge
from horarium.domain.faults import ADVICE, Kind

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY = Span(NOON, NOON + timedelta(days=1))
HOURLY = schedule.Schedule(schedule.Cron("0 * * * *", "UTC"))


def hour(number: float) -> datetime:
    return NOON + timedelta(hours=number)


def books(*skips: Stretch, until: float = 6, without: tuple[int, ...] = (), more: tuple[float, ...] = ()) -> Books:
    """An hourly job from noon on: ticks 1 to `until`, all run but those that were skipped or are left out."""
    skipped = {n for n in range(1, int(until) + 1) for each in skips if each.first <= hour(n) <= each.last}
    ran = [hour(n) for n in range(1, int(until) + 1) if n not in skipped and n not in without]
    window = Span(NOON, hour(until))
    return Books(window, [Version(HOURLY, window)], [*ran, *map(hour, more)], skips)


def test_books_that_balance() -> None:
    assert judge(books()) == []
    assert judge(books(Stretch(hour(2), hour(4), 3))) == []
    assert judge(books(Stretch(hour(2), hour(2)), Stretch(hour(5), hour(6), 2))) == []


def test_what_is_lost_is_told_as_stretches() -> None:
    assert judge(books(without=(2, 3, 5))) == [
        Finding(Wrong.MISSING, hour(2), hour(3), 2),
        Finding(Wrong.MISSING, hour(5), hour(5), 1),
    ]


def test_what_ran_twice_or_was_not_due() -> None:
    assert judge(books(more=(3,))) == [Finding(Wrong.DOUBLED, hour(3), hour(3), 1)]
    assert judge(books(more=(3.5,))) == [Finding(Wrong.UNEXPECTED, hour(3.5), hour(3.5), 1)]


def test_a_tick_that_ran_and_was_skipped() -> None:
    assert judge(books(Stretch(hour(3), hour(3)), more=(3,))) == [Finding(Wrong.DOUBLED, hour(3), hour(3), 1)]
    assert judge(books(Stretch(hour(3.5), hour(3.5)))) == [Finding(Wrong.UNEXPECTED, hour(3.5), hour(3.5), 1)]


def test_in_a_stretch_ticks_are_counted() -> None:
    assert judge(books(Stretch(hour(2), hour(4), 2), more=(3,))) == []  # one of the three ran meanwhile
    assert judge(books(Stretch(hour(2), hour(4), 2))) == [Finding(Wrong.MISSING, hour(2), hour(4), 1)]
    assert judge(books(Stretch(hour(2), hour(4), 4))) == [Finding(Wrong.DOUBLED, hour(2), hour(4), 1)]
    assert judge(books(Stretch(hour(2), hour(4), 3), more=(2.5,))) == [
        Finding(Wrong.UNEXPECTED, hour(2.5), hour(2.5), 1)
    ]


def test_stretches_that_overlap_are_counted_together() -> None:
    assert judge(books(Stretch(hour(1), hour(4), 2), Stretch(hour(2), hour(5), 3))) == []
    assert judge(books(Stretch(hour(1), hour(4), 2), Stretch(hour(2), hour(5), 2))) == [
        Finding(Wrong.MISSING, hour(1), hour(5), 1)
    ]


def test_a_lower_bound_is_one() -> None:
    assert judge(books(Stretch(hour(1), hour(5), 2, exact=False))) == []
    assert judge(books(Stretch(hour(1), hour(5), 6, exact=False))) == [Finding(Wrong.DOUBLED, hour(1), hour(5), 1)]


def test_nothing_is_said_about_what_cannot_be_told() -> None:
    lost = dataclasses.replace(books(without=(2, 3)), unknown=[Span(hour(1), hour(3))])
    assert judge(lost) == []
    reaching_in = dataclasses.replace(
        books(Stretch(hour(3), hour(5), 1), without=(2,)), unknown=[Span(hour(1), hour(3))]
    )
    assert judge(reaching_in) == []
    begun_before = dataclasses.replace(books(Stretch(hour(-5), hour(2), 1)), window=Span(NOON, hour(6)))
    assert judge(begun_before) == []


def test_each_schedule_governs_its_time() -> None:
    every_half = schedule.Schedule(schedule.Cron("*/30 * * * *", "UTC"))
    window = Span(NOON, hour(4))
    versions = [Version(HOURLY, Span(NOON, hour(2.25))), Version(every_half, Span(hour(2.25), hour(4)))]
    ran = [hour(n) for n in (1, 2, 2.5, 3, 3.5, 4)]
    assert judge(Books(window, versions, ran)) == []
    assert judge(Books(window, versions, [*ran, hour(1.5)])) == [Finding(Wrong.UNEXPECTED, hour(1.5), hour(1.5), 1)]


def test_a_one_off_may_lie_a_moment_before_it_was_made() -> None:
    once = schedule.Schedule(schedule.Once(hour(1)))
    versions = [Version(once, Span(hour(1) + 3 * MINUTE, hour(6)))]
    assert judge(Books(Span(NOON, hour(6)), versions, [hour(1)])) == []
    assert judge(Books(Span(NOON, hour(6)), versions)) == [Finding(Wrong.MISSING, hour(1), hour(1), 1)]


ZONES = st.sampled_from(["UTC", "America/New_York", "Africa/Cairo", "Australia/Lord_Howe"])
EXPRESSIONS = st.sampled_from(["*/7 * * * *", "30 1,2,3 * * *", "0 * * * *", "15 */3 * * SUN", "* 2 * * *"])
PLANS = st.one_of(
    st.builds(schedule.Cron, EXPRESSIONS, ZONES),
    st.builds(lambda s: schedule.Every(timedelta(minutes=s), NOON), st.integers(3, 200)),
)
STARTS = st.integers(0, 365 * 24).map(lambda hours: NOON + timedelta(hours=hours))


@settings(derandomize=True, max_examples=60, deadline=None)
@given(PLANS, STARTS, st.randoms(use_true_random=False))
def test_whatever_way_ticks_end_the_books_balance_and_one_that_is_lost_is_found(
    timing: schedule.Timing, start: datetime, chance: object
) -> None:
    """Ticks run, are skipped one by one, or in stretches with runs between them; then one is taken away, or doubled."""
    rng = chance  # a random.Random of hypothesis
    window = Span(start, start + timedelta(days=2))
    plan = schedule.Schedule(timing)
    due = schedule.fires_between(plan, window.after, window.until, 10_000)
    if not due:
        return
    ran, skips, place = [], [], 0
    while place < len(due):
        part = due[place : place + rng.randint(1, 6)]  # type: ignore[attr-defined]
        place += len(part)
        left_out = [tick for tick in part if rng.random() < 0.5]  # type: ignore[attr-defined]
        ran += [tick for tick in part if tick not in left_out]
        if left_out:
            skips.append(Stretch(left_out[0], left_out[-1], len(left_out)))
    whole = Books(window, [Version(plan, window)], ran, skips)
    assert judge(whole) == []
    if ran:
        lost = rng.choice(ran)  # type: ignore[attr-defined]
        assert sum(_signed(each) for each in judge(_with(whole, [tick for tick in ran if tick != lost]))) == -1
        assert [each.wrong for each in judge(_with(whole, [*ran, lost]))] == [Wrong.DOUBLED]
    if skips:
        fewer = dataclasses.replace(whole, skips=skips[1:])
        assert sum(_signed(each) for each in judge(fewer)) == -skips[0].number


def _with(whole: Books, ran: list[datetime]) -> Books:
    return dataclasses.replace(whole, runs=ran)


def _signed(found: Finding) -> int:
    return -found.number if found.wrong is Wrong.MISSING else found.number


@pytest.mark.parametrize("kind", Kind)
def test_for_each_kind_of_fault_there_is_something_to_do(kind: Kind) -> None:
    assert ADVICE[kind]
