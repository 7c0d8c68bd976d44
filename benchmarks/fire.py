"""Due timers become runs: how many a second on one leader, beside bare SQL in the same run.

1,000,000 jobs are registered, 300,000 of them due at one instant, under 300 schedules in 20 zones (quick: 120,000 and
40,000). Goal: at least 35,000 a second, at least 0.9 of the floor. The median of three rounds each, taken in turns.
"""

from __future__ import annotations

import statistics
import time
from datetime import datetime, timedelta

import asyncpg

from benchmarks import bare, harness, planes

GOAL_RATE, GOAL_RATIO = 35_000, 0.9


async def measure(url: str, given: harness.Options) -> None:
    """Set up, measure in turns, tell."""
    registered, due_now, rounds = (120_000, 40_000, 3) if given.quick else (1_000_000, 300_000, 3)
    connection = await harness.fresh(url)
    now = await harness.past_hour(connection)
    keys = harness.schedules()
    await harness.seed(connection, due_now, now, keys)
    await harness.seed(connection, registered - due_now, now + timedelta(days=2), keys)
    harness.say(given, f"{registered:,} registered, {due_now:,} due at one instant")
    floors, ours = [], []
    for _ in range(rounds):
        await reset(connection, now, due_now)
        fired, took = await bare.fire_rate(url, now)
        assert fired == due_now, fired
        floors.append(fired / took)
        await reset(connection, now, due_now)
        ours.append(due_now / await fire_all(url, due_now))
        rows = await connection.fetchval("SELECT count(*) FROM runs WHERE scheduled_for = $1", now)
        assert rows == due_now, rows
        harness.say(given, f"floor {floors[-1]:,.0f}/s   horarium {ours[-1]:,.0f}/s")
    await connection.close()
    rate, floor = statistics.median(ours), statistics.median(floors)
    ok = rate >= GOAL_RATE and rate >= GOAL_RATIO * floor
    goal = f">= {GOAL_RATE:,}/s and >= {GOAL_RATIO} of the floor"
    harness.tell(harness.Result("fire", rate, "runs/s", floor, rate / floor, goal, ok))


async def reset(connection: asyncpg.Connection, now: datetime, due_now: int) -> None:
    """The timers due again, no runs, no dead rows."""
    await connection.execute("TRUNCATE runs")
    await connection.execute(
        """UPDATE timers SET scheduled_for = $1::timestamptz, due_at = $1::timestamptz, last_scheduled_for = NULL
           WHERE due_at < $1::timestamptz + interval '1 day'""",
        now,
    )
    await harness.settle(connection)
    assert await connection.fetchval("SELECT count(*) FROM timers WHERE due_at = $1", now) == due_now


async def fire_all(url: str, expected: int) -> float:
    """The seconds that the scheduler takes to fire everything that is due."""
    async with planes.leading(url, max_ready=10**7) as led:
        started = time.perf_counter()
        await led.fire(expected)
        return time.perf_counter() - started


def main() -> None:
    """Run it."""
    harness.run(__doc__, measure)


if __name__ == "__main__":
    main()
