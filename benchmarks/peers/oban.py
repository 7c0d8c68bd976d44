"""Oban, the one for Python."""

from __future__ import annotations

from typing import ClassVar

from benchmarks.peers import install
from benchmarks.peers.peer import ProgramPeer


class Oban(ProgramPeer):
    """A finished job's row stays, as completed."""

    name = "oban"
    program = "oban_program.py"
    environment = install.Python("oban", at_least=(3, 12))
    packages = ("oban", "psycopg", "uvloop")
    unfinished_query = (
        "SELECT EXISTS (SELECT FROM oban_jobs WHERE state IN ('available', 'scheduled', 'executing', 'retryable'))"
    )
    remarks: ClassVar = {
        "drain": "without the paid edition, which acknowledges in bulk",
        "minute_mark": "schedules in code",
    }
