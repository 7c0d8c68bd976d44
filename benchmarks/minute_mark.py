"""The minute mark: many cron schedules due at one instant. How late does the last of them start, and is any missed or doubled?

1,000 schedules of one minute, then 10,000, made over the API; two server processes on one database, two workers, each of
which asks the server of its own number first. How the servers share the work is theirs to decide: one that leads no shard
hands out nothing. The quick form has marks every twelve seconds and takes one of each kind; the full form three minutes.
Start lag is measured inside the handlers. Verified by the rows and by the handlers' notes: each schedule ran once at each mark.
The floor is the time that bare SQL needs to claim and complete as many prepared runs.
Goals: p99 at most 100 ms with 1,000 schedules and at most 1 s with 10,000; none missed, none doubled.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import asyncpg

from benchmarks import bare, books, harness, jobs, starts, system

SIZES = ((1_000, 100.0), (10_000, 1_000.0))
SERVERS = 2
# The look-ahead is ten seconds, so twelve leave each schedule one tick ahead, as a minute does.
QUICK, FULL = ("*/12 * * * * *", timedelta(seconds=12)), ("* * * * *", timedelta(minutes=1))
MARKS, QUICK_MARKS = 3, 1
LEAD = timedelta(seconds=3)
WARM_UP = 200


async def measure(url: str, given: harness.Options) -> None:
    """The floor, then both sizes in turn, then the books."""
    expression, period = QUICK if given.quick else FULL
    count = QUICK_MARKS if given.quick else MARKS
    floors = [1000 * await bare.drain_s(url, size) for size, _ in SIZES]
    connection = await harness.fresh(url)
    marks: list[list[datetime]] = []
    with system.system(url) as running:
        for _ in range(SERVERS):
            running.start_server()
        for number in range(SERVERS):
            running.start_worker("--slots", "500", BENCH_LABEL="all", first=number)
        await warm_up(connection, running)
        registered = 0
        for size, _ in SIZES:
            bodies = (jobs.body("note_start", name=f"every-{i}", schedule=expression) for i in range(registered, size))
            await jobs.create(running.url, running.key, bodies)
            registered = size
            marks.append(await next_marks(connection, period, count))
            harness.say(given, f"{size:,} schedules, marks {', '.join(f'{mark:%H:%M:%S}' for mark in marks[-1])}")
            await books.until_finished(connection, marks[-1][-1], marks[-1][-1] + books.MOMENT, size)
        running.stop_workers()
        results = [
            await result(connection, running, size, limit_ms, of_size, floor)
            for (size, limit_ms), of_size, floor in zip(SIZES, marks, floors, strict=True)
        ]
    await connection.close()
    first, ok = results[0], all(one.ok for one in results)
    harness.tell(*results, harness.Result("minute_mark", first.value, "ms", first.floor, first.ratio, first.goal, ok))


async def result(
    connection: asyncpg.Connection,
    running: system.System,
    size: int,
    limit_ms: float,
    marks: list[datetime],
    floor: float,
) -> harness.Result:
    """p99 of all marks of one size, after a look into the books of each."""
    lags: list[float] = []
    for mark in marks:
        found = await books.window(connection, mark, mark + books.MOMENT)
        found.check(size)
        assert found.jobs == size, found
        noted = starts.read(running.folder, "all", mark.timestamp(), (mark + books.MOMENT).timestamp())
        assert len(noted) == size, (len(noted), size)
        lags += [start.lag_ms for start in noted]
    p99 = harness.quantile(lags, 0.99)
    return harness.Result(
        f"minute_mark.{size}", p99, "ms", floor, p99 / floor, f"p99 <= {limit_ms:g} ms at {size:,}", p99 <= limit_ms
    )


async def next_marks(connection: asyncpg.Connection, period: timedelta, count: int) -> list[datetime]:
    """The next instants at which all schedules are due, not nearer than the jobs need to become known."""
    now = await books.now(connection) + LEAD
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    first = midnight + ((now - midnight) // period + 1) * period
    return [first + number * period for number in range(count)]


async def warm_up(connection: asyncpg.Connection, running: system.System) -> None:
    """Some runs first: what is measured is not a process's first run."""
    await jobs.create(running.url, running.key, (jobs.body("noop", run_at="now") for _ in range(WARM_UP)))
    while await connection.fetchval("SELECT count(*) FROM history") < WARM_UP:
        await books.pause()


def main() -> None:
    """Run it."""
    harness.run(__doc__, measure)


if __name__ == "__main__":
    main()
