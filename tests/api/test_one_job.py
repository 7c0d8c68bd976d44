"""`/v1/jobs/{ref}` over real HTTP: one job is looked at, put, changed and deleted."""

from __future__ import annotations

from urllib.parse import quote

import msgspec
import pytest

from tests.api.conftest import Api


async def test_what_was_made_is_what_is_got(api: Api) -> None:
    made = await api.job(name="billing.nightly", jitter_s=30, retry={"max_attempts": 5}, expect={"within_s": 3600})
    by_id = await api("GET", f"/v1/jobs/{made['id']}", role="viewer")
    by_name = await api("GET", "/v1/jobs/name:billing.nightly", role="viewer")
    assert by_id.status == by_name.status == 200
    assert by_id.body == by_name.body == made
    assert by_id.headers["ETag"] == '"1"'


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
