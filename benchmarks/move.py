"""A shard moves to another database while it works: how long do its jobs pause?

Two databases of one cluster, two shards, a real server and worker. One shard holds as many registered jobs as are asked for, and
some that are due every second. `horarium shards move` takes it to the other database; the figure is the longest that a run of
those jobs started after it was ready, which has everything in it: the copy, the pause, and the new leader's take-over. The floor
is a COPY of the shard's jobs and timers from database to database, with the indexes they have there: what a pause would take in
which all of it is copied. Verified by the rows: each second has its run, none has two.
Full: 1,000,000 jobs in the shard. Quick: 50,000.
Goal: at most 10 s.
"""

from __future__ import annotations

import asyncio
import os
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator

import asyncpg

from benchmarks import books, harness, jobs, system
from horarium.store import moving

GOAL_S = 10.0
SHARD, TICKING = 0, 40
TICKS = """
SELECT sum(runs) AS runs, sum(ticks) AS ticks, sum(seconds) AS seconds, max(longest) AS longest
FROM (SELECT count(*) AS runs, count(DISTINCT scheduled_for) AS ticks, max(started_at - ready_at) AS longest,
             extract(epoch FROM max(scheduled_for) - min(scheduled_for))::integer + 1 AS seconds
      FROM history WHERE job_id = ANY($1) AND scheduled_for < now() - interval '3 seconds' GROUP BY job_id) AS each
"""
TICKED = "SELECT min(ended) FROM (SELECT count(*) AS ended FROM history WHERE job_id = ANY($1) GROUP BY job_id) AS each"


async def measure(url: str, given: harness.Options) -> None:
    """The floor, the move, the books."""
    count = 50_000 if given.quick else 1_000_000
    urls = [await harness.create_database(url, name) for name in ("a", "b", "floor")]
    addresses = ",".join(f"{name}={each}" for name, each in zip("ab", urls, strict=False))
    environment = {**os.environ, "HORARIUM_DATABASE_URL": addresses, "HORARIUM_SHARDS": "2"}
    async for _ in called(environment, "db", "init"):
        pass
    source, target = [await harness.connect(each) for each in urls[:2]]
    later = await source.fetchval("SELECT date_trunc('hour', now()) + interval '2 days'")
    await harness.seed(source, count, later, harness.schedules(), shards=1)
    await harness.settle(source)
    floor = await copy_seconds(source, urls[2])
    harness.say(given, f"COPY of {count:,} jobs and their timers: {floor:.1f} s")
    with system.system(addresses) as running:
        running.start_server()
        running.start_worker("--slots", "100")
        ticking = await register(source, running)
        await ticked(source, ticking, 5)
        pause = await move(environment, given)
        await ticked(target, ticking, 5 + await target.fetchval(TICKED, ticking))
        found = await target.fetchrow(TICKS, ticking)
    assert found["runs"] == found["ticks"] == found["seconds"], dict(found)
    longest = found["longest"].total_seconds()
    for connection in (source, target):
        await connection.close()
    harness.tell(
        harness.Result("move.pause", pause, "s", floor, pause / floor),
        harness.Result("move", longest, "s", floor, longest / floor, f"<= {GOAL_S:g} s late", longest <= GOAL_S),
    )


async def copy_seconds(source: asyncpg.Connection, url: str) -> float:
    """How long the shard's jobs and timers take from one database to another."""
    target = await harness.fresh(url)
    began = time.perf_counter()
    async with target.transaction():
        for table in ("jobs", "timers"):
            await moving.copy(source, target, moving.LIVE[table].read, table, SHARD, None)
    took = time.perf_counter() - began
    await target.close()
    return took


async def register(source: asyncpg.Connection, running: system.System) -> list[str]:
    """Jobs that are due every second, of which some are in the shard; returns the ids of those."""
    bodies = (jobs.body("noop", name=f"tick-{n}", schedule="* * * * * *") for n in range(2 * TICKING))
    await jobs.create(running.url, running.key, bodies)
    found = await source.fetch("SELECT id FROM jobs WHERE schedule = '* * * * * *' AND shard = $1", SHARD)
    return [row["id"] for row in found]


async def ticked(connection: asyncpg.Connection, ticking: list[str], times: int) -> None:
    """Wait until each of the jobs has run so often."""
    while (await connection.fetchval(TICKED, ticking) or 0) < times:
        await books.pause()


async def move(environment: dict[str, str], given: harness.Options) -> float:
    """Move the shard; returns the seconds between the steps `pause` and `clear`."""
    at: dict[str, float] = {}
    async for step in called(environment, "shards", "move", str(SHARD), "--to", "b"):
        at.setdefault(step.partition(":")[0], time.perf_counter())
        harness.say(given, f"{time.perf_counter() - next(iter(at.values())):6.1f} s  {step}")
    return at["clear"] - at["pause"]


async def called(environment: dict[str, str], *arguments: str) -> AsyncIterator[str]:
    """Call the CLI; gives the lines that it tells on the way."""
    command = harness.python("-m", "horarium", *arguments)
    child = await asyncio.create_subprocess_exec(*command, env=environment, stdout=DEVNULL, stderr=PIPE)
    assert child.stderr is not None
    async for line in child.stderr:
        yield line.decode().strip()
    assert await child.wait() == 0, arguments


def main() -> None:
    """Run it."""
    harness.run(__doc__, measure)


if __name__ == "__main__":
    main()
