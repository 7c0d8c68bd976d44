"""Behind PgBouncer in transaction mode: a whole life, on server connections that change with every transaction."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from horarium import errors
from horarium.embedded import ports
from horarium.embedded import processes as programs
from horarium.store import migrator
from horarium.store.database import Database
from tests import postgres, requirements_of_tests
from tests.cluster import load, processes, waiting

PROGRAM = Path("/usr/sbin/pgbouncer")
# Fewer connections to the server than clients: a session is another one with every transaction.
CONFIGURATION = """
[databases]
horarium = host=127.0.0.1 port={server_port} user=horarium

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 100
server_reset_query = DISCARD ALL
server_reset_query_always = 1
"""


class Bouncer:
    """PgBouncer before a server, always at the same port. `DISCARD ALL` after each transaction: no session state survives."""

    def __init__(self, folder: Path, server: postgres.Server) -> None:
        self._folder = folder / "pgbouncer"
        self._folder.mkdir()
        self._port = ports.free_port()
        self._process: programs.Supervised | None = None
        self.url = server.url.replace(server.host, f"{ports.HOST}:{self._port}")
        text = CONFIGURATION.format(server_port=server.port, port=self._port)
        (self._folder / "pgbouncer.ini").write_text(text)

    async def start(self) -> None:
        """Start it, as another user than root, and wait until it serves."""
        place = programs.Workplace(self._folder, postgres.account())
        self._process = programs.Supervised([str(PROGRAM), "pgbouncer.ini"], place, self._folder / "log")
        await waiting.until(self._serves, "PgBouncer serves")

    async def stop(self) -> None:
        """Stop it at once: all connections break."""
        if self._process is not None:
            self._process.send(signal.SIGTERM)
            await asyncio.to_thread(self._process.ended.wait)

    async def _serves(self) -> bool:
        try:
            connection = await asyncpg.connect(self.url, statement_cache_size=0)
        except (OSError, asyncpg.PostgresError):
            return False
        await connection.close()
        return True


@pytest.mark.cluster
async def test_a_life_behind_pgbouncer(tmp_path: Path) -> None:
    requirements_of_tests.require("pgbouncer", PROGRAM.exists())
    async with bounced() as (server, bouncer):
        here = processes.Installation(tmp_path, bouncer.url, statement_cache="0", lease="3s")
        here.rows_url = server.url
        try:
            process = await here.start_server()
            async with load.under_load(here, jobs=10) as client:
                await retried(here)
                await paused_and_cancelled(here)
                await leases_are_renewed(here)
                await bouncer.stop()
                await bouncer.start()
                await load.balanced(here, client)
                assert process.is_running
                async with here.database() as rows:
                    assert await rows.fetchval("SELECT count(*) FROM pg_stat_activity WHERE datname = 'horarium'") <= 5
        finally:
            await here.close()


@pytest.mark.cluster
async def test_without_the_setting_for_poolers_it_says_so() -> None:
    requirements_of_tests.require("pgbouncer", PROGRAM.exists())
    async with bounced() as (_, bouncer):
        with pytest.raises(errors.UnavailableError, match="HORARIUM_STATEMENT_CACHE=0"):
            await Database(bouncer.url).open()


async def retried(here: processes.Installation) -> None:
    """A run that fails is carried out once more."""
    body = {"run_at": "now", "target": {"handler": "second-try"}, "retry": {"base_s": 0.1}}
    made = await here.call("POST", "/v1/jobs", body, expect=201)
    ended = await ended_run(here, made["id"])
    assert (ended["state"], ended["attempt"]) == ("succeeded", 2)


async def paused_and_cancelled(here: processes.Installation) -> None:
    """A paused job fires no more; a run that waits for nobody is cancelled."""
    body = {"name": "halted", "schedule": "* * * * *", "target": {"handler": "nobody-has-this"}}
    job = await here.call("POST", "/v1/jobs", body, expect=201)
    await here.call("POST", f"/v1/jobs/{job['id']}/pause", {"reason": "test"}, expect=204)
    assert (await here.call("GET", f"/v1/jobs/{job['id']}", expect=200))["status"] == "paused"
    started = await here.call("POST", f"/v1/jobs/{job['id']}/run", {}, expect=201)
    await here.call("POST", f"/v1/runs/{started['id']}/cancel", expect=202)
    ended = await ended_run(here, job["id"])
    assert ended["state"] == "cancelled"


async def leases_are_renewed(here: processes.Installation) -> None:
    """The shards stay with their leader, under the same term, from one renewal to the next."""
    query = "SELECT min(lease_expires_at) AS ends, max(term) AS term FROM shards"
    async with here.database() as rows:
        before = await rows.fetchrow(query)

        async def renewed() -> bool:
            return bool(await rows.fetchval("SELECT min(lease_expires_at) > $1 FROM shards", before["ends"]))

        await waiting.until(renewed, "the leases were renewed")
        assert (await rows.fetchrow(query))["term"] == before["term"]


async def ended_run(here: processes.Installation, job_id: str) -> dict[str, Any]:
    """The newest run of a job that ended."""
    async with here.database() as rows:

        async def look() -> asyncpg.Record | None:
            return await rows.fetchrow(
                "SELECT * FROM history WHERE job_id = $1 ORDER BY finished_at DESC LIMIT 1", job_id
            )

        return dict(await waiting.until(look, f"a run of {job_id} has ended"))


@asynccontextmanager
async def bounced() -> AsyncIterator[tuple[postgres.Server, Bouncer]]:
    """A server whose schema was made directly, and PgBouncer before it."""
    with postgres.open_folder() as folder, postgres.Server(folder) as server:
        await asyncio.to_thread(server.create)
        await asyncio.to_thread(server.start)
        connection = await asyncpg.connect(server.url)
        await migrator.migrate(connection)
        await connection.close()
        bouncer = Bouncer(folder, server)
        await bouncer.start()
        try:
            yield server, bouncer
        finally:
            await bouncer.stop()
