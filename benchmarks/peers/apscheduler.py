"""APScheduler 3, on Python."""

from __future__ import annotations

from typing import ClassVar

from benchmarks.peers import install
from benchmarks.peers.peer import ProgramPeer
from benchmarks.peers.site import Site


class APScheduler(ProgramPeer):
    """A scheduler inside one process: that process keeps the jobs, in PostgreSQL here, and runs them itself."""

    name = "apscheduler"
    program = "apscheduler_program.py"
    environment = install.Python("apscheduler")
    packages = ("APScheduler", "SQLAlchemy", "psycopg")
    unfinished_query = "SELECT EXISTS (SELECT FROM apscheduler_jobs WHERE id NOT LIKE 'every-%')"
    cannot: ClassVar = {"drain": "not a queue: one process decides what is due and runs it"}
    made_a_second = 80
    remarks: ClassVar = {
        "minute_mark": "one process: two on one store run each tick twice, or miss some, as its FAQ says"
    }

    async def prepare(self, site: Site) -> None:
        """It makes its table itself."""

    async def start(self, site: Site) -> None:
        site.processes = 1
        await super().start(site)
