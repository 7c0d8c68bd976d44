"""What is open to everyone: health, metrics, the reference; and what the router itself answers."""

from __future__ import annotations

import re

import pytest

from horarium import errors
from horarium.api import bodies
from tests.api.conftest import Api, node


async def test_a_node_that_lives_and_is_ready_says_so(api: Api) -> None:
    for path in ("/healthz", "/readyz"):
        answer = await api("GET", path, role=None)
        assert (answer.status, answer.body) == (200, {"status": "ok", "faults": [], "warnings": []})


async def test_what_does_not_keep_a_node_from_its_work_is_a_warning(database_url: str) -> None:
    async with node(database_url, warnings=lambda: ["node n2 cannot be reached"]) as api:
        answer = await api("GET", "/readyz", role=None)
    assert (answer.status, answer.body["warnings"]) == (200, ["node n2 cannot be reached"])


async def test_a_node_that_lacks_something_is_not_ready(database_url: str) -> None:
    async with node(database_url, unready=lambda: ["this node leads no shard yet"]) as api:
        answer = await api("GET", "/readyz", role=None)
        assert (answer.status, answer.body["faults"]) == (503, ["this node leads no shard yet"])
        assert (await api("GET", "/healthz", role=None)).status == 200


async def test_without_a_database_a_node_lives_and_is_not_ready(api: Api) -> None:
    await api("GET", "/v1/jobs")
    await api.services.database.close()
    assert (await api("GET", "/healthz", role=None)).status == 200
    answer = await api("GET", "/readyz", role=None)
    assert (answer.status, answer.body["faults"]) == (503, ["the database does not answer"])
    refused = await api("GET", "/v1/jobs")
    assert (refused.status, refused.kind) == (503, "unavailable")
    assert refused.headers["Retry-After"] == "1"


async def test_metrics_are_prometheus_text(api: Api) -> None:
    answer = await api("GET", "/metrics", role=None)
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert b"horarium_up 1" in answer.raw


async def test_metrics_are_rendered_beside_the_event_loop(database_url: str) -> None:
    import threading

    threads: list[str] = []

    def render() -> bytes:
        threads.append(threading.current_thread().name)
        return b""

    async with node(database_url, render_metrics=render) as api:
        await api("GET", "/metrics", role=None)
    assert threads != [threading.main_thread().name]
    assert len(threads) == 1


async def test_the_reference_needs_nothing_from_elsewhere(api: Api) -> None:
    answer = await api("GET", "/docs", role=None)
    page = answer.raw.decode()
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "/v1/dead-letters:retry" in page
    assert "<script" not in page
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", page)
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


async def test_people_land_on_the_reference(api: Api) -> None:
    answer = await api("GET", "/", role=None)
    assert (answer.status, answer.headers["Location"]) == (307, "docs")


async def test_the_document_is_served(api: Api) -> None:
    answer = await api("GET", "/openapi.json", role=None)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.body["openapi"] == "3.1.0"


@pytest.mark.parametrize("path", ["/nothing", "/v1", "/v1/jobs/", "/v1/job", "/v1/runs/x/y/z", "//"])
async def test_an_unknown_path_is_a_problem(api: Api, path: str) -> None:
    answer = await api("GET", path)
    assert (answer.status, answer.kind) == (404, "not-found")
    assert answer.body["request_id"] == answer.headers["X-Request-Id"]


@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "/v1/jobs"), ("PUT", "/v1/runs"), ("POST", "/healthz"), ("TRACE", "/docs")]
)
async def test_a_method_that_a_path_does_not_take_is_a_problem(api: Api, method: str, path: str) -> None:
    answer = await api(method, path)
    assert (answer.status, answer.kind) == (405, "method-not-allowed")
    assert "GET" in answer.headers["Allow"].split(", ")


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json", ""]
)
async def test_another_media_type_is_a_problem(api: Api, media_type: str) -> None:
    answer = await api("POST", "/v1/jobs", {"name": "a"}, headers={"Content-Type": media_type})
    assert (answer.status, answer.kind) == (415, "unsupported-media-type")


