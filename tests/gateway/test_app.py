"""The worker's wire as HTTP: faults on either side, and what happens when a connection breaks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from horarium.gateway import app
from horarium.protocol import messages
from tests.gateway.wire import Wire, is_problem

WORKER = {"id": "w1"}
ASKS: dict[str, Any] = {"worker": WORKER, "queues": [{"name": "default"}], "slots": 1}


async def test_a_message_that_is_too_large_is_refused(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MAX_BODY_BYTES", 1000)
    token = await wire.token()
    body = messages.encode(ASKS)
    assert (await wire.send(messages.LEASE_PATH, body.ljust(1000), token=token)).status == 200
    assert is_problem(await wire.send(messages.LEASE_PATH, body.ljust(1001), token=token), 413)


async def test_a_fault_of_ours_is_told_without_the_inside(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("the secret inside")

    monkeypatch.setattr(wire.plane.registry, "stopped", fails)
    answer = await wire.send(messages.STOP_PATH, messages.encode({"worker": WORKER}), token=await wire.token())
    assert is_problem(answer, 500)
    assert "secret" not in str(answer.body)


async def test_while_the_database_cannot_be_asked_a_worker_is_told_to_come_again(wire: Wire) -> None:
    held = await wire.started()
    await wire.plane.database.close()
    result = {"run_id": held.run_id, "fencing_token": held.token, "outcome": "succeeded"}
    body = messages.encode({"worker": WORKER, "results": [result]})
    answer = await wire.send(messages.REPORT_PATH, body, token=await wire.token())
    assert is_problem(answer, 503)
    assert answer.headers["Retry-After"] == "1"


async def test_a_worker_that_goes_away_while_it_waits_costs_no_attempt(wire: Wire) -> None:
    gone = asyncio.create_task(wire.lease("gone"))
    await wire.waiting(1)
    gone.cancel()
    await wire.waiting(0)
    row = await wire.make()
    (lease,) = (await wire.lease("here"))["leases"]
    assert (lease["run_id"], lease["attempt"]) == (str(row.id), 1)
    stored = await wire.row(row.id)
    assert (stored["worker_id"], stored["attempt"]) == ("here", 1)


async def test_a_connection_may_be_used_for_many_calls(wire: Wire) -> None:
    """Both ways of ending one: with an answer, and with a refusal after the body was read."""
    token = await wire.token()
    for _ in range(3):
        assert (await wire.send(messages.LEASE_PATH, messages.encode(ASKS), token=token)).status == 200
        assert (await wire.send(messages.LEASE_PATH, b"[]", token=token)).status == 422
