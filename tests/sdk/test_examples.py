"""The examples do what they say."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web

from horarium.sdk import executor, loader, processes, registrar, threads
from tests.sdk import peer as peers
from tests.sdk import rest_server

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


async def run(script: str, url: str) -> str:
    """What an example prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, script, cwd=EXAMPLES, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "HORARIUM_URL": url, "HORARIUM_API_KEY": "hrm_test"},
    )  # fmt: skip
    output, error = await process.communicate()
    assert (process.returncode, error) == (0, b"")
    return output.decode()


@pytest.fixture
def shop(server: rest_server.RestServer) -> rest_server.RestServer:
    """A server that takes jobs, and whose runs have all succeeded."""

    def batch(call: rest_server.Call) -> web.Response:
        return web.json_response({"items": [{"status": 201, "id": "j"} for _ in call.body]})

    server.on("POST /v1/jobs", {"id": "j", "run_id": "r"})
    server.on("POST /v1/jobs:batch", batch)
    server.on("GET /v1/runs/r", {"state": "succeeded", "result": "welcome-7-en"})
    return server


async def test_enqueue(shop: rest_server.RestServer) -> None:
    assert await run("enqueue.py", shop.url) == "the same job: True\nsucceeded welcome-7-en\n"
    keys = [call.headers["Idempotency-Key"] for call in shop.calls if "order" in str(call.body)]
    assert keys == ["order-4711", "order-4711"]


async def test_enqueue_without_an_event_loop(shop: rest_server.RestServer) -> None:
    assert await run("enqueue_sync.py", shop.url) == "succeeded\n"


def test_the_examples_own_tests_pass() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "test_jobs.py"]
    ran = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


async def test_the_application_runs_in_a_worker(peer: peers.Peer) -> None:
    application = loader.load("app.jobs:h")
    assert registrar.declared(application).keys() == {"billing.nightly", "report.checksum"}
    children = processes.Processes("app.jobs:h")
    async with peers.working(peer, executor.carriers_of(application.handlers, threads.Threads(), children)):
        runs = {
            "email.welcome": {"user_id": 7},
            "payment.collect": {"order": "1", "cents": 1},
            "billing.nightly": {},
            "report.checksum": {"size": 10},
        }
        ids = [(await peer.offer(handler, payload))[0] for handler, payload in runs.items()]
        results = [await peer.result(run_id) for run_id in ids]
    await children.close()
    assert [result.outcome for result in results] == ["succeeded"] * 4
