"""Retry as a policy and as a signal, Snooze, Discard, and durations as arguments."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from horarium import Retry, Snooze
from horarium.sdk import spans


def test_a_policy_says_only_what_was_given() -> None:
    assert Retry(5).policy() == {"max_attempts": 5}
    assert Retry(5, base="10s", backoff="linear", factor=1.5, max="1h", jitter=0.1, window="1d").policy() == {
        "max_attempts": 5, "backoff": "linear", "base_s": 10.0, "factor": 1.5, "max_s": 3600.0, "jitter": 0.1,
        "retry_window_s": 86400.0,
    }  # fmt: skip


@pytest.mark.parametrize("signal", [Retry(in_="5m"), Retry("rate limited")])
def test_what_is_meant_to_be_raised_is_no_policy(signal: Retry) -> None:
    with pytest.raises(ValueError, match="counts attempts"):
        signal.policy()


def test_signals_carry_their_delay_in_seconds() -> None:
    assert Retry(in_=timedelta(minutes=5)).in_s == 300
    assert Retry("later").in_s is None
    assert Snooze("1h30m").delay_s == 5400


@pytest.mark.parametrize("value", [10, "10", "soon", timedelta(seconds=-1), None])
def test_durations_need_a_unit(value: Any) -> None:
    with pytest.raises(ValueError, match=r"duration|unit|negative"):
        spans.seconds(value)


def test_whole_seconds() -> None:
    assert spans.whole_seconds("2m") == 120
    with pytest.raises(ValueError, match="whole number of seconds"):
        spans.whole_seconds("1500ms")