@pytest.mark.parametrize(
    "media_type", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.x+json"]
)
async def test_json_by_any_of_its_names_is_read(api: Api, media_type: str) -> None:
    body = {"target": {"handler": "h"}, "run_in_s": 60}
    assert (await api("POST", "/v1/jobs", body, headers={"Content-Type": media_type})).status == 201


@pytest.mark.parametrize("raw", [b"{", b"", b"nonsense", b"\xff\xfe", b"[]", b"null", b'{"name": "a",}'])
async def test_what_is_not_json_is_a_problem(api: Api, raw: bytes) -> None:
    answer = await api("POST", "/v1/jobs", raw=raw)
    assert answer.status == 422
    assert answer.faults.keys() == {""}


async def test_a_body_over_its_limit_is_a_problem(api: Api) -> None:
    big = b'{"description": "' + b"x" * 1024 * 1024 + b'"}'
    for path in ("/v1/jobs", "/v1/jobs/name:a/pause"):
        answer = await api("POST", path, raw=big)
        assert (answer.status, answer.kind) == (413, "too-large")


async def test_a_body_over_its_limit_that_does_not_say_its_length_is_a_problem(api: Api) -> None:
    async def chunks() -> object:
        for _ in range(40):
            yield b" " * 32 * 1024

    async with api._session.post(
        api.url + "/v1/jobs",
        data=chunks(),
        headers={"Authorization": f"Bearer {api.keys['acme', 'admin']}", "Content-Type": "application/json"},
    ) as response:
        assert response.status == 413


async def test_a_payload_over_its_limit_is_a_problem(api: Api) -> None:
    body = {"target": {"handler": "h"}, "run_in_s": 60, "payload": "x" * 256 * 1024}
    answer = await api("POST", "/v1/jobs", body)
    assert (answer.status, answer.kind) == (413, "too-large")
    assert (await api("POST", "/v1/jobs", {**body, "payload": "x" * (256 * 1024 - 2)})).status == 201


async def test_nesting_without_end_is_a_problem(api: Api) -> None:
    raw = b'{"payload":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    for path in ("/v1/jobs", "/v1/jobs/name:a/run"):
        answer = await api("POST", path, raw=raw)
        assert (answer.status, answer.kind) == (422, "too-deep")


async def test_a_batch_may_be_larger_than_one_job(api: Api) -> None:
    job = {"target": {"handler": "h"}, "run_in_s": 60, "payload": "x" * 200_000}
    answer = await api("POST", "/v1/jobs:batch", {"jobs": [job] * 6})
    assert (answer.status, answer.body["created"]) == (200, 6)


async def test_nobody_unknown_makes_us_read_a_body(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(*_: object) -> bytes:
        raise AssertionError("the body was read")

    monkeypatch.setattr(bodies, "_read", read)
    assert (await api("POST", "/v1/jobs", {"name": "a"}, role=None)).status == 401


async def test_a_fault_of_ours_is_a_problem_and_in_the_log(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    import structlog.testing

    async def get(*_: object) -> None:
        raise errors.HorariumError("an error that stands for no answer")

    monkeypatch.setattr(type(api.services.catalog), "get", get)
    with structlog.testing.capture_logs() as logged:
        answer = await api("GET", "/v1/jobs/name:a")
    assert (answer.status, answer.kind) == (500, "internal")
    assert "no answer" not in answer.raw.decode()
    assert [line["request_id"] for line in logged if line["event"] == "request_crashed"] == [
        answer.headers["X-Request-Id"]
    ]


async def test_every_answer_of_the_api_is_guarded(api: Api) -> None:
    for method, path in (("GET", "/v1/jobs"), ("GET", "/nothing"), ("POST", "/v1/jobs"), ("GET", "/healthz")):
        answer = await api(method, path)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
