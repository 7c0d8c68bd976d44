"""Creates: how many jobs a second come in, in batches and one by one, over HTTP and durable.

One-offs that are to run now, as an application enqueues them; no worker takes them. Batches of 5,000 on two connections: the
floor is bare SQL, COPY of as many rows of the same shape into `jobs`, `runs` and `audit`, a transaction for each batch. Then
single POSTs: 16 clients that ask again as soon as they are answered; and again by the clock, at half of the goal's rate, where
latency counts from the instant at which a request should have gone out. Bodies and connections are made beforehand.
Verified by the rows: as many jobs as were answered with 201.
Goals: 30,000 jobs a second in batches; 2,500 single POSTs a second; p99 at most 10 ms at half of that.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from datetime import datetime
from typing import Any

import asyncpg
import msgspec

from benchmarks import harness, jobs, system, wire

GOAL_BATCH, GOAL_SINGLE, GOAL_P99_MS = 30_000, 2_500, 10.0
PER_BATCH, BATCH_CLIENTS, CLIENTS = 5_000, 2, 16


async def measure(url: str, given: harness.Options) -> None:
    """Floor, batches, singles as fast as they go, singles at half load."""
    count, seconds = (60_000, 4) if given.quick else (300_000, 30)
    connection = await harness.fresh(url)
    floor = await copy_rate(connection, count)
    await connection.close()
    harness.say(given, f"COPY: {floor:,.0f} jobs/s")
    connection = await harness.fresh(url)
    with system.system(url, max_ready="2000000") as running:
        running.start_server()
        batch = await batch_rate(running, count)
        harness.say(given, f"batches: {batch:,.0f} jobs/s")
        assert await jobs_made(connection) == count
        used = system.cpu_seconds(running.servers[0].pid)
        answered = await ask_on(running, seconds)
        used_us = (system.cpu_seconds(running.servers[0].pid) - used) / answered * 1e6
        harness.say(given, f"singles: {answered / seconds:,.0f} jobs/s")
        assert await jobs_made(connection) == count + answered
        late = await ask_by_the_clock(running, GOAL_SINGLE // 2, seconds)
        assert await jobs_made(connection) == count + answered + len(late)
    await connection.close()
    harness.tell(harness.Result("create.single_server_cpu", used_us, "µs/job"))
    tell(floor, batch, answered / seconds, late)


def tell(floor: float, batch: float, single: float, late: list[float]) -> None:
    """The figures; batches are the headline."""
    p99, goals = harness.quantile(late, 0.99), (f">= {GOAL_BATCH:,}/s in batches", f">= {GOAL_SINGLE:,}/s")
    results = [
        harness.Result("create.half_load_p50", harness.quantile(late, 0.5), "ms"),
        harness.Result("create.half_load_p99", p99, "ms", goal=f"<= {GOAL_P99_MS:g} ms", ok=p99 <= GOAL_P99_MS),
        harness.Result("create.single", single, "jobs/s", goal=goals[1], ok=single >= GOAL_SINGLE),
    ]
    ok = batch >= GOAL_BATCH and all(result.ok for result in results)
    harness.tell(*results, harness.Result("create", batch, "jobs/s", floor, batch / floor, goals[0], ok))


# ── batches ──


async def batch_rate(running: system.System, count: int) -> float:
    """Jobs a second in batches."""
    body = msgspec.json.encode({"jobs": [jobs.body("noop", run_at="now")] * PER_BATCH})
    request = wire.request("POST", "/v1/jobs:batch", running.key, body)
    pending = list(range(count // PER_BATCH))

    async def client() -> None:
        connection = await wire.Connection.open(running.url)
        while pending:
            pending.pop()
            answer = await connection.ask(request)
            assert answer.status == 200, answer
        connection.close()

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(BATCH_CLIENTS)))
    return count / (time.perf_counter() - started)


async def copy_rate(connection: asyncpg.Connection, count: int) -> float:
    """Jobs a second by COPY, on one connection."""
    now = await connection.fetchval("SELECT now()")
    batches = [rows(now) for _ in range(count // PER_BATCH)]
    started = time.perf_counter()
    for batch in batches:
        async with connection.transaction():
            for table, (columns, records) in batch.items():
                await connection.copy_records_to_table(table, records=records, columns=columns)
    took = time.perf_counter() - started
    assert await jobs_made(connection) == count
    return count / took


def rows(now: datetime) -> dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]]:
    """A batch of rows by table: columns and records."""
    ids = [uuid.uuid4() for _ in range(PER_BATCH)]
    target, line = (
        json.dumps({"handler": "noop"}),
        json.dumps({"target": {"handler": "noop"}, "run_at": now.isoformat()}),
    )
    return {
        "jobs": (
            ("id", "shard", "target", "payload", "run_at", "created_by"),
            [(i, i.int % 16, target, harness.PAYLOAD, now, "bench") for i in ids],
        ),
        "runs": (
            ("id", "job_id", "scheduled_for", "ready_at", "job_version", "shard", "priority", "tenant_id", "queue", "target_key"),
            [(uuid.uuid4(), i, now, now, 1, i.int % 16, 5, "default", "default", "noop") for i in ids],
        ),
        "audit": (
            ("at", "tenant_id", "actor", "action", "object_type", "object_id", "after"),
            [(now, "default", "bench", "create", "job", str(i), line) for i in ids],
        ),
    }  # fmt: skip


# ── one by one ──


async def ask_on(running: system.System, seconds: float) -> int:
    """Each client asks again when it is answered; returns how many answers came."""
    request = single(running)
    connections = [await wire.Connection.open(running.url) for _ in range(CLIENTS)]
    until = time.perf_counter() + seconds

    async def client(connection: wire.Connection) -> int:
        answered = 0
        while time.perf_counter() < until:
            answer = await connection.ask(request)
            assert answer.status == 201, answer
            answered += 1
        connection.close()
        return answered

    return sum(await asyncio.gather(*map(client, connections)))


async def ask_by_the_clock(running: system.System, rate: int, seconds: int) -> list[float]:
    """A request each 1/rate seconds, on whichever connection is free; returns the latencies in ms."""
    request = single(running)
    free: asyncio.Queue[wire.Connection] = asyncio.Queue()
    for _ in range(CLIENTS):
        free.put_nowait(await wire.Connection.open(running.url))
    late: list[float] = []
    begin = time.perf_counter() + 0.05

    async def ask(due: float) -> None:
        connection = await free.get()
        answer = await connection.ask(request)
        assert answer.status == 201, answer
        late.append((time.perf_counter() - due) * 1000)
        free.put_nowait(connection)

    async with asyncio.TaskGroup() as group:
        for number in range(rate * seconds):
            due = begin + number / rate
            await asyncio.sleep(due - time.perf_counter())
            group.create_task(ask(due))
    while not free.empty():
        free.get_nowait().close()
    return late


def single(running: system.System) -> bytes:
    """The request for one job."""
    return wire.request("POST", "/v1/jobs", running.key, msgspec.json.encode(jobs.body("noop", run_at="now")))


async def jobs_made(connection: asyncpg.Connection) -> int:
    """How many jobs there are."""
    count: int = await connection.fetchval("SELECT count(*) FROM jobs")
    return count


def main() -> None:
    """Run it."""
    harness.run(__doc__, measure)


if __name__ == "__main__":
    main()
