"""Schedules declared in code, written to the server."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from horarium import Context, Horarium, errors
from horarium.sdk import registrar
from tests.sdk import cron_app, rest_server


def application(server: rest_server.RestServer) -> Horarium:
    """One with a single schedule."""
    h = Horarium(server.url, "k", app="shop")

    @h.cron("0 2 * * *")
    @h.job("nightly")
    def nightly(ctx: Context, kind: str = "x") -> None: ...

    return h


def test_what_is_declared() -> None:
    cron_app.h.app = "cron_app"
    assert registrar.declared(cron_app.h).keys() == {"billing.run", "billing.often"}
    nightly, often = registrar.declared(cron_app.h)["billing.run"], registrar.declared(cron_app.h)["billing.often"]
    payload, other = bytes(nightly.pop("payload")), bytes(often.pop("payload"))
    common = {"target": {"handler": "billing.run"}, "queue": "billing", "managed_by": "sdk:cron_app"}
    assert nightly == {
        **common, "schedule": "0 2 * * *", "timezone": "Asia/Kolkata", "misfire": "run_once", "overlap": "skip",
        "jitter_s": 60,
    }  # fmt: skip
    assert often == {**common, "interval_s": 300}
    assert (payload, other) == (b'{"kind":"full"}', b"{}")


def test_arguments_that_do_not_fit_are_a_fault_of_the_code() -> None:
    h = Horarium()

    @h.cron("0 2 * * *", arguments={"kind": 7})
    @h.job("nightly")
    def nightly(ctx: Context, kind: str) -> None: ...

    with pytest.raises(errors.InvalidError, match="kind: Expected `str`, got `int`"):
        registrar.declared(h)


async def test_jobs_are_put_and_orphans_told(server: rest_server.RestServer, caplog: pytest.LogCaptureFixture) -> None:
    orphan = {"id": "o", "name": "old", "managed_by": "sdk:shop"}
    mine = {"id": "n", "name": "nightly", "managed_by": "sdk:shop"}
    foreign = {"id": "f", "name": "foreign", "managed_by": "sdk:other"}
    server.on("GET /v1/jobs", {"items": [orphan, mine], "next_cursor": "c"}, {"items": [foreign], "next_cursor": None})
    async with application(server) as h:
        with caplog.at_level(logging.INFO, "horarium.worker"):
            await registrar.register(h)
    calls: list[tuple[str, Any]] = [(f"{call.method} {call.path}", call.body) for call in server.calls]
    assert calls[0] == ("PUT /v1/jobs/name:nightly", {
        "target": {"handler": "nightly"}, "payload": {}, "managed_by": "sdk:shop", "schedule": "0 2 * * *",
        "timezone": "UTC",
    })  # fmt: skip
    assert [call for call, _ in calls[1:]] == [
        "GET /v1/jobs?limit=500&managed_by=sdk%3Ashop".replace("%3A", ":"),
        "GET /v1/jobs?cursor=c&limit=500&managed_by=sdk:shop",
    ]
    assert "the job old is no longer declared" in caplog.text and "foreign" not in caplog.text


async def test_orphans_are_deleted_on_demand(server: rest_server.RestServer) -> None:
    server.on("GET /v1/jobs", {"items": [{"id": "o", "name": "old", "managed_by": "sdk:shop"}], "next_cursor": None})
    async with application(server) as h:
        await registrar.register(h, prune=True)
    assert [call.path for call in server.calls if call.method == "DELETE"] == ["/v1/jobs/o"]


async def test_a_refused_job_does_not_stop_the_others(
    server: rest_server.RestServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.on("PUT /v1/jobs/name:nightly", rest_server.problem(403, detail="this key may not define jobs"))
    server.on("GET /v1/jobs", rest_server.problem(403))
    async with application(server) as h:
        await registrar.register(h)
    assert "the job nightly is not registered: this key may not define jobs" in caplog.text


async def test_it_waits_for_a_server(server: rest_server.RestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.on("GET /v1/jobs", {"items": [], "next_cursor": None})
    async with application(server) as h:
        answers = [errors.UnreachableError("away"), errors.UnreachableError("away")]
        put = h.jobs.put

        async def flaky(name: str, body: Any) -> Any:
            if answers:
                raise answers.pop()
            return await put(name, body)

        monkeypatch.setattr(h.jobs, "put", flaky)
        await registrar.register(h)
    assert server.calls[0].method == "PUT"


async def test_an_application_without_schedules_asks_nothing(server: rest_server.RestServer) -> None:
    async with Horarium(server.url, "k") as h:
        await registrar.register(h)
    assert not server.calls
