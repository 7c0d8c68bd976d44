"""`/v1/jobs` over real HTTP: a job's life from create to delete."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.api.conftest import Api

NIGHTLY = {
    "name": "billing.nightly",
    "schedule": "0 2 * * *",
    "timezone": "Asia/Kolkata",
    "payload": {"kind": "nightly"},
    "target": {"handler": "billing.run"},
    "queue": "billing",
    "priority": 7,
    "timeout_s": 600,
    "jitter_s": 30,
    "retry": {"max_attempts": 5, "backoff": "exponential", "base_s": 10},
    "misfire": "run_once",
    "overlap": "skip",
    "owner": "billing@example.com",
    "tags": ["finance"],
    "expect": {"within_s": 3600},
}


async def test_a_job_is_made_and_shown_with_what_its_schedule_comes_to(api: Api) -> None:
    made = await api("POST", "/v1/jobs", NIGHTLY)
    assert made.status == 201
    body = made.body
    assert made.headers["Location"] == f"/v1/jobs/{body['id']}"
    assert made.headers["ETag"] == '"1"'
    for name, value in NIGHTLY.items():
        shown = body[name]
        assert {key: shown[key] for key in value} == value if isinstance(value, dict) else shown == value
    assert body["status"] == "active"
    assert body["tenant"] == "acme"
    assert body["version"] == 1
    assert body["created_by"].startswith("admin/")
    assert body["schedule_text"] == "At 02:00 every day, Asia/Kolkata time"
    assert len(body["next_runs"]) == 5
    assert body["next_run_at"] == body["next_runs"][0]
    assert body["next_run_at"].endswith("T20:30:00Z")
    assert body["next_runs_local"][0].endswith("T02:00:00+05:30")
    assert body["warnings"] == []
    assert body["run_id"] is None


async def test_a_payload_comes_back_digit_for_digit(api: Api) -> None:
    raw = b'{"name":"exact","schedule":"@daily","target":{"handler":"h"},"payload":{"id" : 3889108265204450030, "f":1.10e2}}'
    made = await api("POST", "/v1/jobs", raw=raw)
    assert made.status == 201
    got = await api("GET", "/v1/jobs/name:exact")
    for answer in (made, got):
        assert b'{"id" : 3889108265204450030, "f":1.10e2}' in answer.raw


async def test_a_one_off_for_now_has_its_run_at_once(api: Api) -> None:
    made = (await api("POST", "/v1/jobs", {"target": {"handler": "h"}, "run_at": "now", "payload": {"n": 1}})).body
    assert made["name"] is None
    run = await api("GET", f"/v1/runs/{made['run_id']}")
    assert run.status == 200
    assert (run.body["job_id"], run.body["state"], run.body["trigger"]) == (made["id"], "queued", "schedule")
    assert run.body["payload"] == {"n": 1}


async def test_a_one_off_for_later_waits(api: Api) -> None:
    made = (await api("POST", "/v1/jobs", {"target": {"handler": "h"}, "run_in_s": 7200})).body
    due = datetime.fromisoformat(made["next_run_at"]) - datetime.fromisoformat(made["created_at"])
    assert due == pytest.approx(timedelta(hours=2), abs=timedelta(seconds=5))
    assert (await api("GET", f"/v1/runs/{made['run_id']}")).status == 404
    assert made["next_runs"] == [made["next_run_at"]]


async def test_a_name_that_is_taken_is_a_conflict(api: Api) -> None:
    await api.job(name="one")
    again = await api("POST", "/v1/jobs", {"name": "one", "schedule": "@daily", "target": {"handler": "h"}})
    assert (again.status, again.kind) == (409, "name-taken")


async def test_all_faults_are_named_at_once(api: Api) -> None:
    refused = await api("POST", "/v1/jobs", {"name": "", "schedule": "0 0 31 4 *", "priority": 12, "prioritty": 1})
    assert (refused.status, refused.kind) == (422, "invalid")
    assert {"/name", "/schedule", "/priority", "/prioritty", "/target"} <= refused.faults.keys()
    assert refused.faults["/schedule"] == "never_fires"
    detail = next(fault["detail"] for fault in refused.body["errors"] if fault["pointer"] == "/prioritty")
    assert "priority" in detail
    assert refused.body["request_id"] == refused.headers["X-Request-Id"]


async def test_one_kind_of_fault_gives_the_problem_its_type(api: Api) -> None:
    refused = await api("POST", "/v1/jobs", {"name": "x", "schedule": "0 0 31 4 *", "target": {"handler": "h"}})
    assert (refused.status, refused.kind) == (422, "never-fires")


async def test_a_list_of_jobs_goes_on_where_it_ended(api: Api) -> None:
    made = [(await api.job(name=f"job {number}"))["id"] for number in range(5)]
    seen: list[str] = []
    path = "/v1/jobs?limit=2"
    while True:
        page = (await api("GET", path)).body
        assert len(page["items"]) <= 2
        seen += [job["id"] for job in page["items"]]
        if page["next_cursor"] is None:
            break
        path = f"/v1/jobs?limit=2&cursor={page['next_cursor']}"
    assert seen == made[::-1]


async def test_jobs_are_filtered(api: Api) -> None:
    await api.job(name="bill.a", queue="q1", tags=["t"])
    await api.job(name="bill.b", queue="q2", owner="ann")
    await api.job(name="mail", run_at="2090-01-01T00:00:00Z", managed_by="m")
    await api("POST", "/v1/jobs/name:bill.b/pause")

    async def names(query: str) -> set[str]:
        answer = await api("GET", f"/v1/jobs?{query}")
        assert answer.status == 200, answer.raw
        return {job["name"] for job in answer.body["items"]}

    assert await names("queue=q1") == await names("tag=t") == {"bill.a"}
    assert await names("owner=ann") == await names("status=paused") == {"bill.b"}
    assert await names("managed_by=m") == await names("name=mail") == {"mail"}
    assert await names("name=bill.*") == {"bill.a", "bill.b"}
    assert await names("due_before=2089-12-31T00:00:00Z") == {"bill.a"}
    assert await names("queue=none") == set()


async def test_a_cursor_is_good_for_its_own_list_only(api: Api) -> None:
    for number in range(2):
        await api.job(name=f"job {number}", queue="q")
        await api("POST", f"/v1/jobs/name:job%20{number}/run")
    cursor = (await api("GET", "/v1/jobs?limit=1&queue=q")).body["next_cursor"]
    assert (await api("GET", f"/v1/jobs?limit=2&queue=q&cursor={cursor}")).status == 200
    for path in ("/v1/jobs?", "/v1/jobs?queue=r&", "/v1/runs?queue=q&", "/v1/workers?"):
        refused = await api("GET", f"{path}cursor={cursor}")
        assert (refused.status, refused.faults) == (422, {"/query/cursor": "invalid_cursor"})
    foreign = await api("GET", f"/v1/jobs?queue=q&cursor={cursor}", tenant="other")
    assert foreign.status == 422


@pytest.mark.parametrize(
    ("query", "pointer", "code"),
    [
        ("limit=0", "/query/limit", None),
        ("limit=501", "/query/limit", None),
        ("limit=many", "/query/limit", None),
        ("lmit=5", "/query/lmit", "unknown_parameter"),
        ("status=activ", "/query/status", None),
        ("due_before=tomorrow", "/query/due_before", None),
        ("queue=", "/query/queue", None),
        ("queue=a%00b", "/query/queue", None),
        ("cursor=xyz", "/query/cursor", "invalid_cursor"),
        ("offset=10", "/query/offset", "unknown_parameter"),
    ],
)
async def test_a_wrong_query_is_refused(api: Api, query: str, pointer: str, code: str | None) -> None:
    refused = await api("GET", f"/v1/jobs?{query}")
    assert refused.status == 422
    assert refused.faults.keys() == {pointer}
    assert code is None or refused.faults[pointer] == code


async def test_a_misspelt_parameter_comes_with_a_suggestion(api: Api) -> None:
    refused = await api("GET", "/v1/jobs?statsu=active")
    assert "status" in refused.body["errors"][0]["detail"]


async def test_a_batch_makes_what_it_can_and_tells_of_each(api: Api) -> None:
    await api.job(name="taken")
    jobs = [
        {"name": "a", "schedule": "@daily", "target": {"handler": "h"}},
        {"name": "taken", "schedule": "@daily", "target": {"handler": "h"}},
        {"run_at": "now", "target": {"handler": "h"}},
        {"name": "b", "schedule": "61 * * * *", "target": {"handler": "h"}},
        {"name": "a", "schedule": "@daily", "target": {"handler": "h"}},
        7,
    ]
    answer = await api("POST", "/v1/jobs:batch", {"jobs": jobs})
    assert answer.status == 200
    items = answer.body["items"]
    assert [item["status"] for item in items] == [201, 409, 201, 422, 409, 422]
    assert (answer.body["created"], answer.body["failed"]) == (2, 4)
    assert items[3]["problem"]["errors"][0]["pointer"] == "/schedule"
    assert (await api("GET", f"/v1/jobs/{items[0]['id']}")).body["name"] == "a"
    assert (await api("GET", f"/v1/runs/{items[2]['run_id']}")).body["job_id"] == items[2]["id"]


async def test_a_batch_of_thousands(api: Api) -> None:
    jobs = [{"run_in_s": 3600, "target": {"handler": "h"}, "payload": {"n": number}} for number in range(2000)]
    answer = await api("POST", "/v1/jobs:batch", {"jobs": jobs})
    assert (answer.status, answer.body["created"]) == (200, 2000)
    assert len({item["id"] for item in answer.body["items"]}) == 2000


@pytest.mark.parametrize("body", [7, {"job": []}, {"jobs": {}}, {"jobs": [], "more": 1}, {}])
async def test_another_shape_of_batch_is_refused(api: Api, body: object) -> None:
    assert (await api("POST", "/v1/jobs:batch", body)).status == 422


async def test_a_bare_list_is_a_batch_too(api: Api) -> None:
    answer = await api("POST", "/v1/jobs:batch", [{"run_in_s": 60, "target": {"handler": "h"}}, {}])
    assert [item["status"] for item in answer.body["items"]] == [201, 422]


async def test_too_many_jobs_of_a_batch_are_too_large(api: Api) -> None:
    raw = b'{"jobs":[' + b",".join([b"{}"] * 10_001) + b"]}"
    refused = await api("POST", "/v1/jobs:batch", raw=raw)
    assert (refused.status, refused.kind) == (413, "too-large")
