"""Procrastinate, on Python."""

from __future__ import annotations

from typing import ClassVar

from benchmarks.peers import install
from benchmarks.peers.peer import ProgramPeer


class Procrastinate(ProgramPeer):
    """A finished job's row stays, as succeeded, with its events."""

    name = "procrastinate"
    program = "procrastinate_program.py"
    environment = install.Python("procrastinate")
    packages = ("procrastinate", "psycopg")
    unfinished_query = "SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))"
    made_a_second = 80
    remarks: ClassVar = {"minute_mark": "schedules in code"}
