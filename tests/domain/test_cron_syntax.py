"""What is a cron expression and what is not: every refusal says which field, why, and what to write instead."""

from __future__ import annotations

import string
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horarium import errors
from horarium.domain import cron, cron_syntax


def refusal(expression: str) -> errors.InvalidScheduleError:
    with pytest.raises(errors.InvalidScheduleError) as caught:
        cron_syntax.read(expression)
    return caught.value


def values(expression: str, field: int) -> list[int]:
    """The values of a field, counted from 0 for seconds."""
    return cron_syntax.read(expression)[field].values()


REFUSALS = [
    # expression, field, words of the detail, words of the hint
    ("", "schedule", "is empty", "five fields"),
    (" \t ", "schedule", "is empty", "five fields"),
    ("* " * 200, "schedule", "longer than 255 characters", ""),
    ("0 9 * *\u00a0*", "schedule", "a space that is not the plain one (U+00A0) at position 8", "printable ASCII"),
    ("0 9 * * *\n", "schedule", "a line end (U+000A)", "printable ASCII"),
    ("0 9 * * *\u2028", "schedule", "a line end (U+2028)", "printable ASCII"),
    ("0 9 * * *\x00", "schedule", "a control or invisible character (U+0000)", "printable ASCII"),
    ("0 9 * * *\u200b", "schedule", "a control or invisible character (U+200B)", "printable ASCII"),
    ("٣ 9 * * *", "schedule", "a digit of another script (U+0663)", "printable ASCII"),
    ("0 9 * * ſun", "schedule", "'ſ', which is not ASCII (U+017F)", "printable ASCII"),
    ("CRON_TZ=Europe/Riga 0 9 * * *", "schedule", "a time zone", "timezone field"),
    ("TZ=UTC 0 9 * * *", "schedule", "a time zone", "timezone field"),
    ("30 18 * * 5 Europe/Paris", "schedule", "ends with 'Europe/Paris'", "timezone field"),
    ("@every 1h30m", "schedule", "@every", "interval_s: 5400"),
    ("@every 90s", "schedule", "@every", "interval_s: 90"),
    ("@every", "schedule", "@every", "interval_s"),
    ("@every fortnight", "schedule", "@every", "interval_s"),
    ("@reboot", "schedule", "@reboot", "by hand"),
    ("@annuall", "schedule", "'@annuall' is not a macro", "@annually"),
    ("@xyz", "schedule", "'@xyz' is not a macro", "one of @yearly, @annually, @monthly"),
    ("@daily !", "schedule", "@daily takes nothing after it", "@daily alone"),
    ("0 9 * * sun%2", "schedule", "%", "leave it out"),
    ("0 +12 * * *", "schedule", "+ is not supported", "without a sign"),
    ("* * * *", "schedule", "has 4 fields", "five (minute, hour"),
    ("5", "schedule", "has 1 field", "five (minute, hour"),
    ("0 0 0 1 1 * 2030", "schedule", "seven fields: a year", "start_at and end_at"),
    ("* * * * * * * *", "schedule", "has 8 fields", "five (minute, hour"),
    ("1,,2 * * * *", "minute", "empty place", "comma"),
    ("* * , * *", "day of month", "empty place", "comma"),
    ("60 * * * *", "minute", "60 is out of range", "0 to 59"),
    ("60 0 0 * * *", "second", "60 is out of range", "0 to 59"),
    ("0 24 * * *", "hour", "24 is out of range", "0 to 23"),
    ("0 0 0 * *", "day of month", "0 is out of range", "1 to 31"),
    ("0 0 1 13 *", "month", "13 is out of range", "1 to 12 or JAN to DEC"),
    ("0 0 * * 8", "day of week", "8 is out of range", "0 to 7 or SUN to SAT"),
    ("-1 * * * *", "minute", "minus sign", "0 to 59"),
    ("5- * * * *", "minute", "no number", "0 to 59"),
    ("5--7 * * * *", "minute", "not understood", "0 to 59"),
    ("1-2-3 * * * *", "minute", "not understood", "0 to 59"),
    ("0099 * * * *", "minute", "at most three digits", "0 to 59"),
    ("*/0 * * * *", "minute", "step 0", "1 or more"),
    ("*/-5 * * * *", "minute", "negative step", "1 or more"),
    ("*/ * * * *", "minute", "no step", "0 to 59"),
    ("*/x * * * *", "minute", "a step that is not a number", "0 to 59"),
    ("*/2/3 * * * *", "minute", "a step that is not a number", "0 to 59"),
    ("*/0005 * * * *", "minute", "at most three digits", "0 to 59"),
    ("*/90 * * * *", "minute", "step wider than the field", "interval_s: 5400"),
    ("0/120 0 * * * *", "second", "step wider than the field", "interval_s: 120"),
    ("0 */24 * * *", "hour", "step wider than the field", "interval_s: 86400"),
    ("0 0 */32 * *", "day of month", "step wider than the field", "interval_s: 2764800"),
    ("0 0 1 */13 *", "month", "step wider than the field", "the widest step is 12"),
    ("0 0 * * 1/8", "day of week", "step wider than the field", "the widest step is 7"),
    ("0 22-2 * * *", "hour", "starts after its end", "22-23,0-2"),
    ("0 23-3/2 * * *", "hour", "starts after its end", "23,1,3"),
    ("0 0 1 NOV-MAR *", "month", "starts after its end", "11-12,1-3"),
    ("0 0 * * SAT-TUE", "day of week", "starts after its end", "6,0-2"),
    ("0 0 * * 7-3", "day of week", "starts after its end", "0-3"),
    ("0 0 * * 7-5/2", "day of week", "starts after its end", "0,2,4"),
    ("0 0 15W * *", "day of month", "W (nearest weekday) is not supported", "LW"),
    ("0 0 W * *", "day of month", "W (nearest weekday) is not supported", "LW"),
    ("0 0 L-1W * *", "day of month", "W (nearest weekday) is not supported", "LW"),
    ("0 0 L-3 * *", "day of month", "L-n (days before the last) is not supported", "last day of the month"),
    ("0 0 L/2 * *", "day of month", "takes no step", "write L"),
    ("0 0 29-L * *", "day of month", "L stands alone", "29,30,L"),
    ("0 0 MON * *", "day of month", "is a name and does not belong", "1 to 31"),
    ("0 0 2#2 * *", "day of month", "# belongs in the day of week", "MON#2"),
    ("0 0 1 2#2 *", "month", "# belongs in the day of week", "MON#2"),
    ("0 0 1 L *", "month", "L and W do not belong", "1 to 12"),
    ("W 0 * * *", "minute", "L and W do not belong", "0 to 59"),
    ("0 0 1 MARCH *", "month", "'MARCH' is not a name of a month", "write MAR"),
    ("0 0 * * FRIDAY", "day of week", "'FRIDAY' is not a name of a day of the week", "write FRI"),
    ("0 0 * * XYZ", "day of week", "'XYZ' is not a name", "SUN to SAT"),
    ("0 0 * * FRIL", "day of week", "a name before L is not supported", "write 5L"),
    ("0 0 * * L", "day of week", "L needs a day before it", "5L"),
    ("0 0 * * 5L/3", "day of week", "takes no step", "write 5L"),
    ("0 0 * * LW", "day of week", "W does not belong in this field", "LW as the day of month"),
    ("0 0 * * FRI#L", "day of week", "#L is not supported", "write 5L"),
    ("0 0 * * 9#LAST", "day of week", "#L is not supported", "write 5L"),
    ("0 0 * * FRI#6", "day of week", "1 to 5", "MON#2"),
    ("0 0 * * 8#1", "day of week", "8 is out of range", "0 to 7"),
    ("0 0 * * MON-FRI#1", "day of week", "# takes one day", "MON#1,TUE#1"),
    ("H 0 * * *", "minute", "H (a hashed value) is not supported", "jitter_s"),
    ("? 0 * * *", "minute", "? stands for *", "write *"),
    ("0 0 1 ? *", "month", "? stands for *", "write *"),
    ("0 0 *& * *", "day of month", "not understood", "1 to 31"),
]


