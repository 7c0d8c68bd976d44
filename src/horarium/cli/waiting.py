"""Wait until a run has ended, for `--wait` and `runs wait`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from horarium import errors
from horarium.cli import client

FINAL_STATES = frozenset({"succeeded", "dead", "cancelled", "skipped"})
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


class NotFinishedError(errors.HorariumError):
    """The run had not ended within the time that was given."""

    title = "Not finished in time"


def wait_for_end(
    server: client.Client,
    run_id: str,
    timeout: timedelta | None = None,
    *,
    on_change: Callable[[dict[str, Any]], None] = lambda run: None,
) -> dict[str, Any]:
    """The run once it is in a final state; `on_change` hears of each state on the way."""
    deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
    state = None
    for pause in _pauses():
        run: dict[str, Any] = server.get(f"/v1/runs/{client.segment(run_id)}")
        if run["state"] != state:
            state = run["state"]
            on_change(run)
        if state in FINAL_STATES:
            return run
        if deadline is not None and time.monotonic() + pause > deadline:
            raise NotFinishedError(f"Run {run_id} has not ended in time; it is {state}.")
        time.sleep(pause)
    raise AssertionError("the pauses never end")


def exit_code(run: dict[str, Any]) -> int:
    """0 for a run that succeeded, 1 for one that ended otherwise."""
    return 0 if run["state"] == "succeeded" else 1


def _pauses() -> Iterator[float]:
    """Short at first, for runs that take a moment; longer for those that take their time."""
    pause = _FIRST_PAUSE_S
    while True:
        yield pause
        pause = min(pause * 1.5, _LONGEST_PAUSE_S)
