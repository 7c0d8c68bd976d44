"""What the handlers noted: a line for each start and each end, in a file for each worker process."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Started:
    """A start that a handler noted: by which process, under which token, when (monotonic seconds)."""

    pid: int
    token: int
    at: float


@dataclass(slots=True)
class Notes:
    """Starts in their order by run, and the (run, token) that came to their end."""

    starts: dict[UUID, list[Started]] = field(default_factory=lambda: defaultdict(list))
    ends: set[tuple[UUID, int]] = field(default_factory=set)

    def left_by(self, pid: int | None, at: float) -> list[tuple[UUID, float]]:
        """What a process had at work when it died, and when each of them started again; never: infinity.

        Not what it began under a token that was no longer the last one: a worker that was frozen may, and then learns that the
        run is another's.
        """
        found = []
        for run_id, starts in self.starts.items():
            last = max((start for start in starts if start.at <= at), key=lambda start: start.token, default=None)
            if last is not None and last.pid == pid and (run_id, last.token) not in self.ends:
                found.append((run_id, min((start.at for start in starts if start.at > at), default=float("inf"))))
        return found


def read(folder: Path) -> Notes:
    """All lines of all worker processes."""
    notes = Notes()
    for path in sorted(folder.glob("notes-*.txt")):
        pid = int(path.stem.removeprefix("notes-"))
        for line in path.read_text().splitlines():
            what, run_id, token, at = line.split()
            if what == "start":
                notes.starts[UUID(run_id)].append(Started(pid, int(token), float(at)))
            else:
                notes.ends.add((UUID(run_id), int(token)))
    for starts in notes.starts.values():
        starts.sort(key=lambda each: each.at)
    return notes
