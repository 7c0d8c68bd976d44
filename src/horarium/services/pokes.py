"""Pokes: after a change is committed, the API tells the leader, so that it takes effect at once.

Rows are the truth. A poke that is lost costs seconds (the slow scan and the sweep find the change), never the change.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from horarium.store.runs import RunRow


class Pokes(Protocol):
    """What a leader wants to hear. Calls return at once and never raise."""

    def timers_changed(self, changes: Sequence[tuple[int, datetime]]) -> None:
        """Timers were written: (shard, due_at) of each."""

    def runs_added(self, rows: Sequence[RunRow]) -> None:
        """Runs were made without a timer: by hand, or due at once."""

    def runs_removed(self, ids: Sequence[UUID]) -> None:
        """Waiting runs were retracted, cancelled or ended."""

    def cancel_requested(self, ids: Sequence[UUID]) -> None:
        """Running runs were asked to stop."""

    def job_edited(self, job_id: UUID) -> None:
        """A job's definition changed: what memory holds of its live runs (queue, priority, overlap) may be old."""


class NoPokes:
    """Tells nobody: for a process that leads nothing."""

    def timers_changed(self, changes: Sequence[tuple[int, datetime]]) -> None:
        return None

    def runs_added(self, rows: Sequence[RunRow]) -> None:
        return None

    def runs_removed(self, ids: Sequence[UUID]) -> None:
        return None

    def cancel_requested(self, ids: Sequence[UUID]) -> None:
        return None

    def job_edited(self, job_id: UUID) -> None:
        return None
