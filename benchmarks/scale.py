"""Flat in size: what a tick, a claim and a result cost when much is registered, waits, or has been.

Four databases: a small one (100,000 jobs registered), and three like it in which one thing is large: 10 M registered, 1 M runs
waiting, 100 M finished runs (quick: 50,000, and 1 M, 50,000 and 200,000). In each the same number of timers, spread over the
whole table so that a page holds one of them at most, is fired, claimed and completed by Horarium's own control plane in this
process; rounds go over the four in turn, medians count. The small one is the floor. Verified after each round by the rows.
The full form needs 60 GB of disk; BENCH_HISTORY gives another number of finished runs.
Goals: 10 M registered at most 1.2 times the cost of 100,000; 1 M waiting at most 1.2; 100 M of history at most 1.1.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import asyncpg
import msgspec

from benchmarks import harness, planes, scale_databases
from benchmarks.scale_databases import Case, Sizes
from horarium.domain.lanes import Wanted
from horarium.domain.outcome import Outcome
from horarium.protocol import messages
from horarium.services.completer import Report

QUICK = Sizes(50_000, 1_000_000, 50_000, 200_000, ticks=1_000, rounds=12)
FULL = Sizes(100_000, 10_000_000, 1_000_000, 100_000_000, ticks=2_000, rounds=25)
STAGES = ("tick", "claim", "result")
PER_REQUEST = 500
WAIT_S = 10.0
ANY_DEFAULT = Wanted((("default", 1.0),))

_leases = msgspec.json.Decoder(messages.Lease)


@dataclass(slots=True)
class Bench:
    """A case with its control plane, and what its rounds took: by stage, µs for each run."""

    case: Case
    connection: asyncpg.Connection
    led: planes.Led
    took: dict[str, list[float]] = field(default_factory=lambda: {stage: [] for stage in STAGES})


async def measure(url: str, given: harness.Options) -> None:
    """Make the databases, go over them in rounds, compare."""
    sizes = QUICK if given.quick else FULL
    sizes = dataclasses.replace(sizes, history=int(os.environ.get("BENCH_HISTORY", sizes.history)))
    async with AsyncExitStack() as stack:
        benches = []
        for case in scale_databases.cases(sizes):
            started = time.perf_counter()
            benches.append(await prepare(stack, await harness.create_database(url, case.name), case, sizes.ticks))
            took = time.perf_counter() - started
            harness.say(given, f"{case.name}: {case.registered:,} jobs, {case.backlog:,} waiting, {case.history:,} finished; "
                               f"made in {took:.0f} s")  # fmt: skip
        for number in range(sizes.rounds + 1):
            for bench in benches:
                await carry_out_round(bench, sizes.ticks, number)
    harness.tell(*compared(benches))


def compared(benches: list[Bench]) -> list[harness.Result]:
    """Each stage of each large case beside the small one; the largest ratio is the headline."""
    small, *large = benches
    results = []
    for bench in large:
        limit = bench.case.limit
        for stage in STAGES:
            value, least = statistics.median(bench.took[stage]), statistics.median(small.took[stage])
            name = f"scale.{bench.case.name}.{stage}"
            results.append(
                harness.Result(name, value, "µs/run", least, value / least, f"<= {limit} x", value <= limit * least)
            )
    worst = max(result.ratio or 0.0 for result in results)
    goal = "registered and backlog <= 1.2 x, history <= 1.1 x"
    return [*results, harness.Result("scale", worst, "x", 1.0, worst, goal, all(result.ok for result in results))]


async def prepare(stack: AsyncExitStack, url: str, case: Case, ticks: int) -> Bench:
    """The database of a case, and a control plane that leads it until the end."""
    connection = await harness.fresh(url)
    stack.push_async_callback(connection.close)
    await scale_databases.fill(connection, case, ticks)
    return Bench(case, connection, await stack.enter_async_context(planes.leading(url)))


async def carry_out_round(bench: Bench, ticks: int, number: int) -> None:
    """Fire, claim, complete, each timed alone. Round 0 only warms up."""
    await make_due(bench, ticks, number)
    begin = time.perf_counter()
    await bench.led.fire(ticks)
    fired = time.perf_counter()
    leases = await claim(bench, ticks)
    claimed = time.perf_counter()
    await complete(bench, leases)
    completed = time.perf_counter()
    ids = {UUID(lease.run_id) for lease in leases}
    kept = await bench.connection.fetchval("SELECT count(*) FROM history WHERE id = ANY($1)", list(ids))
    assert (len(ids), kept) == (ticks, ticks), (len(ids), kept)
    if number:
        for stage, took in zip(STAGES, (fired - begin, claimed - fired, completed - claimed), strict=True):
            bench.took[stage].append(took / ticks * 1e6)


async def make_due(bench: Bench, ticks: int, number: int) -> None:
    """The chosen timers are due again, for a tick of their own in each round.

    Where a checkpoint lies between, this writes their pages in full, before time counts.
    """
    due = await harness.past_hour(bench.connection) + number * timedelta(milliseconds=1)
    status = await bench.connection.execute(
        """UPDATE timers SET scheduled_for = $1, due_at = $1, last_scheduled_for = NULL
           WHERE job_id IN (SELECT job_id FROM chosen)""",
        due,
    )
    assert status == f"UPDATE {ticks}", status
    bench.led.plane.leader.rescan()


async def claim(bench: Bench, ticks: int) -> list[messages.Lease]:
    """Claims as one worker makes them."""
    leases: list[messages.Lease] = []
    while len(leases) < ticks:
        slots = min(PER_REQUEST, ticks - len(leases))
        given = await bench.led.plane.dispatcher.lease("bench", ANY_DEFAULT, slots, WAIT_S)
        assert given, "nothing was handed out"
        leases += map(_leases.decode, given)
    return leases


async def complete(bench: Bench, leases: list[messages.Lease]) -> None:
    """Results as one worker reports them."""
    for start in range(0, len(leases), PER_REQUEST):
        batch = leases[start : start + PER_REQUEST]
        reports = [Report(UUID(lease.run_id), lease.fencing_token, Outcome.SUCCEEDED) for lease in batch]
        taken = await bench.led.plane.completer.report(reports)
        assert len(taken.accepted) == len(batch), taken.lost[:3]


def main() -> None:
    """Run it."""
    harness.run(__doc__, measure)


if __name__ == "__main__":
    main()
