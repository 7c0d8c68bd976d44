"""What happens, by name: the same events go to the log, to the metrics and to tests that wait for them.

Events are told in batches where runs move in batches: one event names many runs. A listener must be quick and must not raise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import structlog

_log = structlog.get_logger("horarium")


class Name(StrEnum):
    """Every event of the control plane, in the order of a run's life."""

    SHARDS_TAKEN = "shards_taken"
    SHARDS_LOST = "shards_lost"
    CLOCK_STEPPED = "clock_stepped"
    RUNS_FIRED = "runs_fired"
    TICKS_SKIPPED = "ticks_skipped"
    JOB_IN_ERROR = "job_in_error"
    RUNS_CLAIMED = "runs_claimed"
    RUNS_SUCCEEDED = "runs_succeeded"
    RUNS_RETRIED = "runs_retried"
    RUNS_DEAD = "runs_dead"
    RUNS_CANCELLED = "runs_cancelled"
    RUNS_INTERRUPTED = "runs_interrupted"
    LEASES_LAPSED = "leases_lapsed"
    REPORTS_REFUSED = "reports_refused"
    SWEEP_FOUND = "sweep_found"
    PARTITIONS_DROPPED = "partitions_dropped"
    SNAPSHOT_HELD = "snapshot_held"
    DUTY_FAILED = "duty_failed"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `fields` holds plain values: ids, counts, seconds, reasons."""

    name: Name
    fields: dict[str, Any] = field(default_factory=dict)


Listener = Callable[[Event], None]

_QUIET = frozenset({Name.RUNS_FIRED, Name.RUNS_CLAIMED, Name.RUNS_SUCCEEDED, Name.RUNS_RETRIED, Name.RUNS_INTERRUPTED})
_LOUD = frozenset(
    {
        Name.CLOCK_STEPPED,
        Name.JOB_IN_ERROR,
        Name.LEASES_LAPSED,
        Name.SWEEP_FOUND,
        Name.SNAPSHOT_HELD,
        Name.DUTY_FAILED,
    }
)


class Events:
    """Tells listeners and the log what happened. Loud events are warnings, the everyday ones are told at debug level."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call `listener` with each event from now on."""
        self._listeners.append(listener)

    def tell(self, name: Name, **fields: Any) -> None:
        """Tell everyone that this happened."""
        event = Event(name, fields)
        for listener in self._listeners:
            listener(event)
        _write(event)


def _write(event: Event) -> None:
    if event.name in _QUIET:
        return
    write = _log.warning if event.name in _LOUD else _log.info
    write(str(event.name), **{key: _short(value) for key, value in event.fields.items()})


def _short(value: Any) -> Any:
    """A log line names at most five ids of a batch."""
    if isinstance(value, list | tuple):
        shown = [str(item) for item in value[:5]]
        return shown if len(value) <= 5 else [*shown, f"… {len(value) - 5} more"]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
