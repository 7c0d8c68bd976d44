"""Queues, workers, API keys, the audit and cron previews over real HTTP."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from horarium.services.inspector import Inspector
from horarium.services.views import QueueState, QueueStates
from horarium.store import shards, workers
from horarium.store.database import Database
from tests.api.conftest import Api, node


class Memory:
    """What the leader's memory would say."""

    async def queues(self) -> QueueStates:
        return QueueStates([QueueState(name, "acme", 1, 2, 3, 4.5) for name in ("b", "a", "c")])

    async def progress(self, run_id: UUID) -> str | None:
        return None


async def test_queues_come_from_memory_in_pages(api: Api, database_url: str) -> None:
    database = Database(database_url, pool_size=2)
    await database.open()
    async with node(database_url, inspector=Inspector(database, Memory())) as leading:
        leading.keys = api.keys
        first = (await leading("GET", "/v1/queues?limit=2", role="viewer")).body
        rest = (await leading("GET", f"/v1/queues?limit=2&cursor={first['next_cursor']}", role="viewer")).body
    await database.close()
    assert [queue["name"] for queue in first["items"] + rest["items"]] == ["a", "b", "c"]
    assert first["items"][0] == {
        "name": "a", "paused": False, "waiting": 3, "scheduled": 1, "queued": 2, "running": 3, "oldest_due_s": 4.5,
        "workers": 0, "slots": 0, "exact": True,
    }  # fmt: skip


async def test_workers_are_listed_in_pages(api: Api) -> None:
    queues = '[{"name": "mail", "weight": 6}]'
    rows = [workers.WorkerRow(f"w{n}", "acme", "n1", "1.0", "host", 7, queues, None, 10, 2) for n in range(3)]
    async with api.services.database.connection() as connection:
        await workers.upsert(connection, rows)
    first = (await api("GET", "/v1/workers?limit=2")).body
    rest = (await api("GET", f"/v1/workers?limit=2&cursor={first['next_cursor']}")).body
    assert [worker["id"] for worker in first["items"] + rest["items"]] == ["w0", "w1", "w2"]
    assert first["items"][0]["queues"] == [{"name": "mail", "weight": 6}]
    assert (first["items"][0]["state"], first["items"][0]["handlers"]) == ("alive", None)
    assert [queue["workers"] for queue in (await api("GET", "/v1/queues")).body["items"]] == [3]


async def test_shards_and_nodes_are_listed_in_pages(api: Api) -> None:
    lease = timedelta(seconds=3)
    async with api.services.database.connection() as connection:
        for name in ("n2", "n1"):
            await shards.beat(connection, shards.NodeRow(name, f"http://{name}", "1.0", "host", 7))
        taken = await shards.take(connection, "n1", lease, 3)
    first = (await api("GET", "/v1/shards?limit=10")).body
    rest = (await api("GET", f"/v1/shards?limit=10&cursor={first['next_cursor']}")).body
    found = first["items"] + rest["items"]
    assert [shard["shard"] for shard in found] == list(range(16))
    assert {shard["database"] for shard in found} == {"a"}
    assert [shard["leader"] for shard in found] == ["n1"] * 3 + [None] * 13
    assert (found[0]["leader_url"], found[0]["term"]) == ("http://n1", taken[0])
    first = (await api("GET", "/v1/nodes?limit=1")).body
    rest = (await api("GET", f"/v1/nodes?limit=1&cursor={first['next_cursor']}")).body
    (one,), (other,) = first["items"], rest["items"]
    assert (one["id"], one["state"], one["url"], one["shards"]) == ("n1", "alive", "http://n1", [0, 1, 2])
    assert (other["id"], other["shards"]) == ("n2", [])


async def test_a_key_is_made_listed_and_revoked(api: Api) -> None:
    made = await api(
        "POST", "/v1/api-keys", {"role": "viewer", "name": "board", "expires_at": "2090-01-01T00:00:00+01:00"}
    )
    assert made.status == 201
    assert made.body["token"].startswith(f"hrm_live_{made.body['id']}_")
    assert (made.body["role"], made.body["tenant"], made.body["expires_at"]) == (
        "viewer",
        "acme",
        "2089-12-31T23:00:00Z",
    )
    listed = (await api("GET", "/v1/api-keys?limit=1")).body
    assert listed["items"] == [{name: value for name, value in made.body.items() if name != "token"}]
    assert (await api("DELETE", f"/v1/api-keys/{made.body['id']}")).status == 204
    assert (await api("GET", "/v1/api-keys?limit=1")).body["items"][0]["revoked_at"] is not None
    assert (await api("DELETE", "/v1/api-keys/nobody")).status == 404
    assert (await api("DELETE", "/v1/api-keys/a%00b")).status == 422
    assert made.body["token"] not in str(listed)


