"""graphile-worker, on Node."""

from __future__ import annotations

from typing import ClassVar

from benchmarks.peers import install
from benchmarks.peers.peer import ProgramPeer


class GraphileWorker(ProgramPeer):
    """A finished job's row is deleted."""

    name = "graphile-worker"
    program = "graphile_worker.mjs"
    environment = install.NODE
    packages = ("graphile-worker",)
    unfinished_query = "SELECT EXISTS (SELECT FROM graphile_worker._private_jobs)"
    remarks: ClassVar = {"minute_mark": "schedules in a file or in code"}
