"""An old snapshot: another session holds one open, so that no dead row can be taken away. What is left of the throughput?

Interval jobs, made over the API, come in waves that are due within some seconds; each wave is fired (the look-ahead is one
second here), claimed and completed by real processes, and its rate is its size over the time from its first due instant to its
last result. Some waves pass first; then a session opens a snapshot and keeps it while further waves pass. The rate of the last
waves is held against that of the waves before. Verified by the rows: each wave whole, none twice.
Full: waves of 600,000 each minute, 5 before, 30 minutes of snapshot. Quick: waves of 20,000 each 6 s, 2 before, 2 after.
Goal: at least 0.8 of the rate without the snapshot.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from datetime import datetime, timedelta

import asyncpg

from benchmarks import books, harness, jobs, system

GOAL_RATIO = 0.8
OFFERED = 60_000
COUNT = "SELECT count(*) FROM history"


@dataclass(frozen=True, slots=True)
class Form:
    """Waves of `size` runs, one each `period`: so many before, so many under the snapshot, of which the last `counted` count."""

    size: int
    period: timedelta
    before: int
    under: int
    counted: int


QUICK = Form(20_000, timedelta(seconds=6), before=2, under=2, counted=1)
FULL = Form(600_000, timedelta(minutes=1), before=5, under=30, counted=5)


async def measure(url: str, given: harness.Options) -> None:
    """Waves before, waves under the snapshot, the books."""
    form = QUICK if given.quick else FULL
    connection = await harness.fresh(url)
    with system.system(url, lookahead="1s", max_ready="2000000") as running:
        running.start_server()
        running.start_worker("--slots", "1500")
        first = await register(connection, running, form)
        before = [await rate(connection, first + n * form.period, form, given) for n in range(form.before)]
        holder, seen = await hold_snapshot(url)
        waves = range(form.before, form.before + form.under)
        under = [await rate(connection, first + n * form.period, form, given) for n in waves]
        assert await holder.fetchval(COUNT) == seen, "the snapshot was not held"
        await holder.close()
    await connection.close()
    value, least = statistics.median(under[-form.counted :]), statistics.median(before[-form.counted :])
    goal = f">= {GOAL_RATIO} of the rate without"
    harness.tell(
        harness.Result("held_snapshot", value, "runs/s", least, value / least, goal, value >= GOAL_RATIO * least)
    )


async def register(connection: asyncpg.Connection, running: system.System, form: Form) -> datetime:
    """Make the interval jobs; returns when the first wave begins. Many share an instant, as schedules do."""
    first = books.whole_second(await books.now(connection))
    interval = int(form.period.total_seconds())
    bodies = (
        jobs.body(
            "noop", name=f"wave-{i}", interval_s=interval,
            start_at=jobs.instant(first + timedelta(milliseconds=i * 1000 // OFFERED // 10 * 10)),
        )
        for i in range(form.size)
    )  # fmt: skip
    await jobs.create(running.url, running.key, bodies)
    passed = (await books.now(connection) + timedelta(seconds=1) - first) // form.period
    return first + (passed + 1) * form.period


async def rate(connection: asyncpg.Connection, at: datetime, form: Form, given: harness.Options) -> float:
    """The rate of the wave that begins at an instant, once it has passed."""
    until = at + timedelta(seconds=form.size / OFFERED)
    await books.until_finished(connection, at, until, form.size)
    found = await books.window(connection, at, until)
    found.check(form.size)
    assert found.last_finished is not None
    value = form.size / (found.last_finished - at).total_seconds()
    harness.say(given, f"wave of {at:%H:%M:%S}: {value:,.0f}/s")
    return value


async def hold_snapshot(url: str) -> tuple[asyncpg.Connection, int]:
    """A session with an open snapshot, and how many finished runs it sees: as many for as long as it is held."""
    holder = await harness.connect(url)
    await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    return holder, await holder.fetchval(COUNT)


def main() -> None:
    """Run it."""
    harness.run(__doc__, measure)


if __name__ == "__main__":
    main()
