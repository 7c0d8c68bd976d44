"""Fire, lease over HTTP, handler, durable result: how many runs a second, with real server and worker processes.

Timers are due at every second, 30,000 at each, more than the system can do; what it completes in the window is its rate.
The floor is bare SQL doing the same rows on three connections, in the same run, before. Verified by the rows: none twice.
Goals: at least 15,000 a second sustained for 60 s, on towards 23,000, and 0.7 of the floor (quick: 6 s).
"""

from __future__ import annotations

import asyncio
import os
import time
from datetime import timedelta

import asyncpg

from benchmarks import bare, harness, system

GOAL_RATE, GOAL_RATIO = 15_000, 0.7
FLOOR_JOBS = 100_000
WORKERS = int(os.environ.get("BENCH_WORKERS", "1"))
SLOTS = os.environ.get("BENCH_SLOTS", "1500")


async def measure(url: str, given: harness.Options) -> None:
    """Floor, then the system, then the books."""
    seconds = 6 if given.quick else 60
    offered = 30_000
    connection = await harness.fresh(url)
    floor = await measure_floor(connection, url, min(seconds, 20))
    harness.say(given, f"floor {floor:,.0f}/s")
    await connection.close()
    connection = await harness.fresh(url)
    total = offered * (seconds + 4)
    keys = harness.schedules()
    now = await connection.fetchval("SELECT now()")
    await harness.seed(connection, total, now + timedelta(days=1), keys)
    await harness.settle(connection)
    with system.system(url, max_ready="2000000") as running:
        rate, server_us, worker_us, memory = await drive(connection, running, offered, seconds)
    harness.say(given, f"server {server_us:.1f} µs CPU a run, worker {worker_us:.1f} µs; server {memory:.0f} MB")
    row = await connection.fetchrow("SELECT count(*) AS rows, count(DISTINCT id) AS ids FROM history")
    assert row["rows"] == row["ids"], row
    await connection.close()
    ok = rate >= GOAL_RATE and rate >= GOAL_RATIO * floor
    harness.tell(
        harness.Result("end_to_end.server_cpu", server_us, "µs/run"),
        harness.Result("end_to_end.worker_cpu", worker_us, "µs/run"),
        harness.Result(
            "end_to_end",
            rate,
            "runs/s",
            floor,
            rate / floor,
            f">= {GOAL_RATE:,}/s and >= {GOAL_RATIO} of the floor",
            ok,
        ),
    )


async def measure_floor(connection: asyncpg.Connection, url: str, seconds: float) -> float:
    """Bare SQL on three connections. It fires the same timers again, for the hour after, when it is through with them."""
    now = await connection.fetchval("SELECT now()")
    await harness.seed(connection, FLOOR_JOBS, now, harness.schedules(1))
    await harness.settle(connection)
    return await bare.end_to_end_rate(url, seconds)


async def drive(
    connection: asyncpg.Connection, running: system.System, offered: int, seconds: int
) -> tuple[float, float, float, float]:
    """Spread the timers over the window, start everything, count completions in the window."""
    await connection.execute(
        """UPDATE timers t SET scheduled_for = at, due_at = at FROM (
             SELECT job_id, date_trunc('second', now()) + interval '4 s'
                    + make_interval(secs => floor(row_number() OVER () / $1::float8)) AS at FROM timers) AS spread
           WHERE t.job_id = spread.job_id""",
        float(offered),
    )
    await harness.settle(connection)
    first = await connection.fetchval("SELECT min(due_at) FROM timers")
    now = await connection.fetchval("SELECT clock_timestamp()")
    if first < now + timedelta(seconds=3):
        shift = now + timedelta(seconds=3) - first
        await connection.execute("UPDATE timers SET scheduled_for = scheduled_for + $1, due_at = due_at + $1", shift)
        await harness.settle(connection)
    running.start_server()
    for _ in range(WORKERS):
        running.start_worker("--slots", SLOTS)
    while await finished(connection) < 1000:
        await asyncio.sleep(0.05)
    await asyncio.sleep(2)
    processes = [child.pid for child in (*running.servers, *running.workers)]
    cpu = [system.cpu_seconds(pid) for pid in processes]
    before, started = await finished(connection), time.perf_counter()
    await asyncio.sleep(seconds)
    after, took = await finished(connection), time.perf_counter() - started
    used = [system.cpu_seconds(pid) - was for pid, was in zip(processes, cpu, strict=True)]
    done = max(1, after - before)
    memory = system.memory_mb(running.servers[0].pid)
    return done / took, used[0] / done * 1e6, sum(used[1:]) / done * 1e6, memory


async def finished(connection: asyncpg.Connection) -> int:
    """How many runs have a durable result."""
    count: int = await connection.fetchval("SELECT count(*) FROM history")
    return count


def main() -> None:
    """Run it."""
    harness.run(__doc__, measure)


if __name__ == "__main__":
    main()
