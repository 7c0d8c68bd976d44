"""What follows the end of an attempt."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium.domain import outcome as outcomes
from horarium.domain import retry
from horarium.domain.outcome import Attempt, Decision, Outcome, decide
from horarium.domain.retry import RetryPolicy
from horarium.domain.states import RunState

NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
POLICY = RetryPolicy(max_attempts=3, jitter=0)
FIRST = Attempt(1, 0, NOW - timedelta(minutes=1), POLICY, cancel_requested=False, lost_before=False)
FAILURES = (Outcome.FAILED, Outcome.LOST, Outcome.TIMEOUT)
attempts = st.builds(
    Attempt,
    attempt=st.integers(1, 5),
    snoozes=st.integers(0, retry.MAX_SNOOZES),
    scheduled_for=st.just(NOW),
    policy=st.just(POLICY) | st.just(RetryPolicy(max_attempts=5, retry_window_s=30)),
    cancel_requested=st.booleans(),
    lost_before=st.booleans(),
)
delays = st.none() | st.timedeltas(timedelta(), timedelta(days=366))


def after(ended: Attempt, outcome: Outcome, retry_in: timedelta | None = None) -> Decision:
    return decide(ended, outcome, retry_in, NOW, 0.0)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMEOUT])
def test_a_failure_waits_for_its_back_off(outcome: Outcome) -> None:
    assert after(FIRST, outcome) == Decision(None, NOW + timedelta(seconds=10), 1, 0, is_failure=True)
    assert after(replace(FIRST, attempt=2), outcome).ready_at == NOW + timedelta(seconds=20)


@pytest.mark.parametrize("outcome", FAILURES)
def test_the_last_failure_is_dead(outcome: Outcome) -> None:
    assert after(replace(FIRST, attempt=3), outcome) == Decision(RunState.DEAD, None, 3, 0, is_failure=True)


def test_a_worker_that_asks_for_a_delay_gets_it() -> None:
    assert after(FIRST, Outcome.FAILED, timedelta(minutes=5)).ready_at == NOW + timedelta(minutes=5)


def test_a_delay_beyond_the_window_is_dead() -> None:
    ended = replace(FIRST, policy=replace(POLICY, retry_window_s=120))
    assert after(ended, Outcome.FAILED, timedelta(seconds=60)).final is None
    assert after(ended, Outcome.FAILED, timedelta(seconds=61)).final is RunState.DEAD


def test_the_first_lost_attempt_is_followed_by_another_at_once() -> None:
    assert after(FIRST, Outcome.LOST).ready_at == NOW
    assert after(replace(FIRST, attempt=2), Outcome.LOST).ready_at == NOW


def test_the_second_lost_attempt_has_the_ordinary_back_off() -> None:
    assert after(replace(FIRST, attempt=2, lost_before=True), Outcome.LOST).ready_at == NOW + timedelta(seconds=20)


def test_a_lost_attempt_counts() -> None:
    decision = after(FIRST, Outcome.LOST)
    assert (decision.attempt, decision.is_failure, decision.at_front) == (1, True, False)


def test_interrupted_uses_no_attempt_and_goes_to_the_front() -> None:
    assert after(replace(FIRST, attempt=2, snoozes=7), Outcome.INTERRUPTED) == Decision(
        None, NOW, 1, 7, is_failure=False, at_front=True
    )


def test_interrupted_is_never_dead() -> None:
    late = replace(FIRST, attempt=3, policy=replace(POLICY, retry_window_s=1))
    assert after(late, Outcome.INTERRUPTED).final is None


def test_a_snooze_uses_no_attempt_and_comes_later() -> None:
    assert after(replace(FIRST, snoozes=7), Outcome.SNOOZE, timedelta(hours=1)) == Decision(
        None, NOW + timedelta(hours=1), 0, 8, is_failure=False
    )


def test_a_snooze_without_a_delay_comes_at_once() -> None:
    assert after(FIRST, Outcome.SNOOZE).ready_at == NOW


def test_a_hundred_snoozes_in_a_row_are_enough() -> None:
    assert after(replace(FIRST, snoozes=99), Outcome.SNOOZE).snoozes == 100
    decision = after(replace(FIRST, snoozes=100), Outcome.SNOOZE)
    assert decision.final is RunState.DEAD
    assert "100" in decision.reason


def test_a_failure_ends_the_row_of_snoozes() -> None:
    assert after(replace(FIRST, snoozes=99), Outcome.FAILED).snoozes == 0


def test_discard_is_dead_at_once() -> None:
    assert after(FIRST, Outcome.DISCARD) == Decision(RunState.DEAD, None, 1, 0, is_failure=True)


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.SUCCEEDED])
def test_a_run_that_was_asked_to_stop_is_cancelled_however_it_ends(outcome: Outcome) -> None:
    decision = after(replace(FIRST, cancel_requested=True), outcome)
    assert (decision.final, decision.ready_at) == (RunState.CANCELLED, None)


def test_a_run_that_did_not_stop_is_cancelled_and_no_failure() -> None:
    assert after(FIRST, Outcome.CANCELLED) == Decision(RunState.CANCELLED, None, 1, 0, is_failure=False)


@given(attempts, st.sampled_from([each for each in Outcome if each is not Outcome.SUCCEEDED]), delays, st.floats(-1, 1))
def test_a_decision_is_final_or_says_when_to_go_on(
    ended: Attempt, outcome: Outcome, retry_in: timedelta | None, spread: float
) -> None:
    decision = decide(ended, outcome, retry_in, NOW, spread)
    assert (decision.final is None) is (decision.ready_at is not None)
    assert decision.final in (None, RunState.DEAD, RunState.CANCELLED)
    if decision.ready_at is not None:
        assert decision.ready_at >= NOW
        assert ended.attempt - 1 <= decision.attempt <= ended.attempt
        assert decision.attempt < ended.policy.max_attempts or outcome in (Outcome.SNOOZE, Outcome.INTERRUPTED)


@pytest.mark.parametrize(
    "message",
    [
        "user 17 not found at 0xdeadbeef",
        "user 4711 not found at 0x00ff",
        "User 18 not found at 0xA0",
    ],
)
def test_failures_that_differ_in_numbers_are_of_one_kind(message: str) -> None:
    assert outcomes.fingerprint("work", "KeyError", message) == outcomes.fingerprint(
        "work", "KeyError", "user 1 not found at 0x1"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no such file 'a.txt'", "no such file 'b/c.txt'"),
        ('no such file "a.txt"', 'no such file "it\'s b.txt"'),
        ("can't open 'a.txt'", "can't open 'b.txt'"),
        ("job 8f14e45f-ceea-467f-a8a7-3f1c1b2d4e5f failed", "job c81e728d-9d4c-4f63-9f06-7f89cc14862c failed"),
    ],
)
def test_failures_that_differ_in_quoted_values_and_ids_are_of_one_kind(one: str, other: str) -> None:
    assert outcomes.fingerprint("work", "E", one) == outcomes.fingerprint("work", "E", other)


def test_failures_of_other_targets_classes_and_shapes_are_of_other_kinds() -> None:
    marks = {
        outcomes.fingerprint("work", "KeyError", "user 1 not found"),
        outcomes.fingerprint("mail", "KeyError", "user 1 not found"),
        outcomes.fingerprint("work", "ValueError", "user 1 not found"),
        outcomes.fingerprint("work", "KeyError", "order 1 not found"),
    }
    assert len(marks) == 4


@given(st.text(max_size=200))
def test_any_message_has_a_fingerprint(message: str) -> None:
    assert len(outcomes.fingerprint("work", "E", message)) == 16


def test_a_message_of_quotes_takes_no_time() -> None:
    assert outcomes.fingerprint("work", "E", "'" * 100_001 + '"' * 100_001)
