"""`/v1/jobs` over real HTTP: a job's life from create to delete."""

from __future__ import annotations

from datetime import datetime, timedelta
from urllib.parse import quote

import msgspec
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


async def test_what_was_made_is_what_is_got(api: Api) -> None:
    made = (await api("POST", "/v1/jobs", NIGHTLY)).body
    by_id = await api("GET", f"/v1/jobs/{made['id']}", role="viewer")
    by_name = await api("GET", "/v1/jobs/name:billing.nightly", role="viewer")
    assert by_id.status == by_name.status == 200
    assert by_id.body == by_name.body == made
    assert by_id.headers["ETag"] == '"1"'


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


async def test_a_job_is_put_made_replaced_and_left_alone(api: Api) -> None:
    path = "/v1/jobs/name:mail.hourly"
    body = {"schedule": "0 * * * *", "target": {"handler": "mail"}}
    made = await api("PUT", path, body)
    assert (made.status, made.body["name"], made.body["version"]) == (201, "mail.hourly", 1)
    same = await api("PUT", path, {**body, "name": "mail.hourly"})
    assert (same.status, same.body["version"]) == (200, 1)
    changed = await api("PUT", path, {**body, "queue": "mail"})
    assert (changed.status, changed.body["version"], changed.headers["ETag"]) == (200, 2, '"2"')
    assert changed.body["id"] == made.body["id"]


async def test_put_under_conditions(api: Api) -> None:
    path = "/v1/jobs/name:a"
    body = {"schedule": "0 * * * *", "target": {"handler": "h"}}
    assert (await api("PUT", path, body, headers={"If-Match": '"1"'})).status == 412
    assert (await api("PUT", path, body, headers={"If-None-Match": "*"})).status == 201
    again = await api("PUT", path, {**body, "queue": "q"}, headers={"If-None-Match": "*"})
    assert (again.status, again.kind) == (412, "stale-version")
    assert (await api("PUT", path, {**body, "queue": "q"}, headers={"If-Match": '"9"'})).status == 412
    assert (await api("PUT", path, {**body, "queue": "q"}, headers={"If-Match": '"1"'})).status == 200


async def test_put_wants_a_name_and_no_other_in_the_body(api: Api) -> None:
    made = await api.job(name="a")
    body = {"schedule": "0 * * * *", "target": {"handler": "h"}}
    by_id = await api("PUT", f"/v1/jobs/{made['id']}", body)
    assert (by_id.status, by_id.kind) == (422, "not-a-name")
    other = await api("PUT", "/v1/jobs/name:a", {**body, "name": "b"})
    assert (other.status, other.kind) == (422, "another-name")


async def test_a_one_off_whose_time_has_passed_can_be_put_again(api: Api) -> None:
    body = {"target": {"handler": "h"}, "run_at": "2030-01-01T00:00:00Z"}
    made = await api("PUT", "/v1/jobs/name:once", body)
    assert made.status == 201
    async with api.services.database.connection() as connection:
        await connection.execute("UPDATE jobs SET run_at = '2020-01-01T00:00:00Z' WHERE name = 'once'")
        await connection.execute("DELETE FROM timers")
    again = await api("PUT", "/v1/jobs/name:once", {**body, "run_at": "2020-01-01T00:00:00Z", "queue": "q"})
    assert (again.status, again.body["queue"]) == (200, "q")


async def test_a_patch_changes_what_it_names(api: Api) -> None:
    made = await api.job(name="a", tags=["x"], priority=3)
    patched = await api(
        "PATCH",
        "/v1/jobs/name:a",
        raw=b'{"tags": null, "payload": {"v": 2.50}}',
        headers={"Content-Type": "application/merge-patch+json", "If-Match": '"1"'},
    )
    assert patched.status == 200
    assert (patched.body["tags"], patched.body["priority"], patched.body["version"]) == ([], 3, 2)
    assert b'{"v": 2.50}' in patched.raw
    assert patched.headers["ETag"] == '"2"'
    assert patched.body["id"] == made["id"]
    stale = await api("PATCH", "/v1/jobs/name:a", {"priority": 1}, headers={"If-Match": '"1"'})
    assert (stale.status, stale.kind) == (412, "stale-version")
    refused = await api("PATCH", "/v1/jobs/name:a", {"schedule": "*/90 * * * *"})
    assert refused.status == 422
    assert "5400" in refused.body["errors"][0]["detail"]


