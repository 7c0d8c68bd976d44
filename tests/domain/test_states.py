"""The states of jobs and runs, and the moves between them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import pytest

from horarium.domain import states
from horarium.domain.states import JobStatus, RunState

AT = datetime(2026, 3, 1, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("row_state", "ready_at", "attempt", "seen"),
    [
        (states.WAITING, AT + MOMENT, 0, RunState.SCHEDULED),
        (states.WAITING, AT, 0, RunState.QUEUED),
        (states.WAITING, AT - MOMENT, 0, RunState.QUEUED),
        (states.WAITING, AT + MOMENT, 1, RunState.FAILED),
        (states.WAITING, AT, 1, RunState.QUEUED),
        (states.RUNNING, AT + MOMENT, 1, RunState.RUNNING),
        (states.RUNNING, AT - MOMENT, 3, RunState.RUNNING),
    ],
)
def test_what_people_see_of_a_live_row(row_state: str, ready_at: datetime, attempt: int, seen: RunState) -> None:
    assert states.of_live_run(row_state, ready_at, attempt, AT) is seen
    assert seen in states.LIVE_STATES


def test_a_state_is_either_live_or_final() -> None:
    assert set(RunState) == states.LIVE_STATES | states.FINAL_STATES
    assert not states.LIVE_STATES & states.FINAL_STATES


def test_a_final_state_is_left_by_no_move_and_every_other_one_by_some() -> None:
    assert {state for state in RunState if not states.RUN_MOVES[state]} == states.FINAL_STATES
    assert {status for status in JobStatus if not states.JOB_MOVES[status]} == {JobStatus.CANCELLED}


@pytest.mark.parametrize(
    ("moves", "kind", "first"),
    [(states.RUN_MOVES, RunState, RunState.SCHEDULED), (states.JOB_MOVES, JobStatus, JobStatus.ACTIVE)],
)
def test_every_state_is_reached_from_the_first_one(moves: Mapping[Any, Any], kind: type[StrEnum], first: Any) -> None:
    reached, front = {first}, {first}
    while front:
        front = {after for state in front for after in moves[state]} - reached
        reached |= front
    assert reached == set(kind) == set(moves)
    assert all(state not in after for state, after in moves.items())


def test_only_a_running_run_fails_succeeds_or_dies() -> None:
    for ending in (RunState.FAILED, RunState.SUCCEEDED, RunState.DEAD):
        assert [state for state, after in states.RUN_MOVES.items() if ending in after] == [RunState.RUNNING]


def test_every_live_run_can_be_cancelled() -> None:
    assert all(RunState.CANCELLED in states.RUN_MOVES[state] for state in states.LIVE_STATES)
