"""The state that people see of a live row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from horarium.domain import states
from horarium.domain.states import RunState

NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("row_state", "ready_at", "attempt", "shown"),
    [
        (states.WAITING, NOW + SECOND, 0, RunState.SCHEDULED),
        (states.WAITING, NOW, 0, RunState.QUEUED),
        (states.WAITING, NOW - SECOND, 0, RunState.QUEUED),
        (states.WAITING, NOW + SECOND, 1, RunState.FAILED),
        (states.WAITING, NOW - SECOND, 2, RunState.QUEUED),
        (states.RUNNING, NOW + SECOND, 1, RunState.RUNNING),
        (states.RUNNING, NOW - SECOND, 3, RunState.RUNNING),
    ],
)
def test_the_shown_state_follows_from_the_row_and_the_time(
    row_state: str, ready_at: datetime, attempt: int, shown: RunState
) -> None:
    assert states.of_live_run(row_state, ready_at, attempt, NOW) is shown


def test_every_shown_state_of_a_live_row_is_a_live_state() -> None:
    shown = {
        states.of_live_run(row_state, ready_at, attempt, NOW)
        for row_state in (states.WAITING, states.RUNNING)
        for ready_at in (NOW, NOW + SECOND)
        for attempt in (0, 1)
    }
    assert shown == states.LIVE_STATES


def test_what_has_ended_does_not_move() -> None:
    for state in states.FINAL_STATES:
        assert states.RUN_MOVES[state] == frozenset()
    assert states.JOB_MOVES[states.JobStatus.CANCELLED] == frozenset()


def test_each_live_state_can_be_reached_and_left() -> None:
    reached = frozenset().union(*states.RUN_MOVES.values())
    assert reached == frozenset(RunState)
    for state in states.LIVE_STATES:
        assert states.RUN_MOVES[state]
