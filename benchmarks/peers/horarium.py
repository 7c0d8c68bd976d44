"""Horarium itself: `horarium serve` and `horarium worker`, jobs made over the API."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

import horarium
from benchmarks import harness, jobs
from benchmarks.peers.peer import Peer
from benchmarks.peers.programs import called
from benchmarks.peers.site import LOOK_EVERY_S, Site, free_port

READY = "HORARIUM READY"
READY_WITHIN_S = 30.0
SLOTS = "2000"  # docs/guides/workers.md: how many runs a worker carries out at the same time
RUNNING = "SELECT count(*) FROM horarium.runs WHERE state = 'running'"
NOT_TAKEN_S = 0.3


class Horarium(Peer):
    """Results are kept as history. The minute mark has two servers, as it has two of everybody's processes."""

    name = "horarium"
    remarks: ClassVar = {"start_lag": "first ticks of jobs with an interval, since `run_at` is cut to whole seconds"}

    def __init__(self) -> None:
        self._urls: list[str] = []
        self._decoys = 0

    def available(self) -> str | None:
        return None

    def versions(self) -> dict[str, str]:
        return {"horarium": horarium.__version__, "Python": platform.python_version()}

    async def prepare(self, site: Site) -> None:
        await (await harness.fresh(site.database_url)).close()
        self._urls = [await self._serve(site) for _ in range(2 if site.schedules else 1)]

    async def start(self, site: Site) -> None:
        for number in range(site.processes):
            first = number % len(self._urls)
            site.start(
                harness.python("-m", "horarium", "worker", "benchmarks.peers.handlers:h", "--slots", SLOTS),
                HORARIUM_URL=",".join([*self._urls[first:], *self._urls[:first]]),
                HORARIUM_API_KEY_FILE=str(_key_file(site)),
            )

    async def enqueue(self, site: Site, first: int, count: int, begin: float | None = None, step: float = 0.0) -> None:
        if site.is_paused:
            await self._answer_open_polls(site)
        due = () if begin is None else (repr(begin), repr(step))
        for batch in called.batches(str(first), str(count), *due):
            await self._create(site, map(_body, batch))

    async def schedule(self, site: Site) -> None:
        await self._create(site, map(_cron, range(site.schedules)))

    async def unfinished(self, site: Site) -> bool:
        left: bool = await site.connection.fetchval("SELECT EXISTS (SELECT FROM horarium.runs)")
        return left

    async def handed_out(self, site: Site) -> int:
        running: int = await site.connection.fetchval(RUNNING)
        return max(0, running - self._decoys)

    async def _create(self, site: Site, bodies: Iterable[jobs.Body]) -> None:
        await jobs.create(self._urls[0], _key_file(site).read_text().strip(), bodies)

    async def _answer_open_polls(self, site: Site) -> None:
        """A paused worker's open poll is answered with one job more, so that no job of the work is handed out early."""
        self._decoys = 0
        while True:
            await self._create(site, [_body(called.Job(0, None))])
            try:
                async with asyncio.timeout(NOT_TAKEN_S):
                    while await site.connection.fetchval(RUNNING) == self._decoys:
                        await asyncio.sleep(LOOK_EVERY_S)
            except TimeoutError:
                return
            self._decoys += 1

    async def _serve(self, site: Site) -> str:
        port = free_port()
        log = site.folder / f"serve-{port}.log"
        site.start(
            harness.python("-m", "horarium", "serve", "--port", str(port), "--first-key-file", str(_key_file(site))),
            is_worker=False,
            log=log.name,
            HORARIUM_DATABASE_URL=site.database_url,
            HORARIUM_LOG_LEVEL="warning",
        )
        async with asyncio.timeout(READY_WITHIN_S):
            while READY not in log.read_text():
                site.check_alive()
                await asyncio.sleep(LOOK_EVERY_S)
        return f"http://127.0.0.1:{port}"


def _body(job: called.Job) -> jobs.Body:
    """A job that runs once; or, since `run_at` is cut to whole seconds, the first tick of one that repeats after a day."""
    told: jobs.Body = {"target": {"handler": "noop"}, "payload": job.payload}
    if job.due is None:
        return {**told, "run_at": "now"}
    return {**told, "name": f"once-{job.n}", "interval_s": 86_400, "start_at": jobs.instant(job.due)}


def _cron(n: int) -> jobs.Body:
    payload = called.Job(n, None).payload
    return {"name": f"every-{n}", "target": {"handler": "noop"}, "payload": payload, "schedule": "* * * * *"}


def _key_file(site: Site) -> Path:
    return site.folder / "api_key"
