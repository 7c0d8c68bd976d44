"""Reads `postmaster.pid`, in which a running server says who it is and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NAME = "postmaster.pid"
# Lines of the file, from 0 (PostgreSQL's src/include/utils/pidfile.h).
_PID_LINE = 0
_STATUS_LINE = 7


@dataclass(frozen=True, slots=True)
class PostmasterFile:
    """`status` is `starting`, `ready`, `standby` or `stopping`, and empty before the first of them is written."""

    pid: int
    status: str


def read(pgdata: Path) -> PostmasterFile | None:
    """Return what the file says, or None where there is none or it is only just being written."""
    try:
        return parse((pgdata / NAME).read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return None


def parse(text: str) -> PostmasterFile | None:
    """Return the content of the file `text`, or None where it has no process id yet."""
    lines = text.splitlines()
    try:
        # A lone server writes its number negative (`postgres --single`).
        pid = abs(int(lines[_PID_LINE]))
    except (IndexError, ValueError):
        return None
    status = lines[_STATUS_LINE].strip() if len(lines) > _STATUS_LINE else ""
    return PostmasterFile(pid, status)
