"""`/v1/runs` over real HTTP."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from horarium.store import run_logs
from tests.api.conftest import Api

NO_RUN = "0193f4c2-5a00-8003-9c1e-5f0a3c4d2e1b"


async def ids(api: Api, query: str = "") -> list[str]:
    answer = await api("GET", f"/v1/runs?{query}", role="viewer")
    assert answer.status == 200, answer.raw
    return [run["id"] for run in answer.body["items"]]


async def log(api: Api, run_id: UUID, *messages: str, first: int = 1) -> None:
    now = await api.services.database.now()
    rows = [
        run_logs.LogRow(run_id, 1, seq, now, "info", message, '{"n": 1.50}')
        for seq, message in enumerate(messages, first)
    ]
    async with api.services.database.connection() as connection:
        await run_logs.insert(connection, rows)


async def test_a_run_is_shown_in_full(api: Api) -> None:
    job = await api.job(name="a", payload={"n": 1}, retry={"max_attempts": 7}, timeout_s=90)
    failure = {
        "attempt": 1,
        "worker_id": "w1",
        "started_at": "2026-01-01T00:00:00.250000+00:00",
        "ended_at": "2026-01-01T00:00:01+00:00",
        "outcome": "lost",
        "error": {"class": "WorkerLost", "message": "gone", "traceback": None},
    }
    now = await api.services.database.now()
    columns: dict[str, Any] = {"attempt": 2, "started_at": now, "worker_id": "w2", "failures": json.dumps([failure])}
    run_id = await api.final_run(job["id"], result='{"big":12345678901234567890}', **columns)
    await log(api, run_id, "one", "two")
    answer = await api("GET", f"/v1/runs/{run_id}", role="viewer")
    run = answer.body
    assert (run["job_name"], run["state"], run["attempt"], run["max_attempts"], run["timeout_s"]) == (
        "a", "succeeded", 2, 7, 90,
    )  # fmt: skip
    assert run["payload"] == {"n": 1}
    assert b'"result":{"big":12345678901234567890}' in answer.raw
    assert [attempt["outcome"] for attempt in run["attempts"]] == ["lost", "succeeded"]
    assert run["attempts"][0]["started_at"] == "2026-01-01T00:00:00.250000Z"
    assert run["attempts"][0]["error"] == failure["error"]
    assert [line["message"] for line in run["logs"]] == ["one", "two"]
    assert run["scheduled_for"].endswith("Z")


async def test_runs_are_listed_newest_first_in_pages_and_without_their_payloads(api: Api) -> None:
    job = await api.job(name="a")
    made = [str(await api.final_run(job["id"], -minutes)) for minutes in range(1, 4)]
    waiting = (await api("POST", "/v1/jobs/name:a/run")).body["id"]
    first = (await api("GET", "/v1/runs?limit=2")).body
    assert [run["id"] for run in first["items"]] == [waiting, made[0]]
    assert "payload" not in first["items"][0]
    rest = (await api("GET", f"/v1/runs?limit=2&cursor={first['next_cursor']}")).body
    assert [run["id"] for run in rest["items"]] == made[1:]
    assert rest["next_cursor"] is None


async def test_runs_are_filtered(api: Api) -> None:
    one, two = await api.job(name="a/b"), await api.job(name="two")
    dead = str(await api.final_run(one["id"], -1, state="dead", error="KeyError: 'user'", queue="q"))
    old = str(await api.final_run(two["id"], -120))
    since = (await api.services.database.now() - timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    assert await ids(api, "state=dead") == await ids(api, "queue=q") == await ids(api, "error=keyerror") == [dead]
    assert (
        await ids(api, f"job={one['id']}") == await ids(api, "job=a%2Fb") == await ids(api, "job=name:a%2Fb") == [dead]
    )
    assert await ids(api, f"since={since}") == [dead]
    assert await ids(api, "tenant=acme") == [dead, old]
    assert await ids(api, "state=running") == []
    assert (await api("GET", "/v1/runs?job=nobody")).status == 404
    assert (await api("GET", "/v1/runs?tenant=other")).status == 403
    assert (await api("GET", "/v1/runs?state=done")).faults.keys() == {"/query/state"}
    assert [run["id"] for run in (await api("GET", "/v1/jobs/name:two/runs?state=succeeded")).body["items"]] == [old]


async def test_a_waiting_run_is_cancelled_at_once(api: Api) -> None:
    await api.job(name="a")
    run_id = (await api("POST", "/v1/jobs/name:a/run")).body["id"]
    cancelled = await api("POST", f"/v1/runs/{run_id}/cancel")
    assert (cancelled.status, cancelled.body) == (202, {"id": run_id, "run_id": run_id, "state": "cancelled"})
    assert (await api("POST", f"/v1/runs/{run_id}/cancel", {})).status == 202


async def test_a_run_that_ended_cannot_be_cancelled(api: Api) -> None:
    job = await api.job(name="a")
    refused = await api("POST", f"/v1/runs/{await api.final_run(job['id'])}/cancel")
    assert (refused.status, refused.kind) == (409, "already-finished")


async def test_a_run_is_run_again(api: Api) -> None:
    job = await api.job(name="a")
    run_id = str(await api.final_run(job["id"], -5, payload='{"n": 2}'))
    again = await api("POST", f"/v1/runs/{run_id}/rerun")
    assert (again.status, again.body["rerun_of"], again.body["trigger"]) == (201, run_id, "rerun")
    assert again.body["payload"] == {"n": 2}
    assert again.headers["Location"] == f"/v1/runs/{again.body['id']}"
    live = await api("POST", f"/v1/runs/{again.body['id']}/rerun")
    assert (live.status, live.kind) == (409, "still-live")


@pytest.mark.parametrize("path", ["", "/cancel", "/rerun", "/logs"])
async def test_a_run_that_is_not_there(api: Api, path: str) -> None:
    method = "POST" if path in ("/cancel", "/rerun") else "GET"
    assert (await api(method, f"/v1/runs/{NO_RUN}{path}")).status == 404
    malformed = await api(method, f"/v1/runs/nonsense{path}")
    assert (malformed.status, set(malformed.faults)) == (422, {"/path/run_id"})


async def test_a_log_is_read_in_pages(api: Api) -> None:
    run_id = await api.final_run((await api.job(name="a"))["id"])
    await log(api, run_id, "one", "two", "three")
    first = (await api("GET", f"/v1/runs/{run_id}/logs?limit=2")).body
    assert [line["message"] for line in first["items"]] == ["one", "two"]
    rest = (await api("GET", f"/v1/runs/{run_id}/logs?limit=2&cursor={first['next_cursor']}")).body
    assert [(line["message"], line["fields"]) for line in rest["items"]] == [("three", {"n": 1.5})]
    assert rest["next_cursor"] is None
    whole = (await api("GET", f"/v1/runs/{run_id}/logs")).body
    assert (len(whole["items"]), whole["next_cursor"]) == (3, None)


async def events(api: Api, run_id: UUID | str) -> asyncio.Queue[tuple[str, Any]]:
    """The events of a log that is followed, as they come; the queue ends with ("closed", None)."""
    found: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
    headers = {"Authorization": f"Bearer {api.keys['acme', 'viewer']}"}

    async def read() -> None:
        async with api._session.get(f"{api.url}/v1/runs/{run_id}/logs?follow=1", headers=headers) as response:
            assert response.content_type == "text/event-stream"
            name = ""
            async for line in response.content:
                if line.startswith(b"event: "):
                    name = line[7:].decode().strip()
                elif line.startswith(b"data: "):
                    found.put_nowait((name, json.loads(line[6:])))
        found.put_nowait(("closed", None))

    api.tasks.append(asyncio.create_task(read()))
    return found


async def test_a_log_is_followed_to_the_end_of_the_run(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horarium.api.runs._FOLLOW_EVERY_S", 0.01)
    await api.job(name="a")
    run_id = (await api("POST", "/v1/jobs/name:a/run")).body["id"]
    await log(api, UUID(run_id), "one")
    following = await events(api, run_id)
    async with asyncio.timeout(10):
        assert (await following.get())[1]["message"] == "one"
        await log(api, UUID(run_id), "two", first=2)
        name, line = await following.get()
        assert (name, line["message"], line["seq"]) == ("log", "two", 2)
        await api("POST", f"/v1/runs/{run_id}/cancel")
        assert await following.get() == ("end", {"run_id": run_id, "state": "cancelled"})
        assert await following.get() == ("closed", None)


async def test_a_silent_log_is_kept_open_by_comments(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horarium.api.runs._FOLLOW_EVERY_S", 0.01)
    monkeypatch.setattr("horarium.api.runs._SILENCE_S", 0.02)
    await api.job(name="a")
    run_id = (await api("POST", "/v1/jobs/name:a/run")).body["id"]
    headers = {"Authorization": f"Bearer {api.keys['acme', 'viewer']}"}
    async with (
        asyncio.timeout(10),
        api._session.get(f"{api.url}/v1/runs/{run_id}/logs?follow=1", headers=headers) as got,
    ):
        assert (await got.content.readline()).startswith(b":")
