"""Schedules in English, with the day rule wherever both day fields are set."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horarium import errors
from horarium.domain import cron

EITHER = "(a day matches if either of the two day fields does)"
BOTH = "(both day fields must match, as one of them starts with *)"


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("* * * * *", "Every minute"),
        ("*/15 * * * *", "Every 15 minutes"),
        ("* * * * * *", "Every second"),
        ("*/10 * * * * *", "Every 10 seconds"),
        ("@hourly", "At minute 0 of every hour"),
        ("5 */2 * * *", "At minute 5 of every 2nd hour every day"),
        ("0 */3 * * *", "At minute 0 of every 3rd hour every day"),
        ("0 */6 * * 1", "At minute 0 of every 6th hour on Monday"),
        ("*/7 * * * *", "At minutes 0, 7, 14, … 56 of every hour"),
        ("0 0-23 * * *", "At minute 0 of every hour"),
        ("30 * * * * *", "At second 30 of every minute"),
        ("0-30 0 1 * * *", "At seconds 0 to 30 of minute 0 of hour 1 every day"),
        ("*/15 9-17 * * 1-5", "Every 15 minutes from 09:00 to 17:59 on Monday to Friday"),
        ("0 9 * * MON-FRI", "At 09:00 on Monday to Friday"),
        ("0 7,9 * * *", "At 07:00 and 09:00 every day"),
        ("15 0 0 29 2 *", "At 00:00:15 on day 29 of February"),
        ("30 4 1,15 * *", "At 04:30 on days 1 and 15 of the month"),
        ("0 0 1 JAN,JUL *", "At 00:00 on day 1 of January and July"),
        ("0 0 * 6-8 *", "At 00:00 every day in June to August"),
        ("0 0 * 6 1", "At 00:00 on Monday in June"),
        ("0 0 L * *", "At 00:00 on the last day of the month"),
        ("0 0 15,L 2 *", "At 00:00 on day 15 of February and the last day of February"),
        ("0 0 LW * *", "At 00:00 on the last weekday (Monday to Friday) of the month"),
        ("0 0 * * 5L", "At 00:00 on the last Friday of the month"),
        ("0 9 * * MON#2,FRI#1", "At 09:00 on the second Monday of the month and the first Friday of the month"),
        ("0 0 * * SAT-SUN", "At 00:00 on Saturday and Sunday"),
        ("0 0 * * 0-7", "At 00:00 every day"),
        ("0 0 13 * 5", f"At 00:00 on day 13 of the month, and on Friday {EITHER}"),
        ("0 9 1-31 * 1", f"At 09:00 every day {EITHER}"),
        ("0 9 */2 * 1", f"At 09:00 on days 1, 3, 5, … 31 of the month, if that is also Monday {BOTH}"),
        ("0 9 */2 * *", "At 09:00 on days 1, 3, 5, … 31 of the month"),
        ("0 9 ? * 5", "At 09:00 on Friday"),
    ],
)
def test_words(expression: str, want: str) -> None:
    assert cron.explain(expression) == f"{want}, UTC"


def test_the_zone_stands_at_the_end() -> None:
    assert cron.explain("@daily", "Europe/Riga") == "At 00:00 every day, Europe/Riga time"


FIELDS = ["*", "*/2", "1", "1-3", "2,4", "1/2", "1-5/2,5", "5,*"]
DAYS = [*FIELDS, "?", "L", "LW", "1,L"]
WEEKDAYS = [*FIELDS, "?", "5L", "MON#2", "0-7"]


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.tuples(*(st.sampled_from(each) for each in (FIELDS, FIELDS, FIELDS, DAYS, FIELDS, WEEKDAYS))))
def test_every_expression_has_words_and_names_the_day_rule(fields: tuple[str, ...]) -> None:
    words = cron.explain(" ".join(fields))
    day, weekday = fields[3], fields[5]
    restrict = day not in ("*", "?") and weekday not in ("*", "?", "0-7")
    starred = day.startswith(("*", "?")) or weekday.startswith(("*", "?"))
    assert (BOTH in words) == (restrict and starred)
    assert (EITHER in words) == (not starred)
    assert "  " not in words and words.endswith(", UTC")


def test_what_cannot_be_read_has_no_words() -> None:
    with pytest.raises(errors.InvalidScheduleError):
        cron.explain("61 * * * *")