async def test_all_keys_are_listed_page_by_page(api: Api) -> None:
    seen: list[str] = []
    path = "/v1/api-keys?limit=2"
    while path:
        page = (await api("GET", path)).body
        seen += [key["name"] for key in page["items"]]
        path = f"/v1/api-keys?limit=2&cursor={page['next_cursor']}" if page["next_cursor"] else ""
    assert sorted(seen) == ["admin", "editor", "operator", "viewer", "worker"]


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, {"/role"}),
        ({"role": "root"}, {"/role"}),
        ({"role": "viewer", "expires_at": "2001-01-01T00:00:00Z"}, {"/expires_at"}),
        ({"role": "viewer", "expires_at": "soon", "name": "a\0", "tenant": "x"}, {"/expires_at", "/name", "/tenant"}),
    ],
)
async def test_a_key_that_cannot_be_is_refused(api: Api, body: Any, pointers: set[str]) -> None:
    refused = await api("POST", "/v1/api-keys", body)
    assert (refused.status, set(refused.faults)) == (422, pointers)


async def test_a_third_namesake_is_a_conflict(api: Api) -> None:
    for status in (201, 201, 409):
        assert (await api("POST", "/v1/api-keys", {"role": "viewer", "name": "board"})).status == status


async def test_the_audit_tells_who_did_what_from_where(api: Api) -> None:
    job = await api.job(name="a")
    await api("POST", "/v1/jobs/name:a/pause", {"reason": "r"}, role="operator", headers={"X-Request-Id": "req-7"})
    entries = (await api("GET", f"/v1/audit?object_id={job['id']}")).body["items"]
    assert [entry["action"] for entry in entries] == ["pause", "create"]
    assert entries[0]["actor"].startswith("operator/")
    assert (entries[0]["request_id"], entries[0]["remote"]) == ("req-7", "127.0.0.1")
    assert entries[1]["after"]["name"] == "a"
    first = (await api("GET", f"/v1/audit?object_id={job['id']}&limit=1")).body
    rest = (await api("GET", f"/v1/audit?object_id={job['id']}&limit=1&cursor={first['next_cursor']}")).body
    assert [entry["action"] for entry in rest["items"]] == ["create"]
    assert [entry["action"] for entry in (await api("GET", "/v1/audit?action=pause")).body["items"]] == ["pause"]


async def test_a_cron_expression_is_explained(api: Api) -> None:
    answer = await api(
        "GET", "/v1/cron/explain?schedule=30+2+*+*+*&timezone=America/New_York&count=2&after=2026-03-07T00:00:00Z"
    )
    assert answer.status == 200
    assert answer.body["next_runs"] == ["2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z"]
    assert answer.body["next_runs_local"] == ["2026-03-07T02:30:00-05:00", "2026-03-08T03:00:00-04:00"]
    assert "02:30" in answer.body["schedule_text"]
    assert len(answer.body["warnings"]) == 1


@pytest.mark.parametrize(
    ("query", "pointer", "code"),
    [
        ("schedule=0+0+31+4+*", "/query/schedule", "never_fires"),
        ("schedule=nonsense", "/query/schedule", "invalid_schedule"),
        ("schedule=@daily&timezone=Mars/Base", "/query/timezone", "invalid_timezone"),
        ("timezone=UTC", "/query/schedule", "missing"),
        ("schedule=@daily&count=0", "/query/count", None),
        ("schedule=@daily&after=now", "/query/after", None),
        ("schedule=@daily&tz=UTC", "/query/tz", "unknown_parameter"),
    ],
)
async def test_a_wrong_question_about_cron_is_refused(api: Api, query: str, pointer: str, code: str | None) -> None:
    refused = await api("GET", f"/v1/cron/explain?{query}")
    assert refused.status == 422
    assert refused.faults.keys() == {pointer}
    assert code in (None, refused.faults[pointer])
