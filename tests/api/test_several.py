"""The API over two databases: keys of requests, lists that lack something, and what a silent database stops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest

from horarium.domain import ids, sharding
from horarium.services import spread
from horarium.services.keys import Keys
from horarium.services.pokes import NoPokes
from horarium.store.databases import Databases
from tests import several
from tests.api.conftest import Api, node
from tests.services.catalog_world import HandClock

SHARDS = 4
ONCE = {"target": {"handler": "h"}, "run_in_s": 3600}


@pytest.fixture
async def databases(database_urls: list[str]) -> AsyncIterator[Databases]:
    async with several.joined(database_urls, SHARDS) as made:
        yield made


@pytest.fixture
async def api(databases: Databases) -> AsyncIterator[Api]:
    made = spread.over(databases, [HandClock()] * 2, [None] * 2, [NoPokes()] * 2, SHARDS)
    services = {name: getattr(made, name) for name in ("catalog", "manual", "canceller", "inspector")}
    home = databases.home.url
    async with node(home, databases=databases, keys=Keys(databases.home), shards=SHARDS, **services) as listening:
        listening.keys["acme", "admin"] = await listening.services.keys.create("acme", "admin", "admin")
        yield listening


def key_of(databases: Databases, place: int) -> str:
    """An `Idempotency-Key` that lives at a place."""
    keys = (str(uuid4()) for _ in range(100))
    return next(key for key in keys if databases.place_of(sharding.shard_of_name("acme", key, SHARDS)) == place)


async def silence(databases: Databases, place: int) -> None:
    await databases.all[place].close()
    await databases.reload()


async def test_a_repeat_does_the_thing_once_wherever_key_and_job_live(api: Api, databases: Databases) -> None:
    seen = set()
    while len(seen) < 4:
        for place in (0, 1):
            key = key_of(databases, place)
            first, again = [await api("POST", "/v1/jobs", ONCE, headers={"Idempotency-Key": key}) for _ in range(2)]
            assert (first.status, again.status, again.raw) == (201, 201, first.raw)
            seen.add((place, databases.place_of(_shard(first.body["id"]))))


def _shard(identifier: str) -> int:
    return ids.shard_of(UUID(identifier))


async def test_a_lost_answer_is_looked_for_in_every_database(api: Api, databases: Databases) -> None:
    for place in (0, 1):
        key = key_of(databases, place)
        made = await api("POST", "/v1/jobs", ONCE, headers={"Idempotency-Key": key})
        async with databases.all[place].connection() as connection:
            await connection.execute(
                "UPDATE idempotency_keys SET status = 0, headers = $2, body = NULL WHERE key = $1",
                key,
                f'{{"x-request-id": "{made.headers["X-Request-Id"]}"}}',
            )
        for database in databases.all:
            async with database.connection() as connection:
                # The line has the day of the test's clock; the key has the machine's, and lives for 24 hours of it.
                await connection.execute(
                    "UPDATE audit SET at = now() WHERE request_id = $1", made.headers["X-Request-Id"]
                )
        again = await api("POST", "/v1/jobs", ONCE, headers={"Idempotency-Key": key})
        assert (again.status, again.kind) == (409, "outcome-unknown")
        assert made.body["id"] in again.body["detail"]


async def test_a_list_is_whole_or_says_what_it_lacks(api: Api, databases: Databases) -> None:
    made = [await api("POST", "/v1/jobs", ONCE) for _ in range(12)]
    whole = await api("GET", "/v1/jobs?limit=5")
    assert "missing" not in whole.body
    await silence(databases, 1)
    kept = sorted((each.body["id"] for each in made if databases.place_of(_shard(each.body["id"])) == 0), reverse=True)
    for path in ("jobs", "runs", "queues", "workers", "dead-letters", "dead-letters?group=1", "audit"):
        refused = await api("GET", f"/v1/{path}")
        assert (refused.status, refused.kind) == (503, "unavailable"), path
        assert "database b cannot be asked" in refused.body["detail"]
        shown = await api("GET", f"/v1/{path}{'&' if '?' in path else '?'}partial=true")
        assert (shown.status, shown.body["missing"]) == (200, ["b"]), path
    page = await api("GET", "/v1/jobs?partial=true&limit=500")
    assert [each["id"] for each in page.body["items"]] == kept


async def test_a_silent_database_is_named_and_the_node_serves_on(api: Api, databases: Databases) -> None:
    assert (await api("GET", "/readyz")).body["faults"] == []
    await silence(databases, 1)
    ready = await api("GET", "/readyz")
    assert (ready.status, ready.body["faults"]) == (200, ["database b does not answer"])
    assert (await api("POST", "/v1/jobs", ONCE)).status == 201
    await silence(databases, 0)
    assert (await api("GET", "/readyz")).status == 503


async def test_pages_of_the_merged_lists_neither_repeat_nor_skip(api: Api) -> None:
    made = [(await api("POST", "/v1/jobs", ONCE)).body["id"] for _ in range(11)]
    for path, name in (("jobs", "id"), ("audit", "object_id")):
        seen, cursor = [], ""
        while cursor is not None:
            page = await api("GET", f"/v1/{path}?limit=3{f'&cursor={cursor}' if cursor else ''}")
            seen += [item[name] for item in page.body["items"]]
            cursor = page.body["next_cursor"]
        jobs = [each for each in seen if each in made]
        assert sorted(jobs) == sorted(made), path
