"""`/v1/jobs/{ref}/…` over real HTTP: one job is steered, and its runs are looked at."""

from __future__ import annotations

import pytest

from tests.api.conftest import Api


async def test_pause_and_resume(api: Api) -> None:
    await api.job(name="a")
    paused = await api("POST", "/v1/jobs/name:a/pause", {"reason": "bank holiday", "until": "2090-01-01T00:00:00Z"})
    assert (paused.status, paused.raw) == (204, b"")
    job = (await api("GET", "/v1/jobs/name:a")).body
    assert (job["status"], job["pause"]["reason"], job["pause"]["until"]) == (
        "paused",
        "bank holiday",
        "2090-01-01T00:00:00Z",
    )
    assert job["pause"]["by"].startswith("admin/")
    assert (await api("POST", "/v1/jobs/name:a/pause")).status == 204
    assert (await api("POST", "/v1/jobs/name:a/resume", {"catch_up": "run_once"})).status == 204
    assert (await api("POST", "/v1/jobs/name:a/resume")).status == 204
    job = (await api("GET", "/v1/jobs/name:a")).body
    assert (job["status"], job["pause"]) == ("active", None)


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("pause", {"raeson": "x"}, "/raeson"),
        ("pause", {"reason": 7}, "/reason"),
        ("pause", {"until": "tomorrow"}, "/until"),
        ("pause", {"until": "2001-01-01T00:00:00Z"}, "/until"),
        ("resume", {"catch_up": "all"}, "/catch_up"),
        ("run", {"payload": {"a": "\0"}}, "/payload/a"),
        ("run", {"payloads": 1}, "/payloads"),
    ],
)
async def test_faults_of_steering_are_named(api: Api, path: str, body: object, pointer: str) -> None:
    await api.job(name="a")
    refused = await api("POST", f"/v1/jobs/name:a/{path}", body)
    assert refused.status == 422
    assert refused.faults.keys() == {pointer}


async def test_a_job_is_run_by_hand_with_a_payload_of_its_own(api: Api) -> None:
    job = await api.job(name="a", payload={"n": 1})
    plain = await api("POST", "/v1/jobs/name:a/run")
    assert (plain.status, plain.headers["Location"]) == (201, f"/v1/runs/{plain.body['id']}")
    assert (plain.body["job_id"], plain.body["trigger"], plain.body["payload"]) == (job["id"], "manual", {"n": 1})
    special = await api("POST", "/v1/jobs/name:a/run", raw=b'{"payload": [1.50]}')
    assert b'"payload":[1.50]' in special.raw
    listed = (await api("GET", "/v1/jobs/name:a/runs")).body["items"]
    assert {run["id"] for run in listed} == {plain.body["id"], special.body["id"]}


async def test_coming_runs_are_previewed(api: Api) -> None:
    await api.job(name="a", schedule="30 9 * * *", timezone="Europe/Riga")
    answer = (await api("GET", "/v1/jobs/name:a/next?count=3")).body
    assert len(answer["next_runs"]) == len(answer["next_runs_local"]) == 3
    assert all("T09:30:00+0" in local for local in answer["next_runs_local"])
    assert (await api("GET", "/v1/jobs/name:a/next?count=1001")).status == 422
    assert (await api("GET", "/v1/jobs/name:a/next?cuont=3")).faults == {"/query/cuont": "unknown_parameter"}


async def test_skips_are_listed_in_pages(api: Api) -> None:
    job = await api.job(name="a")
    async with api.services.database.connection() as connection:
        for count in (1, 2, 3):
            await connection.execute(
                "INSERT INTO skips (job_id, tenant_id, shard, first, last, count, reason) "
                "VALUES ($1, 'acme', 1, now(), now(), $2, 'misfire')",
                job["id"],
                count,
            )
    first = (await api("GET", "/v1/jobs/name:a/skips?limit=2")).body
    assert [skip["count"] for skip in first["items"]] == [3, 2]
    rest = (await api("GET", f"/v1/jobs/name:a/skips?limit=2&cursor={first['next_cursor']}")).body
    assert [(skip["count"], skip["reason"], skip["exact"]) for skip in rest["items"]] == [(1, "misfire", True)]
    assert rest["next_cursor"] is None
