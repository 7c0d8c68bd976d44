"""What a due timer becomes: the look-ahead, late ticks, the straight path, and new zone data."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium import errors
from horarium.domain import firing, misfire, schedule
from horarium.domain.firing import FiringPolicy, Plan, Planner, Tick
from horarium.domain.misfire import Misfire, MisfirePolicy
from horarium.domain.overlap import Overlap

JOB = UUID(int=42)
NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
LOOKAHEAD = timedelta(seconds=10)


def every(interval: timedelta, anchor: datetime = NOW - DAY, **bounds: object) -> str:
    return schedule.encode(schedule.Schedule(schedule.Every(interval, anchor), **bounds))  # type: ignore[arg-type]


def plan(
    key: str,
    nominal: datetime,
    *,
    policy: MisfirePolicy | None = None,
    now: datetime = NOW,
    due: datetime | None = None,
) -> Plan:
    policy_key = firing.encode_policy(FiringPolicy(policy or MisfirePolicy()))
    return Planner().plan(JOB, Tick(nominal, due or nominal), key, policy_key, now, now + LOOKAHEAD)


def nominal_times(made: Plan) -> list[datetime]:
    return [tick.scheduled_for for tick in made.ticks]


def test_one_tick_and_the_next_one() -> None:
    made = plan(every(HOUR), NOW)
    assert made == Plan([Tick(NOW, NOW)], [], Tick(NOW + HOUR, NOW + HOUR))


def test_a_job_of_each_second_gets_the_ticks_of_the_look_ahead() -> None:
    made = plan(every(SECOND), NOW)
    assert nominal_times(made) == [NOW + n * SECOND for n in range(11)]
    assert made.next == Tick(NOW + 11 * SECOND, NOW + 11 * SECOND)


def test_a_schedule_that_ends_has_no_next() -> None:
    made = plan(every(HOUR, end_at=NOW), NOW)
    assert nominal_times(made) == [NOW]
    assert made.next is None


def test_a_one_off_has_no_next() -> None:
    key = schedule.encode(schedule.Schedule(schedule.Once(NOW)))
    assert key.startswith(firing.ONE_OFF)
    made = plan(key, NOW)
    assert (nominal_times(made), made.next) == ([NOW], None)


def test_lateness_under_the_grace_runs_every_tick() -> None:
    made = plan(every(SECOND), NOW - 59 * SECOND)
    assert nominal_times(made) == [NOW + n * SECOND for n in range(-59, 11)]
    assert made.missed == []


def test_overdue_ticks_are_judged_together_by_the_earliest() -> None:
    """The first is late by the grace, so its policy speaks for all: also for those that are late by less (M1 to M3)."""
    made = plan(every(SECOND), NOW - 60 * SECOND)
    assert nominal_times(made) == [NOW + n * SECOND for n in range(11)]
    (missed,) = made.missed
    assert (missed.first, missed.last, missed.count) == (NOW - 60 * SECOND, NOW - SECOND, 60)
    assert (missed.reason, missed.coalesced_into) == ("coalesced", NOW)


@pytest.mark.parametrize(
    ("policy", "ran"),
    [
        (MisfirePolicy(Misfire.SKIP), []),
        (MisfirePolicy(Misfire.RUN_ONCE), [NOW - HOUR + 50 * MINUTE]),
        (MisfirePolicy(Misfire.RUN_ALL), [NOW - HOUR + n * 10 * MINUTE for n in range(6)]),
        (MisfirePolicy(Misfire.RUN_ALL, max_catch_up=2), [NOW - HOUR + n * 10 * MINUTE for n in (4, 5)]),
        (
            MisfirePolicy(Misfire.RUN_ALL, catch_up_window=25 * MINUTE),
            [NOW - HOUR + n * 10 * MINUTE for n in (4, 5)],
        ),
    ],
)
def test_each_policy_after_an_outage(policy: MisfirePolicy, ran: list[datetime]) -> None:
    now = NOW - MINUTE
    made = plan(every(10 * MINUTE), NOW - HOUR, policy=policy, now=now)
    assert nominal_times(made) == ran
    assert made.next == Tick(NOW, NOW)
    assert len(ran) + sum(missed.count for missed in made.missed) == 6


def test_after_an_outage_the_next_tick_is_the_first_after_now() -> None:
    made = plan(every(SECOND), NOW - DAY, policy=MisfirePolicy(Misfire.SKIP))
    assert made.ticks[0] == Tick(NOW + SECOND, NOW + SECOND)
    assert made.next is not None
    assert made.next.scheduled_for == NOW + 11 * SECOND


@given(
    st.integers(1, 400),
    st.integers(-3000, 10),
    st.sampled_from(list(Misfire)),
    st.integers(0, 120),
    st.integers(0, 20),
    st.integers(0, 3600),
)
def test_every_nominal_time_is_a_tick_or_missed(
    interval_s: int, first_s: int, rule: Misfire, grace_s: int, max_catch_up: int, window_s: int
) -> None:
    """From the timer's occurrence to the next one, none is left out and none is counted twice."""
    policy = MisfirePolicy(rule, timedelta(seconds=grace_s), timedelta(seconds=window_s), max_catch_up)
    first = NOW + first_s * SECOND
    key = every(interval_s * SECOND, anchor=first, start_at=first)
    made = plan(key, first, policy=policy)
    assert made.next is not None
    expected = schedule.fires_between(
        schedule.decode(key), first - SECOND, made.next.scheduled_for - timedelta(microseconds=1), 100_000
    )
    missed = [each.first + n * interval_s * SECOND for each in made.missed for n in range(each.count)]
    assert sorted([*nominal_times(made), *missed]) == expected
    assert nominal_times(made) == sorted(nominal_times(made))
    assert made.next.scheduled_for > NOW or made.next.due_at > NOW + LOOKAHEAD