@pytest.mark.parametrize(("expression", "field", "detail", "hint"), REFUSALS)
def test_a_refusal_says_where_why_and_what_instead(expression: str, field: str, detail: str, hint: str) -> None:
    error = refusal(expression)
    assert error.field == field
    assert detail in error.detail
    assert hint in error.hint
    assert error.code == "invalid_schedule"
    assert error.faults[0].pointer == "/schedule"


@pytest.mark.parametrize(
    "expression",
    ["0-99999999/1 * * * *", "9" * 5000 + " * * * *", "," * 60_000, "*/2147483648 * * * *", "\u00a0" * 10_000_000],
)
def test_a_monstrous_expression_costs_neither_time_nor_memory(expression: str) -> None:
    """web2py/web2py#2687"""
    tracemalloc.start()
    started = time.perf_counter()
    error = refusal(expression)
    elapsed = time.perf_counter() - started
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert elapsed < 0.1  # 10 ms is promised; ten times that is left to a busy machine
    assert peak < 200_000
    assert len(str(error)) < 500


def test_a_step_over_the_field_is_not_an_hourly_job() -> None:
    """dagster-io/dagster#15294"""
    error = refusal("*/90 * * * *")
    assert "step wider than the field" in error.detail
    assert "interval_s: 5400" in error.hint


