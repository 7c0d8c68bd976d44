"""pg-boss, on Node."""

from __future__ import annotations

from benchmarks.peers import install
from benchmarks.peers.peer import ProgramPeer
from benchmarks.peers.site import Site


class PgBoss(ProgramPeer):
    """A finished job's row stays, as completed."""

    name = "pg-boss"
    program = "pg_boss.mjs"
    environment = install.NODE
    packages = ("pg-boss",)
    unfinished_query = "SELECT EXISTS (SELECT FROM pgboss.job WHERE name = 'noop' AND state < 'completed')"

    async def schedule(self, site: Site) -> None:
        await site.call(self.command("schedule", str(site.schedules)))
