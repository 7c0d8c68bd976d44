"""Memory: a server with 200,000 ready runs, and a worker, before and after it has worked.

One-offs that are to run now, made over the API, wait with no worker there; then a worker takes some of them. Resident memory
as the kernel counts it. Verified by the rows: so many wait, so many have run.
Goals: the server at most 300 MB with 200,000 ready, the worker at most 60 MB. (Quick: 50,000 ready.)
"""

from __future__ import annotations

from benchmarks import books, harness, jobs, system

GOAL_SERVER_MB, GOAL_WORKER_MB = 300.0, 60.0
TAKEN = 10_000


async def measure(url: str, given: harness.Options) -> None:
    """The empty server, the full one, the worker."""
    ready = 50_000 if given.quick else 200_000
    connection = await harness.fresh(url)
    with system.system(url) as running:
        running.start_server()
        server = running.servers[0].pid
        empty = system.memory_mb(server)
        await jobs.create(running.url, running.key, (jobs.body("noop", run_at="now") for _ in range(ready)))
        assert await connection.fetchval("SELECT count(*) FROM runs WHERE state = 'waiting'") == ready
        full = system.memory_mb(server)
        running.start_worker("--slots", "500")
        while await connection.fetchval("SELECT count(*) FROM history") < TAKEN:
            await books.pause()
        worker = system.memory_mb(running.workers[0].pid)
    await connection.close()
    goals = f"<= {GOAL_WORKER_MB:g} MB", f"server <= {GOAL_SERVER_MB:g} MB with {ready:,} ready"
    of_worker = harness.Result("memory.worker", worker, "MB", goal=goals[0], ok=worker <= GOAL_WORKER_MB)
    ok = full <= GOAL_SERVER_MB and of_worker.ok
    harness.tell(of_worker, harness.Result("memory", full, "MB", empty, full / empty, goals[1], ok))


def main() -> None:
    """Run it."""
    harness.run(__doc__, measure)


if __name__ == "__main__":
    main()
