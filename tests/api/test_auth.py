"""Who may do what: every route, with every role, with a foreign tenant's key, and without one."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import pytest

from horarium.api import app, auth, openapi
from horarium.domain import keys, roles
from tests.api.conftest import Api

R = roles.Right

# (method, path) → the right it needs; None: open to everyone who reaches the port.
TABLE: dict[tuple[str, str], roles.Right | None] = {
    ("POST", "/v1/jobs"): R.ENQUEUE,
    ("POST", "/v1/jobs:batch"): R.ENQUEUE,
    ("GET", "/v1/jobs"): R.READ,
    ("GET", "/v1/jobs/{ref}"): R.READ,
    ("PUT", "/v1/jobs/{ref}"): R.DECLARE,
    ("PATCH", "/v1/jobs/{ref}"): R.EDIT,
    ("DELETE", "/v1/jobs/{ref}"): R.EDIT,
    ("POST", "/v1/jobs/{ref}/pause"): R.OPERATE,
    ("POST", "/v1/jobs/{ref}/resume"): R.OPERATE,
    ("POST", "/v1/jobs/{ref}/run"): R.OPERATE,
    ("GET", "/v1/jobs/{ref}/next"): R.READ,
    ("GET", "/v1/jobs/{ref}/runs"): R.READ,
    ("GET", "/v1/jobs/{ref}/skips"): R.READ,
    ("GET", "/v1/runs"): R.READ,
    ("GET", "/v1/runs/{run_id}"): R.READ,
    ("GET", "/v1/runs/{run_id}/logs"): R.READ,
    ("POST", "/v1/runs/{run_id}/cancel"): R.OPERATE,
    ("POST", "/v1/runs/{run_id}/rerun"): R.OPERATE,
    ("GET", "/v1/queues"): R.READ,
    ("GET", "/v1/workers"): R.READ,
    ("GET", "/v1/dead-letters"): R.READ,
    ("POST", "/v1/dead-letters:retry"): R.OPERATE,
    ("POST", "/v1/dead-letters:discard"): R.OPERATE,
    ("GET", "/v1/shards"): R.ADMINISTER,
    ("GET", "/v1/nodes"): R.ADMINISTER,
    ("GET", "/v1/cron/explain"): R.READ,
    ("POST", "/v1/api-keys"): R.ADMINISTER,
    ("GET", "/v1/api-keys"): R.ADMINISTER,
    ("DELETE", "/v1/api-keys/{key_id}"): R.ADMINISTER,
    ("GET", "/v1/audit"): R.ADMINISTER,
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): None,
    ("GET", "/metrics"): None,
    ("GET", "/openapi.json"): None,
    ("GET", "/docs"): None,
    ("GET", "/"): None,
}
SECURED = [route for route, right in TABLE.items() if right is not None]

# What a request needs so that it would be carried out, if it were allowed.
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/v1/jobs"): {"schedule": "@daily", "name": "new", "target": {"handler": "h"}},
    ("POST", "/v1/jobs:batch"): {"jobs": []},
    ("PUT", "/v1/jobs/{ref}"): {"schedule": "@daily", "target": {"handler": "h"}},
    ("PATCH", "/v1/jobs/{ref}"): {"priority": 1},
    ("POST", "/v1/dead-letters:retry"): {"filter": {}},
    ("POST", "/v1/dead-letters:discard"): {"filter": {}},
    ("POST", "/v1/api-keys"): {"role": "viewer"},
}


def test_the_table_names_every_route() -> None:
    found = {
        (method, route.path_format): auth.right_of(route)
        for route in openapi.routes(app.routes())
        for method in route.methods or ()
    }
    assert found == TABLE


def path_of(template: str, job_id: str, run_id: str) -> str:
    path = template.format(ref=job_id, run_id=run_id, key_id="nokey")
    return path + "?schedule=@daily" if path.endswith("explain") else path


async def test_every_route_with_every_role(api: Api) -> None:
    job = await api.job(name="a")
    run_id = str(await api.final_run(job["id"]))
    for (method, template), right in TABLE.items():
        for role in roles.Role:
            path = path_of(template, "name:a" if method == "PUT" else job["id"], run_id)
            answer = await api(method, path, BODIES.get((method, template)), role=role)
            allowed = right is None or roles.allows(role, right)
            # A worker's key is looked at once more where it may define jobs: see below.
            if role == roles.Role.WORKER and (method, template) in (("POST", "/v1/jobs"), ("PUT", "/v1/jobs/{ref}")):
                allowed = False
            assert (answer.status != 403) == allowed, (method, template, role, answer.status, answer.raw)
            assert answer.status != 401
            if not allowed:
                assert answer.kind == "forbidden"
        if (method, template) == ("DELETE", "/v1/jobs/{ref}"):
            job = await api.job(name="a")


async def test_a_refusal_names_the_roles_that_would_do(api: Api) -> None:
    answer = await api("GET", "/v1/audit", role="viewer")
    assert "admin" in answer.body["detail"]
    assert "viewer" in answer.body["detail"]


@pytest.mark.parametrize(("method", "template"), SECURED)
async def test_no_route_answers_without_a_key(api: Api, method: str, template: str) -> None:
    path = path_of(template, "name:a", "0193f4c2-5a00-7003-9c1e-5f0a3c4d2e1b")
    for headers in (
        {},
        {"Authorization": "Basic YTpi"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer nonsense"},
        {"Authorization": f"Bearer {keys.mint('live', secrets.token_bytes(40)).token}"},
    ):
        answer = await api(method, path, BODIES.get((method, template)), role=None, headers=headers)
        assert (answer.status, answer.kind) == (401, "unauthenticated")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


async def test_nothing_of_another_tenant_can_be_seen_or_changed(api: Api) -> None:
    job = await api.job(name="a")
    run_id = str(await api.dead_letter(job["id"]))
    key = (await api("POST", "/v1/api-keys", {"role": "viewer"})).body["id"]
    for method, template in SECURED:
        if "{" not in template or (method, template) == ("PUT", "/v1/jobs/{ref}"):
            continue
        path = template.format(ref=job["id"], run_id=run_id, key_id=key)
        answer = await api(method, path, BODIES.get((method, template)), tenant="other")
        assert (answer.status, answer.kind) == (404, "not-found"), (method, template)
    for path in ("/v1/jobs", "/v1/runs", "/v1/dead-letters", "/v1/dead-letters?group=1", "/v1/queues", "/v1/workers"):
        assert (await api("GET", path, tenant="other")).body["items"] == [], path
    seen = (await api("GET", "/v1/audit?limit=500", tenant="other")).body["items"]
    assert {entry["object_id"] for entry in seen}.isdisjoint({job["id"], run_id, key})
    assert (await api("GET", f"/v1/runs?job={job['id']}", tenant="other")).status == 404
    everything: dict[str, object] = {"filter": {}}
    assert (await api("POST", "/v1/dead-letters:retry", everything, tenant="other")).body["retried"] == 0
    assert (await api("POST", "/v1/dead-letters:discard", everything, tenant="other")).body["discarded"] == 0
    by_id = {"run_ids": [run_id]}
    assert (await api("POST", "/v1/dead-letters:retry", by_id, tenant="other")).body["retried"] == 0


async def test_a_worker_enqueues_one_offs_and_nothing_else(api: Api) -> None:
    once = {"target": {"handler": "h"}, "run_at": "now"}
    daily = {"target": {"handler": "h"}, "schedule": "@daily", "name": "d"}
    assert (await api("POST", "/v1/jobs", once, role="worker")).status == 201
    assert (await api("POST", "/v1/jobs", daily, role="worker")).status == 403
    batch = await api("POST", "/v1/jobs:batch", {"jobs": [once, daily]}, role="worker")
    assert [item["status"] for item in batch.body["items"]] == [201, 403]


async def test_a_worker_declares_the_jobs_of_its_own_code_only(api: Api) -> None:
    path = "/v1/jobs/name:nightly"
    body = {"target": {"handler": "h"}, "schedule": "@daily", "managed_by": "sdk:billing"}
    assert (await api("PUT", path, {**body, "managed_by": "terraform"}, role="worker")).status == 403
    assert (await api("PUT", path, {**body, "managed_by": None}, role="worker")).status == 403
    assert (await api("PUT", path, body, role="worker")).status == 201
    assert (await api("PUT", path, {**body, "queue": "q"}, role="worker")).status == 200
    assert (await api("PUT", path, {**body, "managed_by": "sdk:other"}, role="worker")).status == 403
    assert (await api("PUT", path, {**body, "managed_by": None})).status == 200
    assert (await api("PUT", path, body, role="worker")).status == 403


async def test_workers_that_start_together_may_declare_the_same_job(api: Api) -> None:
    body = {"target": {"handler": "h"}, "schedule": "@daily", "managed_by": "sdk:billing"}
    answers = await asyncio.gather(*(api("PUT", "/v1/jobs/name:nightly", body, role="worker") for _ in range(8)))
    assert sorted(answer.status for answer in answers) == [200] * 7 + [201]
    asked = await api("PUT", "/v1/jobs/name:nightly", body, role="worker", headers={"If-None-Match": "*"})
    assert asked.status == 412


async def test_a_key_ends_when_it_is_revoked(api: Api) -> None:
    made = (await api("POST", "/v1/api-keys", {"role": "viewer"})).body
    headers = {"Authorization": f"bearer {made['token']}"}
    assert (await api("GET", "/v1/jobs", role=None, headers=headers)).status == 200
    assert (await api("DELETE", f"/v1/api-keys/{made['id']}")).status == 204
    assert (await api("GET", "/v1/jobs", role=None, headers=headers)).status == 401
