"""PgQueuer, on Python."""

from __future__ import annotations

from typing import ClassVar

from benchmarks.peers import install
from benchmarks.peers.peer import ProgramPeer


class PgQueuer(ProgramPeer):
    """A finished job's row is deleted, and a row of a log written."""

    name = "pgqueuer"
    program = "pgqueuer_program.py"
    environment = install.Python("pgqueuer")
    packages = ("pgqueuer", "asyncpg", "uvloop")
    unfinished_query = "SELECT EXISTS (SELECT FROM pgqueuer)"
    remarks: ClassVar = {"minute_mark": "schedules in code"}
