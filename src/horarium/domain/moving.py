"""The move of a shard from one database to another, as steps that may each be cut off and done again.

prepare    the target has a row for the shard, `arriving`, and nothing else of it
history    closed history is copied, while the shard works on
ahead      what lives is copied too, and then what has changed meanwhile, until little is left
pause      the source's row is `leaving` under a new term: nobody leads the shard any more
copy       the source refuses what is written for the shard; what has changed since is copied; the target's row is `arrived`
leave      the source's row is `left`: from this moment on the shard's rows are the target's
arrive     the target's row is `here`: nodes may lead the shard again
clear      log lines are copied, the source's rows are deleted, its row is `gone`

The source's row decides: `leaving` can become `here` again or `left`, by one conditional write. So at no moment may both
databases be led, whoever is killed, and whoever goes on after he was taken for dead.
"""

from __future__ import annotations

from enum import StrEnum

from horarium.domain.placement import State

SHORT_PASS_S = 1.0
HARDLY_SHORTER = 0.7


class Step(StrEnum):
    """What is to be done next."""

    PREPARE = "prepare"
    HISTORY = "history"
    AHEAD = "ahead"
    PAUSE = "pause"
    COPY = "copy"
    LEAVE = "leave"
    ARRIVE = "arrive"
    CLEAR = "clear"
    UNDO = "undo"


_NEXT = {
    (State.HERE, None): Step.PREPARE,
    (State.HERE, State.GONE): Step.PREPARE,
    (State.HERE, State.ARRIVED): Step.PREPARE,  # the remains of an attempt that was undone
    (State.HERE, State.ARRIVING): Step.HISTORY,
    (State.LEAVING, State.ARRIVING): Step.COPY,
    (State.LEAVING, State.ARRIVED): Step.LEAVE,
    (State.LEFT, State.ARRIVED): Step.ARRIVE,
    (State.LEFT, State.HERE): Step.CLEAR,
}


def next_step(source: State, target: State | None) -> Step | None:
    """The step that follows where source and target stand so; None when the shard has moved."""
    return _NEXT.get((source, target))


def mending(source: State, target: State | None) -> Step | None:
    """What a node does about a move whose mover has not been heard of: finish it or undo it, so that the shard works again.

    None where it works, in the source or in the target.
    """
    if source is State.LEAVING:
        return Step.LEAVE if target is State.ARRIVED else Step.UNDO
    if (source, target) == (State.LEFT, State.ARRIVED):
        return Step.ARRIVE
    return None


def is_another_pass_worth_it(took_s: float, before_s: float | None) -> bool:
    """Whether to copy ahead once more what has changed, after a pass and the one before it, in seconds.

    The pause will take about as long as the last pass: not when that was short, or hardly shorter than the one before.
    """
    return took_s > SHORT_PASS_S and (before_s is None or took_s < HARDLY_SHORTER * before_s)
