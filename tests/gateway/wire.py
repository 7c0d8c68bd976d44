"""A node's wire as a worker meets it: real HTTP, a real control plane, and the messages written by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

import aiohttp

from horarium.domain import roles
from horarium.events import Events
from horarium.gateway.app import Gateway
from horarium.gateway.worker_calls import WorkerCalls
from horarium.protocol import messages
from horarium.services.control_plane import ControlPlane, Timing
from horarium.services.keys import Keys
from horarium.services.registry import Node
from horarium.store import runs
from horarium.store.database import Database
from tests import builders
from tests.api.serving import serving
from tests.recording import Recorder

WAIT_S = 30.0


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: dict[str, Any]


def is_problem(answer: Answer, status: int) -> bool:
    """Whether an answer is a problem document of this status."""
    is_json = answer.headers["Content-Type"] == "application/problem+json"
    return is_json and answer.status == answer.body["status"] == status


class Held(NamedTuple):
    """A run as its worker knows it."""

    run_id: str
    token: int
    job: builders.Job

    @property
    def id(self) -> UUID:
        """The run's id as rows have it."""
        return UUID(self.run_id)


@dataclass
class Wire:
    """A node and the connection of its workers to it. Calls carry the key of a worker of tenant `default`."""

    plane: ControlPlane
    told: Recorder
    keys: Keys
    url: str
    session: aiohttp.ClientSession
    tokens: dict[str, str] = field(default_factory=dict)

    async def token(self, tenant: str = "default", role: str = roles.Role.WORKER) -> str:
        """A key of a tenant, made once."""
        name = f"{tenant}-{role}"
        if name not in self.tokens:
            self.tokens[name] = await self.keys.create(tenant, role, name)
        return self.tokens[name]

    async def send(self, path: str, body: bytes, *, token: str | None, method: str = "POST") -> Answer:
        """Any request at all."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with self.session.request(method, self.url + path, data=body, headers=headers) as response:
            return Answer(response.status, dict(response.headers), await response.json(content_type=None))

    async def call(self, path: str, body: dict[str, Any], *, tenant: str = "default") -> dict[str, Any]:
        """A worker's call that must be taken."""
        answer = await self.send(path, messages.encode(body), token=await self.token(tenant))
        assert answer.status == 200, answer
        return answer.body

    async def lease(
        self, worker: str = "w1", *, slots: int = 1, wait_s: float = WAIT_S, tenant: str = "default", **more: Any
    ) -> dict[str, Any]:
        """Ask for runs."""
        body = {"worker": {"id": worker}, "queues": [{"name": "default"}], "slots": slots, "wait_s": wait_s, **more}
        return await self.call(messages.LEASE_PATH, body, tenant=tenant)

    async def heartbeat(self, *held: Held, worker: str = "w1", tenant: str = "default", **more: Any) -> dict[str, Any]:
        """Tell that runs are held; `more` goes with each of them."""
        listed = [{"run_id": run.run_id, "fencing_token": run.token, **more} for run in held]
        return await self.call(messages.HEARTBEAT_PATH, {"worker": {"id": worker}, "runs": listed}, tenant=tenant)

    async def report(
        self, held: Held, outcome: str = "succeeded", *, worker: str = "w1", tenant: str = "default", **more: Any
    ) -> dict[str, Any]:
        """Tell how an attempt ended."""
        result = {"run_id": held.run_id, "fencing_token": held.token, "outcome": outcome, **more}
        return await self.call(messages.REPORT_PATH, {"worker": {"id": worker}, "results": [result]}, tenant=tenant)

    async def make(self, *, ready_in: timedelta = timedelta(0), **members: Any) -> runs.RunRow:
        """A run of a new job, ready after a while, that the leader knows of."""
        job = await self._job(**members)
        return await self._make(job, ready_in)

    async def started(self, worker: str = "w1", **members: Any) -> Held:
        """A run that a worker has leased."""
        job = await self._job(**members)
        await self._make(job, timedelta(0))
        (lease,) = (await self.lease(worker, queues=[{"name": job.queue}]))["leases"]
        return Held(lease["run_id"], lease["fencing_token"], job)

    async def waiting(self, requests: int = 1) -> None:
        """Until exactly so many requests for leases wait."""
        await builders.until(lambda: self.plane.dispatcher.waiting() == requests)

    async def row(self, run_id: UUID) -> Any:
        """The live row of a run, or None."""
        async with self.plane.database.connection() as connection:
            return await connection.fetchrow("SELECT * FROM runs WHERE id = $1", run_id)

    async def ended(self, run_id: UUID) -> Any:
        """The row of a run in history, or None."""
        async with self.plane.database.connection() as connection:
            return await connection.fetchrow("SELECT * FROM history WHERE id = $1", run_id)

    async def logs(self, run_id: UUID) -> list[Any]:
        """The lines kept with a run."""
        async with self.plane.database.connection() as connection:
            return list(await connection.fetch("SELECT * FROM run_logs WHERE run_id = $1 ORDER BY seq", run_id))

    async def _job(self, **members: Any) -> builders.Job:
        now = await self.plane.database.now()
        async with self.plane.database.connection() as connection:
            return await builders.insert_job(connection, builders.once(now), **members)

    async def _make(self, job: builders.Job, ready_in: timedelta) -> runs.RunRow:
        row = job.by_hand(await self.plane.database.now() + ready_in)
        async with self.plane.database.connection() as connection:
            await runs.insert(connection, [row])
        self.plane.leader.add([builders.live(row)])
        return row


@asynccontextmanager
async def open_wire(url: str, *, started: bool = True) -> AsyncIterator[Wire]:
    """A node on a database, served on a free port. Not `started`: it has taken its shards, and has loaded none of them."""
    database = Database(url, pool_size=6)
    await database.open()
    events = Events()
    plane = ControlPlane(database, Node("node-1", None, "0", "host", 1), events, Timing())
    told = Recorder(events)
    keys = Keys(database)
    calls = WorkerCalls(plane.leader, plane.dispatcher, plane.completer, plane.reaper, plane.registry)
    if started:
        await plane.start()
    else:
        await plane.lease_database.open()
        await plane.owner.run_once()
    try:
        async with serving(Gateway(keys, calls)) as base, aiohttp.ClientSession() as session:
            async with asyncio.timeout(2 * WAIT_S):
                yield Wire(plane, told, keys, base, session)
    finally:
        await plane.stop()
        await database.close()
