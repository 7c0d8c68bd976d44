"""Jobs by the public API: what a benchmark measures has come in as everybody's jobs do."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import msgspec

from benchmarks import harness, wire

PER_REQUEST = 5_000
SAMPLE, FAR_S = 1_000, 366 * 86_400

Body = dict[str, Any]


def body(handler: str, **members: Any) -> Body:
    """The body of a job that runs a handler with the usual payload."""
    return {"target": {"handler": handler}, "payload": msgspec.Raw(harness.PAYLOAD.encode()), **members}


def instant(at: datetime) -> str:
    """An instant as the API reads it."""
    return at.isoformat()


async def time_to_create(url: str, key: str, count: int) -> timedelta:
    """How long making so many jobs will take at most, judged by a thousand that come due when nobody looks any more."""
    began = time.perf_counter()
    await create(url, key, [body("noop", run_in_s=FAR_S)] * SAMPLE)
    return timedelta(seconds=2 + 2 * count / SAMPLE * (time.perf_counter() - began))


async def create(url: str, key: str, bodies: Iterable[Body]) -> int:
    """Create jobs in batches; returns how many. Each must be taken."""
    connection = await wire.Connection.open(url)
    remaining, made = iter(bodies), 0
    while batch := list(islice(remaining, PER_REQUEST)):
        answer = await connection.ask(wire.request("POST", "/v1/jobs:batch", key, msgspec.json.encode({"jobs": batch})))
        assert answer.status == 200, answer
        told = msgspec.json.decode(answer.body)
        assert told["created"] == len(batch), [item for item in told["items"] if item["status"] != 201][:3]
        made += len(batch)
    connection.close()
    return made
