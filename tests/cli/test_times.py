from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from horarium.cli import times

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "now"),
        (0.4, "now"),
        (1, "in 1 s"),
        (-59, "59 s ago"),
        (3599, "in 59 min"),
        (-7200, "2 h ago"),
        (90000, "in 1 d"),
    ],
)
def test_how_far_away(seconds: float, text: str) -> None:
    assert times.relative(NOW + timedelta(seconds=seconds), NOW) == text


def test_times_for_people() -> None:
    assert times.both("2026-12-01T02:00:00Z", NOW) == "2026-12-01 02:00Z (now)"
    assert times.both("2026-12-01T09:30:05.123+05:30", NOW) == "2026-12-01 09:30:05 +05:30 (in 2 h)"
    assert times.both(None, NOW) == "–"
    assert times.since("90m", NOW) == "2026-12-01T00:30:00Z"
    assert times.since("2026-01-01T00:00:00Z", NOW) == "2026-01-01T00:00:00Z"
