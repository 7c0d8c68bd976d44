"""A worker dies, freezes or is slow: its runs start again, and what it says too late changes nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import load, processes, waiting

LEASE_S = 2.0


async def start_long_job(here: processes.Installation, handler: str = "minute") -> str:
    """A one-off that does not end by itself in its first attempt."""
    body = {"name": "long", "run_at": "now", "target": {"handler": handler}, "timeout_s": 600}
    made: dict[str, Any] = await here.call("POST", "/v1/jobs", body, expect=201)
    job_id: str = made["id"]
    return job_id


async def the_run(here: processes.Installation, job_id: str, state: str) -> dict[str, Any]:
    """The job's run, once it is in a state."""

    async def look() -> dict[str, Any] | None:
        page = await here.call("GET", f"/v1/jobs/{job_id}/runs", expect=200)
        return next((run for run in page["items"] if run["state"] == state), None)

    return await waiting.until(look, f"a run is {state}")


async def books_balance(here: processes.Installation, job_id: str) -> None:
    """What the auditor says."""
    made = await here.call("GET", f"/v1/jobs/{job_id}", expect=200)
    assert await load.audited(here, datetime.fromisoformat(made["created_at"])) == []


async def appears(path: Path) -> str:
    """The content of a file that another process writes."""

    async def look() -> str | None:
        return path.read_text() if path.exists() else None

    return await waiting.until(look, f"{path.name} is written")


@pytest.mark.cluster
async def test_a_killed_workers_run_starts_again_with_attempt_two_and_a_higher_token(
    database_url: str, tmp_path: Path
) -> None:
    async with processes.installation(tmp_path, database_url, lease=f"{LEASE_S}s") as here:
        worker = await here.start_worker(name="first")
        job_id = await start_long_job(here)
        run_id, token, _ = (await appears(tmp_path / "started-1")).split()
        await worker.kill()
        killed_at = asyncio.get_running_loop().time()
        await here.start_worker(name="second")
        _, second_token, _ = (await appears(tmp_path / "started-2")).split()
        took = asyncio.get_running_loop().time() - killed_at
        print(f"started again after {took:.1f} s (lease {LEASE_S} s)")
        ended = await the_run(here, job_id, "succeeded")
        assert ended["id"] == run_id
        assert ended["attempt"] == 2
        assert int(second_token) > int(token)
        detail = await here.call("GET", f"/v1/runs/{run_id}", expect=200)
        assert [attempt["outcome"] for attempt in detail["attempts"]][:1] == ["lost"]
        await books_balance(here, job_id)


@pytest.mark.cluster
async def test_a_frozen_workers_late_report_is_refused(database_url: str, tmp_path: Path) -> None:
    async with processes.installation(tmp_path, database_url, lease=f"{LEASE_S}s") as here:
        worker = await here.start_worker(name="first")
        job_id = await start_long_job(here)
        run_id, token, _ = (await appears(tmp_path / "started-1")).split()
        worker.send(signal.SIGSTOP)
        await here.start_worker(name="second")
        ended = await the_run(here, job_id, "succeeded")
        late = {
            "worker": {"id": "the-old-one"},
            "results": [{"run_id": run_id, "fencing_token": int(token), "outcome": "failed"}],
        }
        answer = await here.call("POST", "/v1/worker/report", late, expect=200)
        assert answer == {"accepted": [], "lost": [run_id]}
        worker.send(signal.SIGCONT)
        beat = {"worker": {"id": "the-old-one"}, "runs": [{"run_id": run_id, "fencing_token": int(token)}]}
        assert (await here.call("POST", "/v1/worker/heartbeat", beat, expect=200))["lost"] == [run_id]
        after = await here.call("GET", f"/v1/runs/{run_id}", expect=200)
        assert (after["state"], after["attempt"]) == (ended["state"], 2)
        await books_balance(here, job_id)


@pytest.mark.cluster
async def test_a_frozen_worker_that_finishes_when_it_wakes_is_refused(database_url: str, tmp_path: Path) -> None:
    """Its handler may return before anybody could tell it that the run is another worker's by now; it is told so either way."""
    async with processes.installation(tmp_path, database_url, lease=f"{LEASE_S}s") as here:
        worker = await here.start_worker(name="first")
        os.mkfifo(tmp_path / "finish")
        job_id = await start_long_job(here, "until-told")
        run_id, _, _ = (await appears(tmp_path / "started-1")).split()
        worker.send(signal.SIGSTOP)
        await here.start_worker(name="second")
        ended = await the_run(here, job_id, "succeeded")
        worker.send(signal.SIGCONT)
        finishing = asyncio.create_task(asyncio.to_thread((tmp_path / "finish").write_bytes, b"now"))

        async def refused() -> bool:
            told = (tmp_path / "first.log").read_text()
            return f"run {run_id}: its result came too late" in told or f"run {run_id}: the lease was lost" in told

        await waiting.until(refused, "the worker hears that the run is not its own any more")
        after = await here.call("GET", f"/v1/runs/{run_id}", expect=200)
        assert after["result"] == f"attempt {ended['attempt']}" != "attempt 1"
        assert after["finished_at"] == ended["finished_at"]
        await finishing
        assert await worker.stop() == 0
        await books_balance(here, job_id)


@pytest.mark.cluster
async def test_a_worker_that_is_told_to_stop_gives_its_run_back_without_using_an_attempt(
    database_url: str, tmp_path: Path
) -> None:
    async with processes.installation(tmp_path, database_url) as here:
        arguments = ["tests.cluster.handlers:h", "--grace", "200ms"]
        worker = await here.start_worker(*arguments, name="first")
        job_id = await start_long_job(here)
        await appears(tmp_path / "started-1")
        (tmp_path / "started-1").unlink()
        assert await worker.stop() == 0
        await here.start_worker(*arguments, name="second")
        await appears(tmp_path / "started-1")
        running = await the_run(here, job_id, "running")
        assert running["attempt"] == 1
        await books_balance(here, job_id)
