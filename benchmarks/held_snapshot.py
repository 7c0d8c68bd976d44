"""An old snapshot: another session holds one open, so that no dead row can be taken away. What is left of the throughput?

Interval jobs, made over the API, come in waves that are due within some seconds; each wave is fired (the look-ahead is one
second here), claimed and completed by real processes, and its rate is its size over the time from its first due instant to its
last result; the CPU time of all processes for a run is told beside it, as the steadier figure. Some waves pass first; then a
session opens a snapshot and keeps it while further waves pass. The rate of the last waves is held against that of the waves
before. Verified by the rows: each wave whole, none twice.
Full: waves of 600,000 each minute, 6 before, 30 minutes of snapshot. Quick: waves of 15,000 each 5 s, 3 before, 3 under it.
Goal: at least 0.8 of the rate without the snapshot.
"""

from __future__ import annotations

import asyncio
import statistics
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import asyncpg

from benchmarks import books, harness, jobs, system

GOAL_RATIO = 0.8
OFFERED = 60_000
LOOKAHEAD = timedelta(seconds=1)
COUNT = "SELECT count(*) FROM history"


@dataclass(frozen=True, slots=True)
class Form:
    """Waves of `size` runs, one each `period`: so many before, so many under the snapshot, of which the last `counted` count."""

    size: int
    period: timedelta
    before: int
    under: int
    counted: int


class Wave(NamedTuple):
    """How a wave passed: runs a second; CPU time of servers, workers and PostgreSQL for a run."""

    rate: float
    cpu_us: float


QUICK = Form(15_000, timedelta(seconds=5), before=3, under=3, counted=2)
FULL = Form(600_000, timedelta(minutes=1), before=6, under=30, counted=5)


async def measure(url: str, given: harness.Options) -> None:
    """Waves before, waves under the snapshot, the books."""
    form = QUICK if given.quick else FULL
    connection = await harness.fresh(url)
    with system.system(url, lookahead=f"{LOOKAHEAD.seconds}s", max_ready="2000000") as running:
        running.start_server()
        running.start_worker("--slots", "1500")
        first = await register(connection, running, form)
        before = [await wave(connection, running, first + n * form.period, form, given) for n in range(form.before)]
        holder, seen = await hold_snapshot(url)
        first += form.before * form.period
        under = [await wave(connection, running, first + n * form.period, form, given) for n in range(form.under)]
        assert await holder.fetchval(COUNT) == seen, "the snapshot was not held"
        await holder.close()
    await connection.close()
    cost, usual_cost = (statistics.median(each.cpu_us for each in waves[-form.counted :]) for waves in (under, before))
    value, usual = (statistics.median(each.rate for each in waves[-form.counted :]) for waves in (under, before))
    goal = f">= {GOAL_RATIO} of the rate without"
    harness.tell(
        harness.Result("held_snapshot.cpu", cost, "µs/run", usual_cost, cost / usual_cost),
        harness.Result("held_snapshot", value, "runs/s", usual, value / usual, goal, value >= GOAL_RATIO * usual),
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


async def wave(
    connection: asyncpg.Connection, running: system.System, at: datetime, form: Form, given: harness.Options
) -> Wave:
    """The wave that begins at an instant, once it has passed."""
    await asyncio.sleep((at - LOOKAHEAD - await books.now(connection)).total_seconds())
    watched = [*running.pids, *await system.postgres(connection)]
    used = system.cpu_of(watched)
    until = at + timedelta(seconds=form.size / OFFERED)
    await books.until_finished(connection, at, until, form.size)
    used = system.cpu_of(watched) - used
    found = await books.window(connection, at, until)
    found.check(form.size)
    assert found.last_finished is not None
    passed = Wave(form.size / (found.last_finished - at).total_seconds(), used / form.size * 1e6)
    harness.say(given, f"wave of {at:%H:%M:%S}: {passed.rate:,.0f}/s, {passed.cpu_us:.0f} µs CPU a run")
    return passed


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
