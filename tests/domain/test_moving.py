"""The steps of a move lead from one to the next, and a dead mover's pause is ended wherever it stands."""

from __future__ import annotations

import pytest

from horarium.domain import moving
from horarium.domain.moving import Step
from horarium.domain.placement import State


def test_every_standing_that_a_mover_leaves_leads_on() -> None:
    standing: tuple[State, State | None] = (State.HERE, None)
    after = {
        Step.PREPARE: (State.HERE, State.ARRIVING),
        Step.HISTORY: (State.LEAVING, State.ARRIVING),
        Step.COPY: (State.LEAVING, State.ARRIVED),
        Step.LEAVE: (State.LEFT, State.ARRIVED),
        Step.ARRIVE: (State.LEFT, State.HERE),
        Step.CLEAR: (State.GONE, State.HERE),
    }
    steps = []
    while (step := moving.next_step(*standing)) is not None:
        steps.append(step)
        standing = after[step]
    assert steps == [*after]


@pytest.mark.parametrize(
    ("source", "target", "step"),
    [
        (State.HERE, State.ARRIVING, None),
        (State.LEAVING, State.ARRIVING, Step.UNDO),
        (State.LEAVING, None, Step.UNDO),
        (State.LEAVING, State.ARRIVED, Step.LEAVE),
        (State.LEFT, State.ARRIVED, Step.ARRIVE),
        (State.LEFT, State.HERE, None),
    ],
)
def test_a_pause_is_ended_by_the_shortest_way(source: State, target: State | None, step: Step | None) -> None:
    assert moving.mending(source, target) is step


def test_passes_end_when_the_pause_would_be_short_or_would_not_become_shorter() -> None:
    assert moving.is_another_pass_worth_it(40.0, None)
    assert moving.is_another_pass_worth_it(5.0, 40.0)
    assert not moving.is_another_pass_worth_it(4.0, 5.0)
    assert not moving.is_another_pass_worth_it(0.5, None)
