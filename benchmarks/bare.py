"""The floor: the same rows, indexes and transactions by bare SQL, with as little Python as possible around it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg

from benchmarks import harness

SELECT = """
SELECT t.job_id, t.shard, t.scheduled_for, t.due_at, t.priority, t.job_version, t.tenant_id, t.queue, t.target_key
FROM unnest($1::smallint[]) AS led(shard)
CROSS JOIN LATERAL (SELECT * FROM timers WHERE timers.shard = led.shard AND timers.due_at >= $2 AND timers.due_at <= $3
                    ORDER BY timers.due_at LIMIT $4 FOR UPDATE SKIP LOCKED) AS t
"""
INSERT = """
INSERT INTO runs (id, job_id, shard, tenant_id, queue, target_key, priority, scheduled_for, ready_at, job_version)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::text[], $5::text[], $6::text[], $7::smallint[],
                     $8::timestamptz[], $9::timestamptz[], $10::integer[])
ON CONFLICT DO NOTHING
"""
MOVE = """
UPDATE timers t SET scheduled_for = x.next, due_at = x.next, last_scheduled_for = t.scheduled_for
FROM unnest($1::uuid[], $2::timestamptz[]) AS x(job_id, next) WHERE t.job_id = x.job_id
"""
CLAIM = """
UPDATE runs r SET state = 'running', attempt = attempt + 1, fencing_token = nextval('fencing_tokens'), worker_id = 'w',
       started_at = now(), lease_expires_at = now() + interval '15 s'
FROM jobs j WHERE r.id = ANY($1::uuid[]) AND r.state = 'waiting' AND j.id = r.job_id
RETURNING r.id, r.fencing_token, j.name, j.target, j.payload
"""
COMPLETE = """
WITH done AS (DELETE FROM runs r USING unnest($1::uuid[], $2::bigint[]) AS x(id, token)
              WHERE r.id = x.id AND r.fencing_token = x.token RETURNING r.*)
INSERT INTO history (id, job_id, scheduled_for, ready_at, started_at, fencing_token, job_version, shard, priority, attempt,
                     state, trigger, tenant_id, queue, target_key, worker_id)
SELECT id, job_id, scheduled_for, ready_at, started_at, fencing_token, job_version, shard, priority, attempt, 'succeeded',
       trigger, tenant_id, queue, target_key, worker_id FROM done
"""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FAR = datetime(2100, 1, 1, tzinfo=UTC)
BATCH = 2_000
CLAIM_BATCH = 500


@dataclass(slots=True)
class Floor:
    """What the bare loops have done so far."""

    ready: deque[UUID] = field(default_factory=deque)
    fired: int = 0
    done: int = 0
    over: bool = False


async def fire(connection: asyncpg.Connection, state: Floor, shards: list[int], backlog: int, until: datetime) -> None:
    """Fire everything that is due by `until`, keeping at most `backlog` runs waiting."""
    while not state.over:
        if state.fired - state.done > backlog:
            await asyncio.sleep(0.001)
            continue
        async with connection.transaction():
            rows = await connection.fetch(SELECT, shards, EPOCH, until, BATCH // len(shards))
            if not rows:
                return
            jobs, shard, nominal, due, priority, version, tenant, queue, target = map(list, zip(*rows, strict=True))
            ids = [_id(job, at) for job, at in zip(jobs, nominal, strict=True)]
            await connection.execute(INSERT, ids, jobs, shard, tenant, queue, target, priority, nominal, due, version)
            await connection.execute(MOVE, jobs, [at + timedelta(hours=1) for at in nominal])
        state.ready.extend(ids)
        state.fired += len(ids)


async def work(connection: asyncpg.Connection, state: Floor) -> None:
    """Claim and complete what is ready, until it is over."""
    while not state.over:
        ids = [state.ready.popleft() for _ in range(min(CLAIM_BATCH, len(state.ready)))]
        if not ids:
            await asyncio.sleep(0.001)
            continue
        rows = await connection.fetch(CLAIM, ids)
        await connection.execute(COMPLETE, [row[0] for row in rows], [row[1] for row in rows])
        state.done += len(rows)


async def fire_rate(url: str, until: datetime) -> tuple[int, float]:
    """Fire all that is due by `until` on one connection; returns how many and in how many seconds."""
    connection = await _connect(url)
    state = Floor()
    started = time.perf_counter()
    await fire(connection, state, list(range(16)), 10**9, until)
    took = time.perf_counter() - started
    await connection.close()
    return state.fired, took


async def stage_rates(url: str, until: datetime) -> tuple[float, float, float]:
    """Fire all that is due by `until`, then claim it, then complete it, on one connection; each in runs a second."""
    fired, took = await fire_rate(url, until)
    connection = await _connect(url)
    ids = [row[0] for row in await connection.fetch("SELECT id FROM runs WHERE state = 'waiting' ORDER BY id")]
    started = time.perf_counter()
    claimed = [await connection.fetch(CLAIM, batch) for batch in _batches(ids)]
    claims_took = time.perf_counter() - started
    started = time.perf_counter()
    for rows in claimed:
        await connection.execute(COMPLETE, [row[0] for row in rows], [row[1] for row in rows])
    completes_took = time.perf_counter() - started
    await connection.close()
    assert sum(map(len, claimed)) == fired, fired
    return fired / took, fired / claims_took, fired / completes_took


async def drain_s(url: str, count: int, workers: int = 2) -> float:
    """How many seconds some connections need to claim and complete so many runs that are ready, in a fresh schema."""
    connection = await harness.fresh(url)
    due = await harness.past_hour(connection)
    await harness.seed(connection, count, due, harness.schedules())
    await connection.close()
    state = Floor()
    connections = [await _connect(url) for _ in range(workers)]
    await fire(connections[0], state, list(range(16)), 10**9, due)
    started = time.perf_counter()
    tasks = [asyncio.create_task(work(connection, state)) for connection in connections]
    while state.done < state.fired:
        await asyncio.sleep(0.001)
    took, state.over = time.perf_counter() - started, True
    await asyncio.gather(*tasks)
    for connection in connections:
        await connection.close()
    assert state.done == count, state.done
    return took


async def end_to_end_rate(url: str, seconds: float, workers: int = 2) -> float:
    """Fire, claim and complete for some seconds on 1 + `workers` connections; returns runs a second."""
    connections = [await _connect(url) for _ in range(workers + 1)]
    state = Floor()
    tasks = [asyncio.create_task(fire(connections[0], state, list(range(16)), 20_000, FAR))]
    tasks += [asyncio.create_task(work(connection, state)) for connection in connections[1:]]
    await asyncio.sleep(seconds)
    done, state.over = state.done, True
    await asyncio.gather(*tasks)
    for connection in connections:
        await connection.close()
    return done / seconds


async def _connect(url: str) -> asyncpg.Connection:
    return await asyncpg.connect(url, server_settings={"search_path": "horarium, public"})


def _batches(ids: list[UUID]) -> Iterator[list[UUID]]:
    for start in range(0, len(ids), CLAIM_BATCH):
        yield ids[start : start + CLAIM_BATCH]


def _id(job: UUID, at: datetime) -> UUID:
    ms = int((at - EPOCH).total_seconds() * 1000)
    digest = hashlib.blake2b(job.bytes + ms.to_bytes(8, "big"), digest_size=8).digest()
    return UUID(int=(ms << 80) | (8 << 76) | (0b10 << 62) | (int.from_bytes(digest, "big") >> 2))