def test_a_zone_is_not_taken_inside_the_expression() -> None:
    """kubernetes/kubernetes#108032"""
    for expression in ("CRON_TZ=Europe/Riga 0 9 * * *", "TZ=UTC 0 9 * * *"):
        assert "timezone field" in refusal(expression).hint


@pytest.mark.parametrize(
    ("expression", "field", "want"),
    [
        ("1-59/20 * * * *", 1, [1, 21, 41]),
        ("50/3 * * * *", 1, [50, 53, 56, 59]),
        ("18-18/2 * * * *", 1, [18]),
        ("*/59 * * * *", 1, [0, 59]),
        ("5,1,5-7 * * * *", 1, [1, 5, 6, 7]),
        ("007 * * * *", 1, [7]),
        ("0 0 * jan,Feb,MAR-may *", 4, [1, 2, 3, 4, 5]),
        ("0 0 * * mon-FRI", 5, [1, 2, 3, 4, 5]),
        ("0 0 * * FRI-SUN", 5, [5, 6, 7]),
        ("0 0 * * SUN-TUE", 5, [0, 1, 2]),
        ("0 0 * * SUN-SUN", 5, [0]),
        ("0 0 * * MON/3", 5, [1, 4, 7]),
        ("0 0 ? * ?/2", 5, [0, 2, 4, 6]),
        ("\t0   0 \t* * *  ", 2, [0]),
        ("7 0 0 * * *", 0, [7]),
        ("0 0 * * *", 0, [0]),
    ],
)
def test_terms(expression: str, field: int, want: list[int]) -> None:
    assert values(expression, field) == want


@pytest.mark.parametrize(
    ("expression", "field", "want"),
    [
        ("0 0 L * *", 3, (cron_syntax.LastDay(),)),
        ("0 0 lw * *", 3, (cron_syntax.LastWorkday(),)),
        ("0 0 1,L * *", 3, (cron_syntax.Span(1, 1), cron_syntax.LastDay())),
        ("0 0 * * 5L", 5, (cron_syntax.LastWeekday(5),)),
        ("0 0 * * mon#2,TUE", 5, (cron_syntax.NthWeekday(1, 2), cron_syntax.Span(2, 2))),
        ("0 0 * * 2#4,4L", 5, (cron_syntax.NthWeekday(2, 4), cron_syntax.LastWeekday(4))),
    ],
)
def test_day_terms(expression: str, field: int, want: tuple[cron_syntax.Term, ...]) -> None:
    assert cron_syntax.read(expression)[field].terms == want


@pytest.mark.parametrize("macro", cron_syntax.MACROS)
def test_macros_stand_for_five_fields(macro: str) -> None:
    assert (
        cron_syntax.read(f" {macro.lower()} ") == cron_syntax.read(macro) == cron_syntax.read(cron_syntax.MACROS[macro])
    )


@settings(derandomize=True, max_examples=600, deadline=None)
@given(st.text(alphabet=string.digits + "*/-,#?LWHMONSUJA @%", max_size=40))
def test_any_text_is_taken_or_refused_and_nothing_else(text: str) -> None:
    try:
        fields = cron.parse(text).fields
    except errors.InvalidScheduleError:
        return
    assert len(fields) == 6
    assert all(field.kind.low <= value <= field.kind.top for field in fields for value in field.values())