def test_no_more_than_a_thousand_ticks_are_made_at_once() -> None:
    policy = MisfirePolicy(grace=2 * HOUR)
    made = plan(every(SECOND), NOW - HOUR, policy=policy)
    assert len(made.ticks) == firing.TICKS_AT_ONCE
    assert made.next == Tick(NOW - HOUR + 1000 * SECOND, NOW - HOUR + 1000 * SECOND)


@given(st.integers(2, 600), st.integers(0, 2000))
def test_jitter_keeps_the_order_and_never_reaches_the_next_tick(interval_s: int, jitter_s: int) -> None:
    key = every(interval_s * SECOND, anchor=NOW, jitter=jitter_s * SECOND)
    planner, tick = Planner(), Tick(NOW, NOW)
    for _ in range(5):
        following = planner.next_tick(JOB, key, tick.scheduled_for)
        assert following is not None
        assert following.scheduled_for == tick.scheduled_for + interval_s * SECOND
        assert following.scheduled_for <= following.due_at < following.scheduled_for + interval_s * SECOND
        assert tick.due_at <= following.due_at
        assert following.due_at - following.scheduled_for <= jitter_s * SECOND
        assert planner.next_tick(JOB, key, tick.scheduled_for) == following
        tick = following


def test_lateness_counts_from_the_due_time() -> None:
    """A tick that jitter delays is not late while it waits."""
    key = every(HOUR, anchor=NOW, jitter=50 * MINUTE)
    made = plan(key, NOW, due=NOW + 40 * MINUTE, now=NOW + 40 * MINUTE + 59 * SECOND)
    assert made.ticks == [Tick(NOW, NOW + 40 * MINUTE)]
    assert made.missed == []


def test_a_zone_that_vanished_is_told() -> None:
    key = schedule.encode(schedule.Schedule(schedule.Cron("0 9 * * *", "Mars/Olympus")))
    with pytest.raises(errors.InvalidScheduleError):
        plan(key, NOW)


@given(st.integers(1, 4000), st.integers(-100, 10), st.sampled_from([0, 30, 60]))
def test_the_straight_path_agrees_with_the_long_one(interval_s: int, late_s: int, grace_s: int) -> None:
    """Where it answers, it answers the same; where it does not, the long way is taken."""
    nominal, key = NOW + late_s * SECOND, every(interval_s * SECOND, anchor=NOW - DAY)
    policy_key = firing.encode_policy(FiringPolicy(MisfirePolicy(grace=grace_s * SECOND)))
    planner = Planner()
    following = planner.straight(key, policy_key, nominal, NOW)
    made = planner.plan(JOB, Tick(nominal, nominal), key, policy_key, NOW, NOW + LOOKAHEAD)
    if following is None:
        assert NOW - nominal >= grace_s * SECOND
    elif following > NOW + LOOKAHEAD:
        assert made == Plan([Tick(nominal, nominal)], [], Tick(following, following))
    else:
        assert nominal_times(made)[1:2] == [following]
    assert planner.straight(key, policy_key, nominal, NOW) == following


