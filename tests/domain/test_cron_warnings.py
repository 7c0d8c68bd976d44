"""What is said at create about the changes of clocks of the coming year."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from horarium import errors
from horarium.domain import cron

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
SPRING = "Clocks in America/New_York go forward from 2026-03-08 02:00 to 03:00: "
AUTUMN = "Clocks in America/New_York go back from 2026-11-01 02:00 to 01:00: "


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("30 2 * * *", [SPRING + "the run of 02:30 starts at 03:00 instead."]),
        ("0,30 2 * * *", [SPRING + "the runs of 02:00 to 02:30 become one, at 03:00."]),
        ("*/20 2 * * *", [SPRING + "the slots 02:00 to 02:40 are left out, as they do not exist."]),
        ("0 */2 * * *", [SPRING + "the slot 02:00 is left out, as it does not exist."]),
        ("30 0 */2 * * *", [SPRING + "the slot 02:00:30 is left out, as it does not exist."]),
        (
            "0 0-23 * * *",
            [
                SPRING + "the run of 02:00 starts at 03:00 instead.",
                AUTUMN
                + "the run of 01:00 starts in the first pass only, which adds 60 minutes to the wait for the next; "
                "start the hour field with * to run in both.",
            ],
        ),
        ("*/15 1 * * *", [AUTUMN + "the runs of 01:00 to 01:45 start in both passes."]),
        ("0 * * * *", [SPRING + "the slot 02:00 is left out, as it does not exist."]),
        ("30 1 * * *", []),
        ("0 9 * * *", []),
        ("30 2 * * 1-5", []),
        ("0 0 29 2 *", []),
        ("0 1,13 * * *", []),
    ],
)
def test_new_york(expression: str, want: list[str]) -> None:
    assert cron.warnings(expression, "America/New_York", NEW_YEAR) == want


def test_riga_leaves_out_a_slot_of_a_three_hourly_job() -> None:
    (warning,) = cron.warnings("0 */3 * * *", "Europe/Riga", NEW_YEAR)
    assert warning.startswith("Clocks in Europe/Riga go forward from 2026-03-29 03:00 to 04:00: ")
    assert warning.endswith("the slot 03:00 is left out, as it does not exist.")


def test_half_an_hour_is_told_as_such() -> None:
    back, forward = cron.warnings("0,15,30,45 0-23 * * *", "Australia/Lord_Howe", NEW_YEAR)
    assert back.startswith(
        "Clocks in Australia/Lord_Howe go back from 2026-04-05 02:00 to 01:30: the runs of 01:30 to 01:45 "
    )
    assert "adds 30 minutes to the wait" in back
    assert forward.startswith("Clocks in Australia/Lord_Howe go forward from 2026-10-04 02:00 to 02:30: ")
    assert forward.endswith("the runs of 02:00 to 02:15 become one, at 02:30.")


def test_a_date_that_is_left_out_is_told_with_dates() -> None:
    (warning,) = cron.warnings("0 12 * * *", "Pacific/Apia", datetime(2011, 12, 1, tzinfo=UTC))
    assert warning.startswith("Clocks in Pacific/Apia go forward from 2011-12-30 00:00 to 2011-12-31 00:00: ")
    assert warning.endswith("the run of 12:00 starts at 2011-12-31 00:00 instead.")


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Phoenix"])
def test_zones_that_leave_their_clocks_alone_have_no_warnings(zone: str) -> None:
    assert cron.warnings("* * * * *", zone, NEW_YEAR) == []


def test_an_impossible_day_is_not_searched_for() -> None:
    assert cron.warnings("* * */31 * MON#5", "America/New_York", NEW_YEAR) == []
    with pytest.raises(errors.InvalidScheduleError):
        cron.warnings("0 0 30 2 *", "America/New_York", NEW_YEAR)