async def test_a_deleted_job_is_gone_by_name_and_cancelled_by_id(api: Api) -> None:
    made = await api.job(name="a")
    assert (await api("DELETE", "/v1/jobs/name:a", headers={"If-Match": '"7"'})).status == 412
    gone = await api("DELETE", "/v1/jobs/name:a", headers={"If-Match": '"1"'})
    assert (gone.status, gone.raw) == (204, b"")
    assert (await api("GET", "/v1/jobs/name:a")).status == 404
    assert (await api("GET", f"/v1/jobs/{made['id']}")).body["status"] == "cancelled"
    assert (await api("GET", "/v1/jobs")).body["items"] == []
    listed = (await api("GET", "/v1/jobs?status=cancelled")).body["items"]
    assert [job["id"] for job in listed] == [made["id"]]
    assert (await api("DELETE", "/v1/jobs/name:a")).status == 404
    await api.job(name="a")


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


@pytest.mark.parametrize(
    "name", ["отчёт", "日報 🗓", "a.b", "a/b", "a/pause", "100%", "a%2Fb", "x?y#z", "name:x", "a+b"]
)
async def test_any_name_can_be_used_in_a_path(api: Api, name: str) -> None:
    made = await api.job(name=name)
    path = f"/v1/jobs/name:{quote(name, safe='')}"
    assert (await api("GET", path)).body["id"] == made["id"]
    assert (await api("POST", f"{path}/pause")).status == 204
    assert (await api("GET", f"{path}/runs")).status == 200
    assert (await api("PATCH", path, {"priority": 1})).status == 200
    assert (await api("DELETE", path)).status == 204


async def test_names_are_kept_in_one_normal_form(api: Api) -> None:
    made = await api.job(name="caf\u00e9")
    clash = await api("POST", "/v1/jobs", {"name": "cafe\u0301", "schedule": "@daily", "target": {"handler": "h"}})
    assert clash.status == 409
    assert (await api("GET", f"/v1/jobs/name:{quote('cafe' + chr(0x301))}")).body["id"] == made["id"]


async def test_jobs_of_another_tenant_are_not_there(api: Api) -> None:
    job = await api.job(name="a")
    for ref in (job["id"], "name:a"):
        for method, path, body in (
            ("GET", "", None),
            ("PATCH", "", {"priority": 1}),
            ("DELETE", "", None),
            ("POST", "/pause", None),
            ("POST", "/resume", None),
            ("POST", "/run", None),
            ("GET", "/next", None),
            ("GET", "/runs", None),
            ("GET", "/skips", None),
        ):
            answer = await api(method, f"/v1/jobs/{ref}{path}", body, tenant="other")
            assert (answer.status, answer.kind) == (404, "not-found"), (method, path)
    assert (await api("GET", "/v1/jobs", tenant="other")).body["items"] == []
    mine = await api("PUT", "/v1/jobs/name:a", {"schedule": "@daily", "target": {"handler": "h"}}, tenant="other")
    assert mine.status == 201
    assert (await api("GET", "/v1/jobs/name:a")).body["version"] == 1


async def test_secrets_of_a_target_are_written_and_never_read(api: Api) -> None:
    target = {
        "http": {"url": "https://example.com/", "secret": "open sesame", "headers": {"Authorization": "Bearer t"}}
    }
    made = await api("POST", "/v1/jobs", {"name": "hook", "schedule": "@daily", "target": target})
    got = await api("GET", "/v1/jobs/name:hook")
    audit = await api("GET", "/v1/audit")
    for answer in (made, got, audit):
        assert b"open sesame" not in answer.raw
        assert b"Bearer t" not in answer.raw
    assert msgspec.json.decode(got.raw)["target"]["http"]["secret"] == "***"
