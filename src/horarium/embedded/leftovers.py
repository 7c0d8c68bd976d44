"""Ends what an earlier launcher left running in a data directory.

Called with the directory's lock held: whoever runs there has no living launcher. A whole server is stopped and started
again instead of being adopted: only then are its port and settings the ones asked for, and its life tied to ours.

Processes are known by what they are, not by a number in a file, which may have been given to somebody else since: their
program is `postgres` and they work in this very directory. That needs Linux's /proc; elsewhere PostgreSQL's own checks
of `postmaster.pid` have to do.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from horarium import errors
from horarium.embedded import postmaster_file, progress

_PROC = Path("/proc")
_POLL_S = 0.01


def stop(pgdata: Path, listener: progress.Listener = progress.ignore) -> None:
    """Stop the servers in `pgdata` that have no launcher, and wait for their end however long it takes."""
    if not pgdata.is_dir():
        return
    noted = postmaster_file.read(pgdata)
    if noted is not None and _works_in(noted.pid, pgdata):
        listener(f"stopping the PostgreSQL that an earlier launcher left running (process {noted.pid})")
        _end(noted.pid, signal.SIGINT, pgdata, listener)
    # Without their postmaster the others end by themselves, but a busy one only when its statement is over; until then
    # PostgreSQL refuses to start. What they share is lost already, so there is nothing to be gentle about.
    for pid in list(_working_in(pgdata)):
        _end(pid, signal.SIGKILL, pgdata, listener)
    if noted is not None:
        _discard_misleading_file(pgdata, noted.pid)
    if _PROC.is_dir():
        _discard_sockets(pgdata)


def _end(pid: int, number: signal.Signals, pgdata: Path, listener: progress.Listener) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise errors.EmbeddedPostgresError(
            f"a PostgreSQL of another user (process {pid}) is running in {pgdata}: stop it first"
        ) from error
    reporter = progress.Reporter(listener)
    while _works_in(pid, pgdata):
        reporter.tick(lambda: f"waiting for PostgreSQL's process {pid} to end")
        time.sleep(_POLL_S)


def _discard_misleading_file(pgdata: Path, pid: int) -> None:
    """Remove a `postmaster.pid` whose number now belongs to another program.

    PostgreSQL would take that program for its server and refuse to start; small numbers return soon in containers.
    No process works in the directory any more, which is all that the file is there to protect.
    """
    if (_PROC / str(pid)).exists() and not _works_in(pid, pgdata):
        (pgdata / postmaster_file.NAME).unlink(missing_ok=True)


def _discard_sockets(pgdata: Path) -> None:
    """Remove the sockets of killed servers: PostgreSQL replaces one of its own port only, and the port changes."""
    for path in pgdata.glob(".s.PGSQL.*"):
        path.unlink(missing_ok=True)


def _working_in(pgdata: Path) -> Iterator[int]:
    if _PROC.is_dir():
        for entry in _PROC.iterdir():
            if entry.name.isdecimal() and _works_in(int(entry.name), pgdata):
                yield int(entry.name)


def _works_in(pid: int, pgdata: Path) -> bool:
    """Say whether `pid` is a PostgreSQL process of this directory. A zombie is not: it has no directory any more."""
    try:
        program = (_PROC / str(pid) / "exe").readlink().name
        return program.removesuffix(" (deleted)") == "postgres" and (_PROC / str(pid) / "cwd").samefile(pgdata)
    except OSError:
        return False
