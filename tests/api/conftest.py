"""The API of one node over real HTTP and a real database, and keys of every role in two tenants."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import aiohttp
import asyncpg
import msgspec
import pytest
from yarl import URL

from horarium import clock as clocks
from horarium.api import app as apps
from horarium.api.services import Services
from horarium.domain import ids, roles
from horarium.services.canceller import Canceller
from horarium.services.catalog import Catalog
from horarium.services.inspector import Inspector
from horarium.services.keys import Keys
from horarium.services.manual import Manual
from horarium.services.pokes import NoPokes
from horarium.store import migrator
from horarium.store.database import Database
from horarium.store.databases import Databases
from tests import databases
from tests.api.serving import serving

SHARDS = 16
_WRITTEN = (
    "jobs", "timers", "runs", "history", "run_logs", "skips", "dead_letters", "workers", "rollups", "idempotency_keys", "audit",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return msgspec.json.decode(self.raw)

    @property
    def kind(self) -> str:
        """The problem's type without its prefix."""
        assert self.headers["Content-Type"] == "application/problem+json", self.raw
        return str(self.body["type"]).removeprefix("urn:horarium:problem:")

    @property
    def faults(self) -> dict[str, str]:
        """Code of each fault by its pointer."""
        return {fault["pointer"]: fault["code"] for fault in self.body["errors"]}


class Api:
    """A client of the API, with a key for each role. `acme` is the usual tenant, `other` a foreign one."""

    def __init__(self, services: Services, session: aiohttp.ClientSession, url: str) -> None:
        self.services = services
        self.url = url
        self._session = session
        self.keys: dict[tuple[str, str], str] = {}
        self.tasks: list[asyncio.Task[None]] = []

    async def make_keys(self) -> None:
        for tenant in ("acme", "other"):
            for role in roles.Role:
                self.keys[tenant, role] = await self.services.keys.create(tenant, role, role)

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        role: str | None = "admin",
        tenant: str = "acme",
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request; `body` is sent as JSON, `raw` as it is, `path` is encoded already."""
        sent = {} if role is None else {"Authorization": f"Bearer {self.keys[tenant, role]}"}
        content = raw if body is None else msgspec.json.encode(body)
        if content is not None:
            sent["Content-Type"] = "application/json"
        url = URL(self.url + path, encoded=True)
        data = None if content is None else io.BytesIO(content)
        async with self._session.request(
            method, url, data=data, headers={**sent, **(headers or {})}, allow_redirects=False
        ) as response:
            return Answer(response.status, response.headers, await response.read())

    async def job(self, **members: Any) -> Any:
        """A job that was made: hourly, unless said otherwise."""
        timed = {"schedule", "interval_s", "run_at", "run_in_s"} & members.keys()
        usual = {"target": {"handler": "h"}} if timed else {"target": {"handler": "h"}, "schedule": "0 * * * *"}
        made = await self("POST", "/v1/jobs", {**usual, **members})
        assert made.status == 201, made.raw
        return made.body

    async def final_run(self, job_id: str, minutes: float = 0, **columns: Any) -> UUID:
        """A run of a job that has ended, written as the control plane leaves it."""
        now = await self.services.database.now()
        nominal = now + timedelta(minutes=minutes)
        job = UUID(job_id)
        shard = ids.shard_of(job)
        row = {
            "id": ids.tick_run_id(job, shard, nominal),
            "job_id": job,
            "scheduled_for": nominal,
            "ready_at": nominal,
            "finished_at": now,
            "fencing_token": 1,
            "job_version": 1,
            "shard": shard,
            "priority": 5,
            "attempt": 1,
            "state": "succeeded",
            "trigger": "schedule",
            "tenant_id": "acme",
            "queue": "default",
            "target_key": "h",
            **columns,
        }
        places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
        async with self.services.database.connection() as connection:
            await connection.execute(f"INSERT INTO history ({', '.join(row)}) VALUES ({places})", *row.values())
        run_id: UUID = row["id"]
        return run_id

    async def dead_letter(self, job_id: str, minutes: float = 0, error: str = "ValueError: boom") -> UUID:
        """A dead run of a job, with its dead letter."""
        run_id = await self.final_run(job_id, minutes, state="dead", error=error, started_at=None)
        async with self.services.database.connection() as connection:
            await connection.execute(
                "INSERT INTO dead_letters (run_id, job_id, tenant_id, queue, shard, fingerprint, error, attempts) "
                "SELECT id, job_id, tenant_id, queue, shard, md5($2), $2, 4 FROM history WHERE id = $1",
                run_id,
                error,
            )
        return run_id


@asynccontextmanager
async def node(database_url: str, **changed: Any) -> AsyncIterator[Api]:
    """The API of a node, listening."""
    database = Database(database_url, pool_size=5)
    await database.open()
    try:
        services = await make_services(database, **changed)
        async with serving(apps.build(services)) as url, aiohttp.ClientSession() as session:
            api = Api(services, session, url)
            yield api
            await asyncio.gather(*api.tasks)
    finally:
        await database.close()


async def make_services(database: Database, **changed: Any) -> Services:
    """The services of a node that leads nothing."""
    clock = clocks.DatabaseClock()
    before = clock.monotonic()
    clock.observe(await database.now(), before, clock.monotonic())
    async with database.connection() as connection:
        facts = await migrator.facts(connection)
    usual = {
        "databases": Databases.only(database),
        "clock": clock,
        "catalog": Catalog(database, clock, NoPokes(), SHARDS),
        "manual": Manual(database, clock, NoPokes()),
        "canceller": Canceller(database, clock, NoPokes()),
        "keys": Keys(database),
        "inspector": Inspector(database),
        "cursor_secret": facts["cursor_secret"].encode(),
        "render_metrics": lambda: b"# HELP horarium_up Whether it is.\nhorarium_up 1\n",
    }
    return Services(**{**usual, **changed})


Keyring = dict[tuple[str, str], str]


@pytest.fixture(scope="session")
def keyring() -> Keyring:
    """Tokens by (tenant, role), made by the first test that asks and kept for all: making them takes longest."""
    return {}


@pytest.fixture(scope="session")
def shared_url(databases_of_run: databases.Session) -> Iterator[str]:
    """The address of a migrated database that the tests of this folder share."""
    url = databases_of_run.create_database()
    yield url
    databases_of_run.drop_database(url)


@pytest.fixture
async def database_url(shared_url: str, keyring: Keyring) -> str:
    """The address of a database that holds the keys of the keyring and nothing else."""
    kept = [token.split("_")[2] for token in keyring.values()]
    connection = await asyncpg.connect(shared_url)
    try:
        for table in _WRITTEN:
            await connection.execute(f"DELETE FROM {table}")
        await connection.execute("DELETE FROM api_keys WHERE NOT id = ANY($1)", kept)
    finally:
        await connection.close()
    return shared_url


@pytest.fixture
async def api(database_url: str, keyring: Keyring) -> AsyncIterator[Api]:
    """The API of a node, with a key of each role in two tenants."""
    async with node(database_url) as api:
        api.keys = keyring
        if not keyring:
            await api.make_keys()
        yield api
