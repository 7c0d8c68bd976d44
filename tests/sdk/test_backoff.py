"""Waits before a server is asked again."""

from __future__ import annotations

from horarium.sdk import backoff


def test_waits_double_up_to_the_cap_and_begin_anew() -> None:
    wait = backoff.Backoff(base_s=1.0, cap_s=5.0, draw=lambda: 1.0)
    assert [wait.next_s() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    wait.reset()
    assert wait.next_s() == 1.0


def test_waits_are_spread_over_their_upper_half() -> None:
    assert backoff.Backoff(base_s=2.0, draw=lambda: 0.0).next_s() == 1.0
    assert 1.0 <= backoff.Backoff(base_s=2.0).next_s() <= 2.0


def test_a_server_that_is_away_for_days_is_no_overflow() -> None:
    wait = backoff.Backoff()
    assert max(wait.next_s() for _ in range(5000)) <= 5.0
