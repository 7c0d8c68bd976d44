"""`Idempotency-Key` over real HTTP: the thing is done once, whatever becomes of the answer."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from horarium import errors
from horarium.api import idempotency
from horarium.services.catalog import Catalog
from tests.api.conftest import Answer, Api, node

ONCE = {"target": {"handler": "h"}, "run_in_s": 3600}


async def post(api: Api, key: str, body: Any = ONCE, path: str = "/v1/jobs", **more: Any) -> Answer:
    return await api("POST", path, body, headers={"Idempotency-Key": key, **more.pop("headers", {})}, **more)


async def jobs(api: Api) -> int:
    return len((await api("GET", "/v1/jobs")).body["items"])


async def set_row(api: Api, assignment: str) -> None:
    async with api.services.database.connection() as connection:
        await connection.execute(f"UPDATE idempotency_keys SET {assignment}")


async def test_a_repeat_gets_the_same_answer(api: Api) -> None:
    first = await post(api, "k")
    again = await post(api, "k")
    assert (first.status, again.status) == (201, 201)
    assert again.raw == first.raw
    for name in ("Location", "ETag", "Content-Type"):
        assert again.headers[name] == first.headers[name]
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.headers["X-Request-Id"] != first.headers["X-Request-Id"]
    assert await jobs(api) == 1


async def test_an_answer_without_a_body_is_replayed(api: Api) -> None:
    await api.job(name="a")
    for replayed in (None, "true"):
        answer = await post(api, "k", {"reason": "r"}, "/v1/jobs/name:a/pause")
        assert (answer.status, answer.raw, answer.headers.get("Idempotency-Replayed")) == (204, b"", replayed)


async def test_a_refusal_is_replayed_too(api: Api) -> None:
    body = {"target": {"handler": "h"}, "schedule": "@daily", "name": "a"}
    await api("POST", "/v1/jobs", body)
    assert (await post(api, "k", body)).status == 409
    await api("DELETE", "/v1/jobs/name:a")
    again = await post(api, "k", body)
    assert (again.status, again.kind) == (409, "name-taken")
    assert (await post(api, "other", body)).status == 201


@pytest.mark.parametrize(
    ("body", "path"), [({**ONCE, "priority": 1}, "/v1/jobs"), ({"jobs": []}, "/v1/jobs:batch"), (ONCE, "/v1/jobs?x=1")]
)
async def test_a_key_is_good_for_one_request_only(api: Api, body: Any, path: str) -> None:
    await post(api, "k")
    refused = await post(api, "k", body, path)
    assert (refused.status, refused.kind) == (422, "idempotency-key-reused")
    assert refused.faults == {"/header/Idempotency-Key": "idempotency_key_reused"}


async def test_tenants_do_not_share_keys(api: Api) -> None:
    assert (await post(api, "k")).status == 201
    mine = await post(api, "k", tenant="other")
    assert (mine.status, mine.headers.get("Idempotency-Replayed")) == (201, None)


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "é"])
async def test_a_malformed_key_is_refused(api: Api, key: str) -> None:
    refused = await post(api, key)
    assert (refused.status, refused.kind) == (422, "invalid-idempotency-key")
    assert await jobs(api) == 0


async def test_after_a_day_the_key_is_forgotten(api: Api) -> None:
    await post(api, "k")
    await set_row(api, "created_at = now() - interval '25 hours'")
    again = await post(api, "k", {**ONCE, "priority": 1})
    assert (again.status, again.headers.get("Idempotency-Replayed")) == (201, None)


async def test_many_at_once_do_it_once(api: Api) -> None:
    answers = await asyncio.gather(*(post(api, "k") for _ in range(8)))
    assert {answer.status for answer in answers} == {201}
    assert len({answer.body["id"] for answer in answers}) == 1
    assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
    assert await jobs(api) == 1


async def test_while_the_first_goes_on_the_second_is_told_to_ask_again(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "_PAUSES_S", (0.01,))
    await post(api, "k")
    await set_row(api, "status = NULL, body = NULL")
    refused = await post(api, "k")
    assert (refused.status, refused.kind) == (409, "in-progress")
    assert await jobs(api) == 1


async def test_a_lost_answer_is_not_made_up_for_when_the_request_took_effect(api: Api) -> None:
    first = await post(api, "k")
    await set_row(api, "status = NULL, body = NULL, created_at = created_at - interval '2 minutes', "
                       "headers = json_build_object('x-request-id', '" + first.headers["X-Request-Id"] + "')::jsonb")  # fmt: skip
    async with api.services.database.connection() as connection:
        await connection.execute("UPDATE audit SET at = at - interval '2 minutes'")
    again = await post(api, "k")
    assert (again.status, again.kind) == (409, "outcome-unknown")
    assert first.body["id"] in again.body["detail"]
    assert await jobs(api) == 1


async def test_a_request_that_died_before_it_did_anything_is_done_by_its_repeat(api: Api) -> None:
    await post(api, "k")
    await set_row(
        api,
        "status = NULL, body = NULL, created_at = created_at - interval '2 minutes', "
        """headers = '{"x-request-id": "one that left no trace"}'""",
    )
    again = await post(api, "k")
    assert (again.status, again.headers.get("Idempotency-Replayed")) == (201, None)
    assert (await post(api, "k")).headers["Idempotency-Replayed"] == "true"


class Faltering(Catalog):
    """A catalog whose database goes away once: before the commit, or after it."""

    after_commit = False
    error: BaseException | None = errors.UnavailableError("gone")

    async def create(self, *arguments: Any, **named: Any) -> Any:
        made = await super().create(*arguments, **named) if self.after_commit or self.error is None else None
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return made


@pytest.mark.parametrize("error", [errors.UnavailableError("gone"), RuntimeError("bug")])
@pytest.mark.parametrize("after_commit", [False, True])
async def test_in_doubt_the_audit_decides(api: Api, database_url: str, after_commit: bool, error: Exception) -> None:
    from horarium.services.pokes import NoPokes

    catalog = Faltering(api.services.database, api.services.clock, NoPokes(), 16)
    catalog.after_commit, catalog.error = after_commit, error
    async with node(database_url, catalog=catalog) as faltering:
        faltering.keys = api.keys
        first = await post(faltering, "k")
        again = await post(faltering, "k")
    assert first.status == (503 if isinstance(error, errors.UnavailableError) else 500)
    assert again.status == (409 if after_commit else 201)
    assert await jobs(api) == 1


async def test_what_was_turned_away_leaves_the_key_free(api: Api) -> None:
    daily = {"target": {"handler": "h"}, "schedule": "@daily", "name": "a"}
    assert (await post(api, "k", daily, role="worker")).status == 403
    assert (await post(api, "k", daily)).status == 201


async def test_a_new_keys_token_is_not_kept(api: Api) -> None:
    first = await post(api, "k", {"role": "viewer"}, "/v1/api-keys")
    again = await post(api, "k", {"role": "viewer"}, "/v1/api-keys")
    assert again.body == {**first.body, "token": None}
    async with api.services.database.connection() as connection:
        kept = await connection.fetchval("SELECT body FROM idempotency_keys")
    assert first.body["token"].encode() not in kept


async def test_every_post_honours_a_key(api: Api) -> None:
    """Each POST route, asked twice with one key, answers the second time from what was kept."""
    job = await api.job(name="a")
    dead = str(await api.dead_letter(job["id"]))
    waiting = (await api("POST", "/v1/jobs/name:a/run")).body["id"]
    bodies: dict[str, Any] = {
        "/v1/jobs": ONCE,
        "/v1/jobs:batch": {"jobs": [ONCE]},
        f"/v1/jobs/{job['id']}/pause": {},
        f"/v1/jobs/{job['id']}/resume": {},
        f"/v1/jobs/{job['id']}/run": {},
        f"/v1/runs/{waiting}/cancel": None,
        f"/v1/runs/{dead}/rerun": None,
        "/v1/dead-letters:retry": {"filter": {}},
        "/v1/dead-letters:discard": {"filter": {}},
        "/v1/api-keys": {"role": "viewer"},
    }
    document = (await api("GET", "/openapi.json")).body
    assert len(bodies) == sum("post" in operations for operations in document["paths"].values())
    for path, body in bodies.items():
        key = str(uuid4())
        first, again = await post(api, key, body, path), await post(api, key, body, path)
        assert first.status < 300, (path, first.raw)
        assert again.status == first.status
        assert again.headers.get("Idempotency-Replayed") == "true", path
