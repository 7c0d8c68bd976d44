"""A fleet: 1,500 workers with 30,000 slots on one node. What it costs while nothing runs, and that it works.

The workers are connections of this process that speak the worker's protocol: each long-polls with 20 slots, 30 s at a time, and
reports what it gets. For a while nothing is due: the CPU time of the server and of all of PostgreSQL counts, and the server's
connections to the database. Then 30,000 one-offs come due at one instant, one for each slot. Verified by the rows: each ran
once; and each answer that came too late, or was refused, is a fault.
Goals: at most 40 connections to the database; at most 10 % of one core while idle. (Full: 90 s of idling; quick: 10 s.)
"""

from __future__ import annotations

import asyncio
import resource
import time
from datetime import timedelta

import asyncpg
import msgspec

from benchmarks import books, harness, jobs, system, wire
from horarium.protocol import messages

WORKERS, SLOTS, POLL_S = 1_500, 20, 30.0
GOAL_CONNECTIONS, GOAL_CPU = 40, 10.0
OPEN_FILES = 8_192
SETTLING_S = 2.0

_responses = msgspec.json.Decoder(messages.LeaseResponse)
_reports = msgspec.json.Decoder(messages.ReportResponse)


class SimulatedWorker:
    """One worker without handlers: whatever it is given has succeeded at once."""

    def __init__(self, number: int, key: str) -> None:
        self._info = messages.WorkerInfo(f"simulated-{number}")
        self._key = key
        # The first poll is of another length for each, so that the fleet does not ask in one voice for ever.
        self._wait_s = POLL_S * (number + 1) / WORKERS

    async def work(self, url: str) -> None:
        """Ask and report until cancelled."""
        connection = await wire.Connection.open(url)
        try:
            while True:
                response = await self._ask(connection)
                if response.leases:
                    await self._report(connection, response.leases)
        finally:
            connection.close()

    async def _ask(self, connection: wire.Connection) -> messages.LeaseResponse:
        request = messages.LeaseRequest(
            self._info, [messages.QueueWeight("default")], SLOTS, self._wait_s, handlers=["noop"]
        )
        self._wait_s = POLL_S
        answer = await connection.ask(wire.request("POST", messages.LEASE_PATH, self._key, messages.encode(request)))
        assert answer.status == 200, answer
        return _responses.decode(answer.body)

    async def _report(self, connection: wire.Connection, leases: list[messages.Lease]) -> None:
        results = [messages.Result(lease.run_id, lease.fencing_token, "succeeded") for lease in leases]
        body = messages.encode(messages.ReportRequest(self._info, results))
        answer = await connection.ask(wire.request("POST", messages.REPORT_PATH, self._key, body))
        assert answer.status == 200, answer
        taken = _reports.decode(answer.body)
        assert len(taken.accepted) == len(leases), taken


async def measure(url: str, given: harness.Options) -> None:
    """Connect all, idle, then one run for each slot."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES if most < 0 else min(OPEN_FILES, most), most))
    idle_s, count = (10 if given.quick else 90), WORKERS * SLOTS
    connection = await harness.fresh(url)
    with system.system(url) as running:
        running.start_server()
        key = running.key
        async with asyncio.TaskGroup() as fleet:
            tasks = [fleet.create_task(SimulatedWorker(number, key).work(running.url)) for number in range(WORKERS)]
            await asyncio.sleep(SETTLING_S)
            cpu = await idle_cpu(connection, running, idle_s)
            connections = await connections_of_server(connection)
            harness.say(given, f"idle: {cpu:.1f} % of a core, {connections} connections to the database")
            rate, workers = await run_on_every_slot(connection, running, count)
            harness.say(given, f"{count:,} runs at one instant: {rate:,.0f}/s by {workers:,} workers")
            memory = system.memory_mb(running.servers[0].pid)
            for task in tasks:
                task.cancel()
    await connection.close()
    few = connections <= GOAL_CONNECTIONS
    harness.tell(
        harness.Result("fleet.rate", rate, "runs/s"),
        harness.Result("fleet.server_memory", memory, "MB"),
        harness.Result("fleet.connections", connections, "connections", goal=f"<= {GOAL_CONNECTIONS}", ok=few),
        harness.Result("fleet", cpu, "% of a core", goal=f"<= {GOAL_CPU:g} % idle", ok=few and cpu <= GOAL_CPU),
    )


async def idle_cpu(connection: asyncpg.Connection, running: system.System, seconds: float) -> float:
    """CPU time of the server and of PostgreSQL for a while, in percent of one core."""
    watched = [*running.pids, *await system.postgres(connection)]
    used, began = system.cpu_of(watched), time.perf_counter()
    await asyncio.sleep(seconds)
    return 100 * (system.cpu_of(watched) - used) / (time.perf_counter() - began)


async def connections_of_server(connection: asyncpg.Connection) -> int:
    """How many connections the server holds."""
    count: int = await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'horarium' AND datname = current_database()"
    )
    return count


async def run_on_every_slot(connection: asyncpg.Connection, running: system.System, count: int) -> tuple[float, int]:
    """One-offs that come due at one instant; returns their rate and how many workers took part."""
    lead = await jobs.time_to_create(running.url, running.key, count)
    due = books.whole_second(await books.now(connection) + lead) + timedelta(seconds=1)
    await jobs.create(running.url, running.key, (jobs.body("noop", run_at=jobs.instant(due)) for _ in range(count)))
    assert await books.now(connection) < due, "the jobs were not made in time"
    await books.until_finished(connection, due, due + books.MOMENT, count)
    found = await books.window(connection, due, due + books.MOMENT)
    found.check(count)
    assert found.last_finished is not None
    workers: int = await connection.fetchval("SELECT count(DISTINCT worker_id) FROM history")
    return count / (found.last_finished - due).total_seconds(), workers


def main() -> None:
    """Run it."""
    harness.run(__doc__, measure)


if __name__ == "__main__":
    main()
