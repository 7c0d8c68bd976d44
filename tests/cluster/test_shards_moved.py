"""A shard moves to another database and back while its jobs run every second, and the mover is killed on the way.

The nodes' duties run here, one control plane for each database, as in a node; the mover is a process of its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

from horarium.domain import ids, job, sharding
from horarium.domain.outcome import Outcome
from horarium.errors import UnavailableError
from horarium.events import Events, Name
from horarium.services import spread
from horarium.services.control_plane import ControlPlane
from horarium.services.mender import Mender
from horarium.services.registry import Node
from horarium.store.databases import Databases
from tests import several
from tests.cluster import processes
from tests.cluster.processes import ROOT, SAFETY_S
from tests.cluster.waiting import until
from tests.lives import planes
from tests.recording import Recorder
from tests.services.catalog_world import WHO

SHARDS = 4
JOBS = 3  # of the shard that is moved; others beside them
MOVED = 0
A, B = 0, 1


@dataclass
class Installation:
    """Two databases, a plane for each, and a worker for each plane."""

    databases: Databases
    planes: list[ControlPlane]
    told: Recorder
    jobs: list[job.Job]

    def leading(self, run_id: UUID) -> ControlPlane:
        """The plane that leads a run's shard, as a node finds it."""
        for plane in self.planes:
            if plane.leader.knows(run_id):
                return plane
        raise UnavailableError("nobody leads this shard right now")

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        """Rows of both databases, of shards that live there."""
        found: list[Any] = []
        for database in self.databases.all:
            async with database.connection() as connection:
                found += await connection.fetch(query, *values)
        return found

    async def runs_ended(self, shard: int) -> None:
        """Wait until some more runs of a shard have ended, beyond those that were under way."""
        before = await self._ended(shard)
        async with asyncio.timeout(SAFETY_S):
            while await self._ended(shard) < before + 3 * JOBS:
                await self.told.wait_for(Name.RUNS_SUCCEEDED, count=self.told.total(Name.RUNS_SUCCEEDED) + 1)

    async def _ended(self, shard: int) -> int:
        rows = await self.fetch(
            "SELECT count(DISTINCT id) FROM history WHERE shard = $1"
            " AND shard IN (SELECT shard FROM shards WHERE state IN ('here', 'leaving'))",
            shard,
        )
        return sum(row[0] for row in rows)


class Worker(planes.Worker):
    """Reports to whichever plane leads the run by then."""

    installation: Installation

    async def _carry_out(self, attempt: planes.Attempt) -> None:
        await planes._pause(attempt.lease.get("start_in_s", 0))
        await planes._pause(0.2)

        async def report() -> object:
            attempt.plane = self.installation.leading(attempt.run_id)
            return await attempt.report(Outcome.SUCCEEDED)

        await planes._placed(report)
        self.held.pop(attempt.run_id, None)


@asynccontextmanager
async def installed(urls: list[str]) -> AsyncIterator[Installation]:
    """Jobs that run every second, at work."""
    async with several.joined(urls, SHARDS) as databases, AsyncExitStack() as stack:
        events = Events()
        told = Recorder(events)
        made = [ControlPlane(each, Node("node", None, "0", "host", 1), events, planes.QUICK) for each in databases.all]
        made[0].add_duty("databases", Mender(databases, "node").run_once)
        services = spread.over(
            databases, [each.clock for each in made], [None] * 2, [each.leader for each in made], SHARDS
        )
        installation = Installation(databases, made, told, [])
        for plane in made:
            await plane.start()
            stack.push_async_callback(plane.stop)
            worker = Worker(plane, lambda attempt: asyncio.sleep(0), f"w{len(installation.jobs)}-{id(plane)}")
            worker.installation = installation
            await stack.enter_async_context(worker.at_work())
        while sum(each.shard == MOVED for each in installation.jobs) < JOBS:
            spec = job.JobSpec(target={"handler": "h"}, interval_s=1)
            installation.jobs.append(await services.catalog.create(WHO, spec))
        yield installation