@pytest.mark.parametrize(
    "key",
    [
        schedule.encode(schedule.Schedule(schedule.Once(NOW))),
        every(HOUR, jitter=MINUTE),
        every(HOUR, end_at=NOW),
    ],
)
def test_one_offs_jitter_and_last_ticks_take_the_long_way(key: str) -> None:
    assert Planner().straight(key, "", NOW, NOW) is None


def test_the_straight_path_forgets_when_it_knows_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firing, "REMEMBERED", 3)
    planner = Planner()
    for n in range(10):
        assert planner.straight(every(HOUR), "", NOW + n * HOUR, NOW) == NOW + (n + 1) * HOUR
    assert len(planner._straight) <= 3


whole_seconds = st.integers(0, 10**6).map(lambda seconds: timedelta(seconds=seconds))


@given(
    st.builds(
        FiringPolicy,
        st.builds(MisfirePolicy, st.sampled_from(list(Misfire)), whole_seconds, whole_seconds, st.integers(0, 1000)),
        st.sampled_from(list(Overlap)),
    )
)
def test_a_policy_comes_back_as_it_was_written(policy: FiringPolicy) -> None:
    assert firing.decode_policy(firing.encode_policy(policy)) == policy


def test_the_usual_policy_is_the_empty_text() -> None:
    assert firing.encode_policy(FiringPolicy()) == ""
    assert firing.decode_policy("") == FiringPolicy()
    assert firing.encode_policy(FiringPolicy(overlap=Overlap.SKIP)) == "o=skip"


RIGA = schedule.Schedule(schedule.Cron("30 9 * * *", "Europe/Riga"))
HOURLY = schedule.Schedule(schedule.Cron("30 * * * *", "Europe/Riga"))


def fire(after: datetime, of: schedule.Schedule = RIGA) -> datetime:
    found = schedule.next_fire(of, after)
    assert found is not None
    return found


def test_new_zone_data_move_the_next_time() -> None:
    """Z1: the next time after the last one that was handled, whatever had been computed."""
    last, right = fire(NOW - DAY), fire(NOW)
    for wrong in (right - HOUR, right + HOUR):
        assert firing.recompute(RIGA, last, wrong, NOW) == right


def test_a_slot_that_has_had_its_fire_gets_no_second_one() -> None:
    """The offset moved by an hour: the fire an hour after the handled one is that same slot."""
    slot = fire(NOW)
    handled = slot - HOUR  # as the old data had it
    assert firing.recompute(RIGA, handled, handled + DAY, handled + SECOND) == fire(slot)


def test_an_hourly_job_does_not_lose_its_next_hour() -> None:
    """A wildcard job fires each hour, so the next hour is no second fire of the same slot (T2, T4)."""
    last = fire(NOW, HOURLY) - timedelta(minutes=15)
    assert firing.recompute(HOURLY, last, last + HOUR, last + SECOND) == fire(last, HOURLY)


def test_an_interval_is_elapsed_time_and_does_not_move() -> None:
    of = schedule.Schedule(schedule.Every(HOUR, NOW))
    assert firing.recompute(of, NOW + HOUR, NOW + 2 * HOUR, NOW + HOUR + SECOND) == NOW + 2 * HOUR


def test_a_job_that_never_fired_gets_no_time_before_the_one_it_had() -> None:
    right = fire(NOW)
    assert firing.recompute(RIGA, None, right + HOUR, NOW) == right
    overdue = fire(NOW - DAY)
    assert firing.recompute(RIGA, None, overdue, NOW) == overdue


def test_a_schedule_without_further_times_has_none() -> None:
    ended = schedule.Schedule(schedule.Cron("30 9 * * *", "Europe/Riga"), end_at=NOW)
    assert firing.recompute(ended, fire(NOW - DAY), NOW + DAY, NOW) is None


def test_a_one_off_stands_where_it_stands() -> None:
    assert firing.recompute(schedule.Schedule(schedule.Once(NOW - HOUR)), None, NOW, NOW) == NOW - HOUR


def test_missed_is_what_misfire_says() -> None:
    settled = misfire.settle(schedule.decode(every(MINUTE)), MisfirePolicy(), NOW - HOUR, NOW)
    made = plan(every(MINUTE), NOW - HOUR)
    assert (nominal_times(made)[:1], made.missed) == (settled[0], settled[1])
