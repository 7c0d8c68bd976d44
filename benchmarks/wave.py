"""The wave: 100,000 runs due at one second, on top of 1,200 starts a second in another queue.

Cron jobs that share one second of the day, and interval jobs spread evenly; all made over the API; one server, one worker for
each of the two queues. Verified by the rows and by the handlers' notes: every run of the wave and of the steady load started,
once. The floor is the time that bare SQL needs to claim and complete as many prepared runs on two connections.
Goals: all of the wave started within 10 s (quick: 20,000 within 2 s); p99 of the other queue's start lag at most 250 ms
meanwhile; the server at most 300 MB.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import asyncpg

from benchmarks import bare, books, harness, jobs, starts, system

WAVE, QUICK_WAVE = 100_000, 20_000
PER_SECOND = 10_000
STEADY_RATE, INTERVAL_S = 1_200, 10
GOAL_OTHERS_MS, GOAL_MB = 250.0, 300.0
BEFORE = timedelta(seconds=2)


async def measure(url: str, given: harness.Options) -> None:
    """The floor, the load, the wave, the books."""
    size = QUICK_WAVE if given.quick else WAVE
    floor_s = await bare.drain_s(url, size)
    harness.say(given, f"bare SQL claims and completes {size:,} runs in {floor_s:.1f} s")
    connection = await harness.fresh(url)
    with system.system(url) as running:
        running.start_server()
        running.start_worker("--queues", "steady", "--slots", "500", BENCH_LABEL="steady")
        running.start_worker("--queues", "wave", "--slots", "500", BENCH_LABEL="wave")
        at = await register(connection, running, size)
        harness.say(given, f"{size:,} runs are due at {at:%H:%M:%S}")
        await books.until_finished(connection, at, at + books.MOMENT, size)
        memory = system.memory_mb(running.servers[0].pid)
        wave = await books.window(connection, at, at + books.MOMENT, queue="wave")
        until = books.whole_second(wave.last_finished) + timedelta(seconds=1)
        steady_runs = round((until - (at - BEFORE)).total_seconds() * STEADY_RATE)
        await books.until_finished(connection, at - BEFORE, until, steady_runs + size)
        steady = await books.window(connection, at - BEFORE, until, queue="steady")
        running.stop_workers()
        wave.check(size)
        steady.check(steady_runs)
        waved = starts.read(running.folder, "wave", at.timestamp(), at.timestamp() + 0.001)
        others = starts.read(running.folder, "steady", (at - BEFORE).timestamp(), until.timestamp())
        assert (len(waved), len(others)) == (size, steady_runs), (len(waved), len(others), steady_runs)
    await connection.close()
    tell(size, waved, others, floor_s, memory)


def tell(size: int, waved: list[starts.Start], others: list[starts.Start], floor_s: float, memory: float) -> None:
    """The figures; the time until the last start of the wave is the headline."""
    took, limit = max(start.lag_ms for start in waved) / 1000, size / PER_SECOND
    p99 = harness.quantile([start.lag_ms for start in others], 0.99)
    results = [
        harness.Result("wave.server_memory", memory, "MB", goal=f"<= {GOAL_MB:g} MB", ok=memory <= GOAL_MB),
        harness.Result(
            "wave.others_p99", p99, "ms", goal=f"p99 <= {GOAL_OTHERS_MS:g} ms meanwhile", ok=p99 <= GOAL_OTHERS_MS
        ),
    ]
    ok = took <= limit and all(result.ok for result in results)
    goal = f"{size:,} started in <= {limit:g} s, others p99 <= {GOAL_OTHERS_MS:g} ms"
    harness.tell(*results, harness.Result("wave", took, "s", floor_s, took / floor_s, goal, ok))


async def register(connection: asyncpg.Connection, running: system.System, size: int) -> datetime:
    """Make all jobs; returns the second of the wave, when the steady load has been running for some time."""
    begin = books.whole_second(await books.now(connection))
    step = timedelta(seconds=1) / STEADY_RATE  # in whole microseconds: what is left over is at the end of each second
    steady = (
        jobs.body(
            "note_start", name=f"steady-{i}", queue="steady", interval_s=INTERVAL_S,
            start_at=jobs.instant(begin + timedelta(seconds=i // STEADY_RATE) + i % STEADY_RATE * step),
        )
        for i in range(STEADY_RATE * INTERVAL_S)
    )  # fmt: skip
    await jobs.create(running.url, running.key, steady)
    lead = await jobs.time_to_create(running.url, running.key, size)
    at = books.whole_second(await books.now(connection) + lead + BEFORE) + timedelta(seconds=1)
    expression = f"{at.second} {at.minute} {at.hour} * * *"
    wave = (jobs.body("note_start", name=f"wave-{i}", queue="wave", schedule=expression) for i in range(size))
    await jobs.create(running.url, running.key, wave)
    assert await books.now(connection) < at - BEFORE, "the jobs were not made in time"
    return at


def main() -> None:
    """Run it."""
    harness.run(__doc__, measure)


if __name__ == "__main__":
    main()
