"""The retry policy: delays, the window, and its form in JSON."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium.domain import retry
from horarium.domain.retry import Backoff, RetryPolicy

NOMINAL = datetime(2027, 3, 1, 12, tzinfo=UTC)
NO_JITTER = RetryPolicy(jitter=0)
policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, retry.MAX_ATTEMPTS),
    backoff=st.sampled_from(list(Backoff)),
    base_s=st.floats(0, 604_800),
    factor=st.floats(1, 100),
    max_s=st.floats(0, 604_800),
    jitter=st.floats(0, 1),
    retry_window_s=st.none() | st.floats(1, 31_622_400),
)


def delays(policy: RetryPolicy, attempts: int) -> list[float]:
    return [retry.delay_after(policy, attempt, 0).total_seconds() for attempt in range(1, attempts + 1)]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (NO_JITTER, [10, 20, 40, 80, 160]),
        (RetryPolicy(backoff=Backoff.LINEAR), [10, 20, 30, 40, 50]),
        (RetryPolicy(backoff=Backoff.FIXED), [10, 10, 10, 10, 10]),
        (RetryPolicy(base_s=1, factor=10, max_s=250), [1, 10, 100, 250, 250]),
        (RetryPolicy(base_s=0), [0, 0, 0, 0, 0]),
    ],
)
def test_the_delay_grows_as_the_policy_says(policy: RetryPolicy, expected: list[float]) -> None:
    assert delays(policy, 5) == expected


@given(policies, st.integers(1, retry.MAX_ATTEMPTS), st.floats(-1, 1))
def test_a_delay_lies_within_its_jitter_and_its_bound(policy: RetryPolicy, attempt: int, spread: float) -> None:
    delay = retry.delay_after(policy, attempt, spread).total_seconds()
    middle = retry.delay_after(policy, attempt, 0).total_seconds()
    assert 0 <= middle <= policy.max_s + 1e-6
    assert max(0, middle * (1 - policy.jitter)) - 1e-5 <= delay <= middle * (1 + policy.jitter) + 1e-5


@given(policies, st.integers(1, 100))
def test_delays_do_not_shrink_from_attempt_to_attempt(policy: RetryPolicy, attempt: int) -> None:
    assert retry.delay_after(policy, attempt + 1, 0) >= retry.delay_after(policy, attempt, 0)


def test_a_growth_beyond_all_numbers_is_the_longest_delay() -> None:
    policy = RetryPolicy(max_attempts=1000, factor=100, max_s=3600, jitter=0)
    assert retry.delay_after(policy, 1000, 0) == timedelta(hours=1)


@pytest.mark.parametrize(("attempt", "again"), [(1, True), (3, True), (4, False), (5, False)])
def test_there_are_so_many_attempts_and_no_more(attempt: int, again: bool) -> None:
    assert retry.may_try_again(retry.DEFAULT, attempt, NOMINAL, NOMINAL) is again


def test_one_attempt_means_never_again() -> None:
    assert not retry.may_try_again(RetryPolicy(max_attempts=1), 1, NOMINAL, NOMINAL)


@pytest.mark.parametrize(("after_s", "again"), [(0, True), (600, True), (600.001, False), (-5, True)])
def test_the_window_counts_from_the_nominal_time(after_s: float, again: bool) -> None:
    policy = RetryPolicy(max_attempts=100, retry_window_s=600)
    assert retry.may_try_again(policy, 1, NOMINAL, NOMINAL + timedelta(seconds=after_s)) is again


@given(policies)
def test_json_holds_what_differs_from_the_defaults(policy: RetryPolicy) -> None:
    members = retry.to_json(policy)
    assert retry.from_json(members) == policy
    usual = asdict(retry.DEFAULT)
    assert all(usual[name] != value for name, value in members.items())


def test_the_default_policy_is_nothing() -> None:
    assert retry.to_json(retry.DEFAULT) == {}
    assert retry.from_json({}) == retry.DEFAULT


def test_members_of_a_newer_version_are_not_looked_at() -> None:
    assert retry.from_json({"max_attempts": 2, "mood": "patient"}) == RetryPolicy(max_attempts=2)
