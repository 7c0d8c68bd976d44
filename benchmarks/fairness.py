"""Fair share: how long one tenant's 100,000 waiting runs delay another's first start, and what sharing costs.

A loud tenant's one-offs wait, twice as many as the leader's memory holds (`max_ready`), and behind them some of a quiet tenant;
a worker of all tenants with 50 slots takes them, five milliseconds each. Meanwhile further runs of the quiet tenant come due,
one at a time. For each of its runs the loud runs are counted that were claimed after it was due and before it was (fencing
tokens rise with every claim); fifty are a round. Then as many no-op runs of one tenant and of a hundred tenants
are drained in turns, each by a worker that comes when all of them wait: the ratio of the rates is what sharing costs.
(Quotas and concurrency limits, for whose cost the goal was set, are not in this version.) Verified by the rows: every run ended
once.
Goals: at most one round; at least 0.95 of the rate. Quick: 20,000 waiting.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import asyncpg

from benchmarks import books, harness, jobs, system
from horarium.services.keys import Keys
from horarium.store.database import Database

GOAL_ROUNDS, GOAL_RATE = 1.0, 0.95
SLOTS, TENANTS = 50, 100
PROBE_EVERY = timedelta(milliseconds=150)
LOUD, QUIET, ALL = "loud", "quiet", "*"


async def measure(url: str, given: harness.Options) -> None:
    """Rounds first, then the cost."""
    waiting, probes, drained, turns = (20_000, 10, 8_000, 2) if given.quick else (100_000, 100, 40_000, 5)
    connection = await harness.fresh(url)
    with system.system(url, max_ready=str(waiting // 2)) as running:
        running.start_server()
        keys = await issue(url, [LOUD, QUIET, *(f"tenant-{n}" for n in range(TENANTS))])
        worker_key = running.folder / "worker_key"
        worker_key.write_text((await issue(url, [ALL], "worker"))[ALL])
        rounds = await rounds_waited(connection, running, keys, worker_key, waiting, probes)
        harness.say(given, f"rounds waited: {', '.join(f'{each:.2f}' for each in sorted(rounds))}")
        running.stop_workers()
        sharing = {tenant: key for tenant, key in keys.items() if tenant.startswith("tenant-")}
        rates: dict[int, list[float]] = {1: [], TENANTS: []}
        for turn in range(turns):
            pair = ({LOUD: keys[LOUD]}, sharing)
            for drawing in pair if turn % 2 else reversed(pair):  # whoever goes second finds warmer caches
                rate = await drain_rate(connection, running, drawing, worker_key, drained)
                rates[len(drawing)].append(rate)
                harness.say(given, f"turn {turn + 1}, tenants {len(drawing)}: {rate:,.0f}/s")
    await connection.close()
    tell(max(rounds), statistics.median(rates[TENANTS]), statistics.median(rates[1]))


def tell(waited: float, shared: float, alone: float) -> None:
    """The figures; the rounds are the headline."""
    ratio, goals = shared / alone, (f">= {GOAL_RATE} of one tenant's", f"<= {GOAL_ROUNDS:g} round")
    cost = harness.Result("fairness.shared_rate", shared, "runs/s", alone, ratio, goals[0], ratio >= GOAL_RATE)
    ok = waited <= GOAL_ROUNDS and cost.ok
    harness.tell(cost, harness.Result("fairness", waited, "rounds", goal=" and ".join(reversed(goals)), ok=ok))


async def rounds_waited(
    connection: asyncpg.Connection,
    running: system.System,
    keys: Mapping[str, str],
    worker_key: Path,
    waiting: int,
    probes: int,
) -> list[float]:
    """How many rounds each run of the quiet tenant waited behind the loud one's."""
    behind = probes // 5
    loud = (jobs.body("brief", run_at="now") for _ in range(waiting))
    await jobs.create(running.url, keys[LOUD], loud)
    await jobs.create(running.url, keys[QUIET], (jobs.body("brief", run_at="now") for _ in range(behind)))
    running.start_worker("--slots", str(SLOTS), key_file=worker_key)
    while not await connection.fetchval("SELECT EXISTS (SELECT FROM history)"):
        await books.pause()
    first = await books.now(connection) + timedelta(seconds=1.5)
    due = (jobs.instant(first + number * PROBE_EVERY) for number in range(probes))
    await jobs.create(running.url, keys[QUIET], (jobs.body("brief", run_at=at) for at in due))
    await until_ended(connection, waiting + behind + probes)
    rows = await connection.fetch(
        """SELECT (SELECT count(*) FROM history l WHERE l.tenant_id = $1 AND l.fencing_token < q.fencing_token
                                                    AND l.started_at >= q.ready_at) AS before,
                  (SELECT count(*) FROM history l WHERE l.tenant_id = $1 AND l.started_at > q.started_at) AS after
           FROM history q WHERE q.tenant_id = $2""",
        LOUD,
        QUIET,
    )
    assert all(row["after"] for row in rows), "the loud tenant's runs had ended before"
    return [row["before"] / SLOTS for row in rows]


async def drain_rate(
    connection: asyncpg.Connection, running: system.System, keys: Mapping[str, str], worker_key: Path, count: int
) -> float:
    """Runs a second when so many, spread over some tenants, wait for a worker that comes."""
    ended = await count_ended(connection)
    for key in keys.values():
        await jobs.create(running.url, key, (jobs.body("noop", run_at="now") for _ in range(count // len(keys))))
    running.start_worker("--slots", "500", key_file=worker_key)
    await until_ended(connection, ended + count)
    running.stop_workers()
    took: timedelta = await connection.fetchval(
        "SELECT max(finished_at) - min(started_at) FROM (SELECT * FROM history ORDER BY fencing_token DESC LIMIT $1) AS turn",
        count,
    )
    return count / took.total_seconds()


async def until_ended(connection: asyncpg.Connection, count: int) -> None:
    """Wait until so many runs have ended, each once."""
    while await count_ended(connection) < count:
        await books.pause()
    row = await connection.fetchrow("SELECT count(*) AS rows, count(DISTINCT id) AS ids FROM history")
    assert (row["rows"], row["ids"]) == (count, count), row


async def count_ended(connection: asyncpg.Connection) -> int:
    """How many runs have ended."""
    count: int = await connection.fetchval("SELECT count(*) FROM history")
    return count


async def issue(url: str, tenants: list[str], role: str = "editor") -> dict[str, str]:
    """An API key for each tenant."""
    database = Database(url, pool_size=2)
    await database.open()
    issued = {tenant: await Keys(database).create(tenant, role) for tenant in tenants}
    await database.close()
    return issued


def main() -> None:
    """Run it."""
    harness.run(__doc__, measure)


if __name__ == "__main__":
    main()