class MoverProcess:
    """`horarium shards move` as a process."""

    def __init__(self, urls: list[str], to: str) -> None:
        self._arguments = ("shards", "move", str(MOVED), "--to", to)
        self._environment = {**os.environ, "HORARIUM_DATABASE_URL": several.addressed(urls)}

    async def run(self, kill_at: bytes | None = None) -> int:
        """Run to its end, or kill it when it tells a step."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "horarium", *self._arguments,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, env=self._environment, cwd=ROOT,
        )  # fmt: skip
        assert process.stderr is not None
        said = b""
        async with asyncio.timeout(SAFETY_S):
            while line := await process.stderr.readline():
                said += line
                if kill_at is not None and line.startswith(kill_at):
                    os.kill(process.pid, signal.SIGKILL)
            code = await process.wait()
        assert code == (0 if kill_at is None else -signal.SIGKILL), said.decode()
        return code


async def test_a_shard_moves_there_and_back_under_load_and_the_books_balance(database_urls: list[str]) -> None:
    async with installed(database_urls) as installation:
        await installation.runs_ended(MOVED)
        await MoverProcess(database_urls, "b").run(kill_at=b"copy")
        await installation.runs_ended(MOVED)  # the pause was ended by the node
        await MoverProcess(database_urls, "b").run()
        await installation.runs_ended(MOVED)
        assert {each.leader.leads(MOVED) for each in installation.planes} == {False, True}
        await MoverProcess(database_urls, "a").run(kill_at=b"leave")
        await installation.runs_ended(MOVED)
        await MoverProcess(database_urls, "a").run()
        await installation.runs_ended(MOVED)
        await _check_books(installation)


async def _check_books(installation: Installation) -> None:
    """Each second of each job is one run, ended once or live, in one database; and none was skipped."""
    # The live ones first: what ends between the two looks is seen twice, and nothing not at all.
    live = await installation.fetch("SELECT id, job_id, scheduled_for FROM runs")
    rows = await installation.fetch("SELECT id, job_id, scheduled_for FROM history")
    assert max(Counter(row["id"] for row in live).values(), default=1) == 1
    assert max(Counter(row["id"] for row in rows).values()) == 1
    assert await installation.fetch("SELECT * FROM skips") == []
    runs = {row["id"]: row for row in [*live, *rows]}.values()
    for each in installation.jobs:
        ticks = sorted(row["scheduled_for"] for row in runs if row["job_id"] == each.id)
        missing = [one for one, other in pairwise(ticks) if other - one != timedelta(seconds=1)]
        assert missing == [], (each.shard, missing)
        assert ids.shard_of(each.id) == each.shard


async def test_runs_of_a_real_node_and_worker_outlast_a_move(database_urls: list[str], tmp_path: Path) -> None:
    async with (
        several.joined(database_urls, SHARDS) as databases,
        processes.installation(tmp_path, several.addressed(database_urls)) as made,
    ):
        await made.start_worker()
        for number in range(4 * SHARDS):
            body = {"name": f"every-second-{number}", "target": {"handler": "tick"}, "interval_s": 1}
            await made.call("POST", "/v1/jobs", body, expect=201)
        long = {"name": _named_in(MOVED), "target": {"handler": "say"}, "run_at": "now"}
        await made.call("POST", "/v1/jobs", long, expect=201)
        await _ended(databases, A, 4)
        await MoverProcess(database_urls, "b").run()
        await _ended(databases, B, 4)
        await databases.reload()
        assert databases.place_of(MOVED) == B
        page = await made.call("GET", f"/v1/jobs/name:{long['name']}/runs", expect=200)
        assert [run["state"] for run in page["items"]] == ["succeeded"]
        await _every_second_once(databases)


def _named_in(shard: int) -> str:
    names = (f"long-{number}" for number in range(1000))
    return next(name for name in names if sharding.shard_of_name("default", name, SHARDS) == shard)


async def _ended(databases: Databases, place: int, more: int) -> None:
    """Wait until further runs of the shard have ended in a database."""
    async with databases.all[place].connection() as connection:
        query = "SELECT count(*) FROM history WHERE shard = $1"
        before = await connection.fetchval(query, MOVED)

        async def look() -> bool:
            return bool(await connection.fetchval(query, MOVED) >= before + more)

        await until(look, f"further runs of shard {MOVED} in database {databases.names[place]}")


async def _every_second_once(databases: Databases) -> None:
    """Each second of each job is a run, whose first attempt succeeded or goes on."""
    ticks: dict[UUID, list[Any]] = {}
    for database in databases.all:
        async with database.connection() as connection:
            query = """
                SELECT job_id, scheduled_for, attempt, state FROM history WHERE target_key = 'tick'
                UNION ALL SELECT job_id, scheduled_for, 1, 'succeeded' FROM runs WHERE target_key = 'tick'
            """
            for row in await connection.fetch(query):
                assert (row["attempt"], row["state"]) == (1, "succeeded")
                ticks.setdefault(row["job_id"], []).append(row["scheduled_for"])
            assert await connection.fetchval("SELECT count(*) FROM skips") == 0
    for times in ticks.values():
        gaps = {other - one for one, other in pairwise(sorted(times))}
        assert gaps == {timedelta(seconds=1)}
