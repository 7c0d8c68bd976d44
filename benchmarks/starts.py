"""When handlers began: noted inside the handler, by the clock of the machine, which is the database's clock here.

A worker keeps its notes in memory and writes them to a file `starts-LABEL-PID` when it ends.
"""

from __future__ import annotations

import os
from array import array
from datetime import datetime
from pathlib import Path
from typing import NamedTuple


class Start(NamedTuple):
    """One start: when it should have been and when it was, in seconds since the Unix epoch."""

    due: float
    at: float

    @property
    def lag_ms(self) -> float:
        """By how many milliseconds it was late."""
        return (self.at - self.due) * 1000


class Notes:
    """What one worker has noted."""

    def __init__(self) -> None:
        self._noted = array("d")

    def add(self, scheduled_for: datetime, at: float) -> None:
        """A run begins."""
        self._noted.extend((scheduled_for.timestamp(), at))

    def write(self, folder: Path, label: str) -> None:
        """Put the notes into a file of this process."""
        if self._noted:
            (folder / f"starts-{label}-{os.getpid()}").write_bytes(self._noted.tobytes())


def read(folder: Path, label: str, since: float = 0.0, until: float = float("inf")) -> list[Start]:
    """All starts that workers of this label noted, of runs that were due in a window, in the order of due times."""
    found = []
    for path in folder.glob(f"starts-{label}-*"):
        noted = array("d")
        noted.frombytes(path.read_bytes())
        pairs = zip(noted[::2], noted[1::2], strict=True)
        found += [Start(due, at) for due, at in pairs if since <= due < until]
    return sorted(found)
