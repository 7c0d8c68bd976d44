"""Start lag: when a handler begins, less when it should, at 200 and at 1,200 starts a second.

Interval jobs, made over the API, spread evenly over time, each due every ten seconds; one server, one worker. The lag is
measured inside the handler, by the clock of the machine, which is the database's too. Verified by the rows and by the
handlers' own notes: every tick of the window started, once. The floor is a bare timer of the event loop at the same rate, in
the same run, before: what this machine makes of a sleep.
Goals at both rates: p50 at most 1 ms, p99 at most 5 ms (60 s each; quick: 5 s and 8 s).
"""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta

import asyncpg

from benchmarks import books, harness, jobs, starts, system

INTERVAL_S = 10
RATES = (200, 1_200)
GOAL_P50_MS, GOAL_P99_MS = 1.0, 5.0
SETTLING = timedelta(seconds=2)


async def measure(url: str, given: harness.Options) -> None:
    """The floor, then both rates in turn, then the books."""
    seconds = (5, 8) if given.quick else (60, 60)
    floor = await timer_lags(RATES[-1], 2 if given.quick else 10)
    harness.say(
        given, f"a bare timer: p50 {harness.quantile(floor, 0.5):.3f} ms, p99 {harness.quantile(floor, 0.99):.3f} ms"
    )
    connection = await harness.fresh(url)
    with system.system(url) as running:
        running.start_server()
        running.start_worker("--slots", "500", BENCH_LABEL="all")
        windows = []
        registered = 0
        for rate, length in zip(RATES, seconds, strict=True):
            wanted = rate * INTERVAL_S - registered
            since = await register(connection, running, wanted, f"jobs-{rate}") + SETTLING
            registered += wanted
            window = (since, since + timedelta(seconds=length))
            await books.until_finished(connection, *window, rate * length)
            windows.append(window)
        running.stop_workers()
        results = []
        for rate, length, (since, until) in zip(RATES, seconds, windows, strict=True):
            found = await books.window(connection, since, until)
            found.check(rate * length)
            noted = starts.read(running.folder, "all", since.timestamp(), until.timestamp())
            assert len(noted) == rate * length, (len(noted), rate, length)
            results += told(rate, [start.lag_ms for start in noted], floor)
    await connection.close()
    headline = results[-1]
    ok = all(result.ok for result in results)
    harness.tell(
        *results, harness.Result("start_lag", headline.value, "ms", headline.floor, headline.ratio, goal(0.99), ok)
    )


async def register(connection: asyncpg.Connection, running: system.System, count: int, name: str) -> datetime:
    """Make interval jobs whose ticks lie evenly in time; returns a second from which on all of them come due."""
    first = books.whole_second(await books.now(connection)) + timedelta(seconds=1)
    step = timedelta(seconds=INTERVAL_S) / count
    bodies = (
        jobs.body("note_start", name=f"{name}-{i}", interval_s=INTERVAL_S, start_at=jobs.instant(first + i * step))
        for i in range(count)
    )
    await jobs.create(running.url, running.key, bodies)
    return books.whole_second(await books.now(connection)) + timedelta(seconds=1)


async def timer_lags(rate: int, seconds: int) -> list[float]:
    """By how many milliseconds a bare sleep is late, at the same rate."""
    begin, late = time.time() + 0.1, []
    for i in range(rate * seconds):
        due = begin + i / rate
        await asyncio.sleep(due - time.time())
        late.append((time.time() - due) * 1000)
    return late


def told(rate: int, lags: list[float], floor: list[float]) -> list[harness.Result]:
    """p50 and p99 at one rate."""
    results = []
    for name, part, limit in (("p50", 0.5, GOAL_P50_MS), ("p99", 0.99, GOAL_P99_MS)):
        value, least = harness.quantile(lags, part), harness.quantile(floor, part)
        label = f"start_lag.{rate}.{name}"
        results.append(harness.Result(label, value, "ms", least, value / least, goal(part), value <= limit))
    return results


def goal(part: float) -> str:
    """The goal in words."""
    return f"p50 <= {GOAL_P50_MS} ms" if part == 0.5 else f"p99 <= {GOAL_P99_MS} ms at {RATES[-1]:,}/s"


def main() -> None:
    """Run it."""
    harness.run(__doc__, measure)


if __name__ == "__main__":
    main()
