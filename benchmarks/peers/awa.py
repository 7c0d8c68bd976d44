"""awa, in its Python binding."""

from __future__ import annotations

from typing import ClassVar

from benchmarks.peers import install
from benchmarks.peers.peer import ProgramPeer


class Awa(ProgramPeer):
    """The engine is in Rust, the handlers are in Python. A finished job's row stays, as completed."""

    name = "awa"
    program = "awa_program.py"
    environment = install.Python("awa")
    packages = ("awa-pg",)
    unfinished_query = "SELECT EXISTS (SELECT FROM awa.jobs WHERE state NOT IN ('completed', 'failed', 'cancelled'))"
    made_a_second = 80
    remarks: ClassVar = {"minute_mark": "schedules in code"}
