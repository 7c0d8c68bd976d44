"""The client: what declaring and enqueueing send, and how refusals and absence are told."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from aiohttp import web

from horarium import Context, Enqueued, Horarium, Retry, errors
from horarium.sdk import client, handlers, resources, signature, sync
from tests.sdk import rest_server

NOW = datetime(2026, 12, 1, 7, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))


def declare(h: Horarium) -> handlers.Handler[..., Any]:
    @h.job("email.welcome", queue="emails", retry=Retry(5, base="10s"), timeout="2m", priority=7)
    async def welcome(ctx: Context, user_id: int, tag: str = "none") -> None: ...

    return welcome


@pytest.fixture
async def welcome(server: rest_server.RestServer) -> AsyncIterator[handlers.Handler[..., Any]]:
    """A handler of a client of the server, whose jobs are taken."""
    server.on("POST /v1/jobs", {"id": "job-1", "run_id": "run-1"})
    async with Horarium(server.url, "hrm_key") as h:
        yield declare(h)
        await asyncio.to_thread(h.sync.close)


BODY = {
    "target": {"handler": "email.welcome"}, "payload": {"user_id": 7}, "queue": "emails", "priority": 7,
    "timeout_s": 120, "retry": {"max_attempts": 5, "base_s": 10.0},
}  # fmt: skip


async def test_enqueue(server: rest_server.RestServer, welcome: handlers.Handler[..., Any]) -> None:
    assert await welcome.enqueue(user_id=7) == Enqueued("job-1", "run-1")
    assert await welcome.enqueue(7) == Enqueued("job-1", "run-1")
    call, again = server.calls
    assert call.body == again.body == {**BODY, "run_at": "now"}
    assert call.headers["Authorization"] == "Bearer hrm_key"
    assert call.headers["Idempotency-Key"] != again.headers["Idempotency-Key"]


async def test_enqueue_later(server: rest_server.RestServer, welcome: handlers.Handler[..., Any]) -> None:
    await welcome.enqueue_in("2h", user_id=7)
    await welcome.enqueue_at(NOW, user_id=7)
    assert [call.body for call in server.calls] == [
        {**BODY, "run_in_s": 7200.0}, {**BODY, "run_at": "2026-12-01T02:00:00Z"},
    ]  # fmt: skip
    with pytest.raises(ValueError, match="no time zone"):
        await welcome.enqueue_at(datetime(2026, 12, 1), user_id=7)  # noqa: DTZ001


async def test_options_of_one_call(server: rest_server.RestServer, welcome: handlers.Handler[..., Any]) -> None:
    def replayed(call: rest_server.Call) -> web.Response:
        return web.json_response({"id": "job-1"}, headers={"Idempotency-Replayed": "true"})

    server.on("POST /v1/jobs", replayed)
    chosen = welcome.options(queue="slow", priority=0, timeout="1h", idempotency_key="once")
    assert (await chosen.enqueue(user_id=7)).replayed
    assert server.calls[0].body == {**BODY, "run_at": "now", "queue": "slow", "priority": 0, "timeout_s": 3600}
    assert server.calls[0].headers["Idempotency-Key"] == "once"
    await welcome.enqueue(user_id=7)
    assert server.calls[1].body["queue"] == "emails"


async def test_arguments_that_do_not_fit_are_not_sent(
    server: rest_server.RestServer, welcome: handlers.Handler[..., Any]
) -> None:
    with pytest.raises(errors.InvalidError, match="user_id: Expected `int`, got `str`"):
        await welcome.enqueue(user_id="seven")
    with pytest.raises(errors.InvalidError, match="user_id is missing"):
        await welcome.enqueue()
    with pytest.raises(signature.MismatchError) as caught:
        await welcome.enqueue_many([{"user_id": 1}, {"user_id": "x"}, {"user": 1}])
    assert [fault.pointer for fault in caught.value.faults] == [
        "/1/payload/user_id", "/2/payload/user_id", "/2/payload/user",
    ]  # fmt: skip
    assert not server.calls


async def test_many_at_once(server: rest_server.RestServer, welcome: handlers.Handler[..., Any]) -> None:
    server.on(
        "POST /v1/jobs:batch",
        lambda call: web.json_response(
            {"items": [{"status": 201, "id": str(body["payload"]["user_id"])} for body in call.body]}
        ),
    )
    made = await welcome.enqueue_many(({"user_id": number} for number in range(25_000)), at=NOW)
    assert [one.job_id for one in made] == [str(number) for number in range(25_000)]
    assert [len(call.body) for call in server.calls] == [10_000, 10_000, 5_000]
    assert server.calls[0].body[0] == {**BODY, "payload": {"user_id": 0}, "run_at": "2026-12-01T02:00:00Z"}


async def test_large_batches_are_parted_by_size(
    server: rest_server.RestServer, welcome: handlers.Handler[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_BATCH_BYTES", 1000)
    server.on(
        "POST /v1/jobs:batch",
        lambda call: web.json_response({"items": [{"status": 201, "id": "x"} for _ in call.body]}),
    )
    await welcome.enqueue_many([{"user_id": 1, "tag": "x" * 600}] * 3)
    assert [len(call.body) for call in server.calls] == [1, 1, 1]


async def test_refused_jobs_of_a_batch_are_named(
    server: rest_server.RestServer, welcome: handlers.Handler[..., Any]
) -> None:
    fault = {"pointer": "/queue", "detail": "is closed"}
    items = [{"status": 201, "id": "1"}, {"status": 422, "problem": {"title": "no", "errors": [fault]}}]
    server.on("POST /v1/jobs:batch", {"items": items})
    with pytest.raises(errors.RequestError, match="1 of 2 jobs were refused") as caught:
        await welcome.enqueue_many([{"user_id": 1}, {"user_id": 2}])
    assert caught.value.problem["errors"] == [{"pointer": "/1/queue", "detail": "is closed"}]
    assert caught.value.problem["items"] == items


async def test_enqueue_by_name(server: rest_server.RestServer) -> None:
    server.on("POST /v1/jobs", {"id": "job-1"})
    h = Horarium(server.url, "k")
    await h.enqueue("billing.run", {"kind": "x"}, in_="5m", queue="billing", idempotency_key="a", retry=Retry(1))
    assert server.calls[0].body == {
        "target": {"handler": "billing.run"}, "payload": {"kind": "x"}, "run_in_s": 300.0, "queue": "billing",
        "retry": {"max_attempts": 1},
    }  # fmt: skip
    with pytest.raises(ValueError, match="either in_ or at"):
        await h.enqueue("billing.run", in_="5m", at=NOW)
    await h.close()


def test_calling_a_handler_calls_the_function() -> None:
    h = Horarium()

    @h.job("double")
    def double(ctx: Context, number: int) -> int:
        """Twice the number."""
        return number * 2

    assert double(None, 4) == 8  # type: ignore[arg-type]
    assert double.__doc__ == "Twice the number."
    assert "double" in repr(double)


def test_declarations_that_cannot_be_meant_are_refused() -> None:
    h = Horarium()

    @h.cron("0 2 * * *")
    @h.job("nightly")
    def nightly(ctx: Context) -> None: ...

    def generator(ctx: Context) -> Any:
        yield 1

    with pytest.raises(errors.ConfigurationError, match="declared twice"):
        h.job("nightly")(lambda ctx: None)
    with pytest.raises(errors.ConfigurationError, match="two schedules make the job 'nightly'"):
        h.cron("0 3 * * *")(nightly)
    with pytest.raises(errors.ConfigurationError, match=r"stand above @h\.job"):
        h.cron("0 3 * * *")(lambda ctx: None)  # type: ignore[arg-type]
    with pytest.raises(errors.ConfigurationError, match="does not yield"):
        h.job("other")(generator)
    with pytest.raises(ValueError, match="no unit"):
        h.job("other", timeout="10")
    with pytest.raises(ValueError, match="whole number"):
        h.every("1500ms")


async def test_requests_are_repeated_while_the_server_is_away(
    server: rest_server.RestServer, welcome: handlers.Handler[..., Any]
) -> None:
    def hang_up(call: rest_server.Call) -> web.Response:
        raise ConnectionResetError

    server.on("POST /v1/jobs", rest_server.problem(503), hang_up, {"id": "job-1"})
    async with Horarium("http://127.0.0.1:9", "k") as away:
        with pytest.raises(errors.UnreachableError, match=r"127\.0\.0\.1:9"):
            await away.jobs.get("x")
    assert (await welcome.enqueue(user_id=7)).job_id == "job-1"
    assert len({call.headers["Idempotency-Key"] for call in server.calls}) == 1 and len(server.calls) == 3


async def test_refusals_are_told_with_every_fault(
    server: rest_server.RestServer, welcome: handlers.Handler[..., Any]
) -> None:
    faults = [{"pointer": "/queue", "detail": "a"}, {"pointer": "/retry", "detail": "b"}]
    server.on("POST /v1/jobs", rest_server.problem(422, detail="two faults", errors=faults))
    with pytest.raises(errors.RequestError) as caught:
        await welcome.enqueue(user_id=7)
    assert caught.value.status == 422 and str(caught.value) == "two faults\n  /queue: a\n  /retry: b"
    assert len(server.calls) == 1


async def test_an_answer_that_is_not_from_horarium(server: rest_server.RestServer) -> None:
    server.on("GET /v1/jobs/x", lambda call: web.Response(text="<h1>login</h1>", content_type="text/html"))
    h = Horarium(server.url, "k")
    with pytest.raises(errors.RequestError, match="login"):
        await h.jobs.get("x")
    await h.close()


async def test_another_node_is_asked(server: rest_server.RestServer) -> None:
    async with Horarium(f"http://127.0.0.1:9,{server.url}", "k") as h:
        await h.jobs.get("x")
        await h.jobs.get("y")
    assert [call.path for call in server.calls] == ["/v1/jobs/x", "/v1/jobs/y"]


async def test_jobs_and_runs(server: rest_server.RestServer) -> None:
    server.on("GET /v1/jobs", {"items": [{"id": "a"}], "next_cursor": "c"})
    server.on("GET /v1/runs", {"items": [], "next_cursor": None})
    server.on("POST /v1/runs/r/rerun", {"id": "r2"})
    server.on("GET /v1/runs/r", {"state": "running"}, {"state": "running"}, {"state": "succeeded", "id": "r"})
    server.on("DELETE /v1/jobs/a", lambda call: web.Response(status=204))
    async with Horarium(server.url, "k") as h:
        assert await h.jobs.list(status="paused") == resources.Page([{"id": "a"}], "c")
        assert await h.runs.list(state="dead", cursor="x", limit=5) == resources.Page([], None)
        await h.jobs.put("a b/c", {"schedule": "* * * * *"})
        await h.jobs.pause("name:x", reason="why")
        await h.jobs.resume("a", catch_up="run_once")
        await h.jobs.run("a", {"n": 1})
        await h.jobs.delete("a")
        await h.runs.cancel("r")
        assert await h.runs.rerun("r") == {"id": "r2"}
        assert await h.runs.wait("r") == {"state": "succeeded", "id": "r"}
        server.on("GET /v1/runs/r", {"state": "queued"})
        with pytest.raises(TimeoutError, match="still queued"):
            await h.runs.wait("r", timeout="10ms")
    assert [(call.method, call.path, call.body) for call in server.calls[:9]] == [
        ("GET", "/v1/jobs?limit=100&status=paused", None),
        ("GET", "/v1/runs?cursor=x&limit=5&state=dead", None),
        ("PUT", "/v1/jobs/name:a%20b%2Fc", {"schedule": "* * * * *"}),
        ("POST", "/v1/jobs/name:x/pause", {"reason": "why"}),
        ("POST", "/v1/jobs/a/resume", {"catch_up": "run_once"}),
        ("POST", "/v1/jobs/a/run", {"payload": {"n": 1}}),
        ("DELETE", "/v1/jobs/a", None),
        ("POST", "/v1/runs/r/cancel", {}),
        ("POST", "/v1/runs/r/rerun", {}),
    ]


async def test_the_blocking_twin_sends_the_same(
    server: rest_server.RestServer, welcome: handlers.Handler[..., Any]
) -> None:
    server.on("GET /v1/runs/r", {"state": "dead"})

    def from_a_thread() -> tuple[Any, ...]:
        h = Horarium(server.url, "k")
        made = (
            welcome.sync.enqueue(user_id=7),
            welcome.sync.enqueue_in("2h", user_id=7),
            h.sync.enqueue("other", {"a": 1}),
            h.sync.runs.wait("r"),
        )
        h.sync.close()
        return made

    first, second, third, run = await asyncio.to_thread(from_a_thread)
    assert first == second == third == Enqueued("job-1", "run-1") and run == {"state": "dead"}
    assert server.calls[0].body == {**BODY, "run_at": "now"}
    with pytest.raises(RuntimeError, match=r"use `await ….enqueue\(…\)`"):
        welcome.sync.enqueue(user_id=7)


@pytest.mark.parametrize(
    ("original", "twin"),
    [
        (handlers.Handler, lambda h: declare(h).sync),
        (client.Horarium, lambda h: h.sync),
        (resources.Jobs, lambda h: h.sync.jobs),
        (resources.Runs, lambda h: h.sync.runs),
    ],
)
def test_every_asynchronous_call_has_its_twin(original: type, twin: Any) -> None:
    apart = {"submit", "submit_many"}  # what Handler calls; not for users
    coroutines = {
        name for name, value in vars(original).items()
        if inspect.iscoroutinefunction(value) and not name.startswith("_") and name not in apart
    }  # fmt: skip
    blocking = {name for name, value in vars(twin(Horarium("http://x", "k"))).items() if callable(value)}
    assert coroutines == blocking


def test_a_script_need_not_close_its_client() -> None:
    """No word about an open session when `asyncio.run` ends, nor when the interpreter does."""
    code = (
        "import asyncio, contextlib\n"
        "from horarium import Horarium, HorariumError\n"
        "async def main():\n"
        "    with contextlib.suppress(HorariumError):\n"
        "        await Horarium('http://127.0.0.1:9', 'k').jobs.get('x')\n"
        "asyncio.run(main())\n"
        "h = Horarium('http://127.0.0.1:9', 'k')\n"
        "with contextlib.suppress(HorariumError):\n"
        "    h.sync.jobs.get('x')\n"
    )
    ran = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and "nclosed" not in ran.stderr


def test_a_forked_child_has_a_background_loop_of_its_own() -> None:
    code = (
        "import os, sys\n"
        "from horarium.sdk import sync\n"
        "async def answer(): return 42\n"
        "assert sync.blocking(answer)() == 42\n"
        "pid = os.fork()\n"
        "if pid == 0: os._exit(0 if sync.blocking(answer)() == 42 else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, timeout=30, check=False)
    assert ran.returncode == 0, ran.stderr


def test_one_background_thread_serves_all_twins() -> None:
    async def where() -> str:
        return threading.current_thread().name

    assert sync.blocking(where)() == sync.blocking(where)() == "horarium-sync"


def test_configuration_is_read_at_the_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORARIUM_PROFILE", "/nowhere")
    monkeypatch.delenv("HORARIUM_URL", raising=False)
    h = Horarium()
    with pytest.raises(errors.ConfigurationError, match="HORARIUM_URL"):
        h.sync.jobs.get("x")
