"""Whole lives of runs, with all duties of a node at work, on a real database and in real time."""

from __future__ import annotations

import asyncio
import collections
import itertools
import json
from datetime import datetime, timedelta
from typing import Any

from horarium.domain import schedule
from horarium.domain.outcome import Outcome
from horarium.domain.overlap import Overlap
from horarium.events import Name
from horarium.store import runs, timers
from tests.builders import Job, insert_job
from tests.lives.planes import Attempt, RunningNode, Worker, ask, ask_one, node

SECOND = timedelta(seconds=1)


async def enqueue(here: RunningNode, payload: str = "{}") -> str:
    """A one-off from SQL; the scheduler is woken as by a poke."""
    job_id = await here.fetchval("SELECT enqueue('work', $1::json)", payload)
    here.plane.leader.rescan()
    return str(job_id)


async def each_second(here: RunningNode, first: datetime, *, shard: int = 3, **members: Any) -> Job:
    """A job that fires each second from `first` on."""
    async with here.database.transaction() as connection:
        made = await insert_job(connection, schedule.Every(SECOND, first), shard=shard, **members)
        await timers.upsert(connection, [made.timer(first)])
    here.plane.leader.timers_changed([(shard, first)])
    return made


async def next_second(here: RunningNode) -> datetime:
    return (await here.database.now()).replace(microsecond=0) + SECOND


async def succeed(attempt: Attempt) -> Outcome:
    return Outcome.SUCCEEDED


async def books(here: RunningNode) -> dict[Any, tuple[datetime, collections.Counter[datetime]]]:
    """Of each job the time that its timer stands for, and how often each nominal time is a live run, an ended one or a skip.

    In one statement: the scheduler goes on meanwhile.
    """
    query = """
        SELECT t.job_id, t.scheduled_for AS following, made.scheduled_for
        FROM timers t JOIN (
            SELECT job_id, scheduled_for FROM runs UNION ALL SELECT job_id, scheduled_for FROM history
            UNION ALL SELECT job_id, first + n * interval '1 second' FROM skips, generate_series(0, count - 1) AS n
        ) AS made USING (job_id)
    """
    found: dict[Any, tuple[datetime, collections.Counter[datetime]]] = {}
    for job_id, following, nominal in await here.fetch(query):
        found.setdefault(job_id, (following, collections.Counter()))[1][nominal] += 1
    return found


async def assert_balanced(here: RunningNode, jobs: list[Job], first: datetime) -> None:
    """Every nominal time from the first one to the timer's is there exactly once."""
    found = await books(here)
    for job_id, (following, nominal) in found.items():
        count = (following - first) // SECOND
        assert nominal == collections.Counter(first + n * SECOND for n in range(count)), job_id
    assert len(found) == len(jobs)


async def test_a_run_lives_from_sql_to_history(emptied_url: str) -> None:
    async with node(emptied_url) as here:
        job_id = await enqueue(here, '{"a": 1}')
        attempt = await ask_one(here.plane)
        assert (attempt.lease["job_id"], attempt.lease["payload"]) == (job_id, {"a": 1})
        assert (await attempt.report(result='{"b": 2}')).accepted == [attempt.run_id]
        assert (await attempt.report(result='{"b": 2}')).accepted == [attempt.run_id]
        (row,) = await here.fetch("SELECT * FROM history")
        assert (row["state"], row["attempt"], row["result"]) == ("succeeded", 1, '{"b": 2}')
        assert row["scheduled_for"] <= row["started_at"] <= row["finished_at"]
        assert (
            await here.fetchval("SELECT count(*) FROM runs") == await here.fetchval("SELECT count(*) FROM timers") == 0
        )
    assert [event.name for event in here.told.events][:4] == [
        Name.SHARDS_TAKEN,
        Name.RUNS_FIRED,
        Name.RUNS_CLAIMED,
        Name.RUNS_SUCCEEDED,
    ]
    assert list(here.told.named(Name.DUTY_FAILED)) == []
    assert list(here.told.named(Name.SWEEP_FOUND)) == []


async def test_ticks_start_at_their_instants(emptied_url: str) -> None:
    """Never before, and the books balance afterwards."""
    async with node(emptied_url) as here:
        first = await next_second(here) + SECOND
        made = await each_second(here, first)
        worker = Worker(here.plane, succeed)
        async with worker.at_work():
            await here.told.wait_for(Name.RUNS_SUCCEEDED, count=3)
        rows = await here.fetch("SELECT scheduled_for, started_at FROM history ORDER BY id")
        assert [row["scheduled_for"] for row in rows[:3]] == [first + n * SECOND for n in range(3)]
        assert all(row["started_at"] >= row["scheduled_for"] for row in rows)
        await assert_balanced(here, [made], first)


async def test_a_failure_is_tried_again_until_it_is_dead(emptied_url: str) -> None:
    async with node(emptied_url) as here:
        async with here.database.connection() as connection:
            made = await insert_job(
                connection, schedule.Once(await here.database.now()), retry={"max_attempts": 3, "base_s": 0.05}
            )
            row = made.by_hand(await here.database.now())
            await runs.insert(connection, [row])
        here.plane.leader.runs_added([row])

        async def fail(attempt: Attempt) -> Outcome:
            return Outcome.FAILED

        worker = Worker(here.plane, fail)
        async with worker.at_work():
            await here.told.wait_for(Name.RUNS_DEAD)
        assert [attempt.number for attempt in worker.started] == [1, 2, 3]
        tokens = [attempt.token for attempt in worker.started]
        assert tokens == sorted(set(tokens))
        (ended,) = await here.fetch("SELECT * FROM history")
        assert ended["state"] == "dead"
        assert [failure["attempt"] for failure in json.loads(ended["failures"])] == [1, 2, 3]
        assert await here.fetchval("SELECT count(*) FROM dead_letters") == 1


async def test_a_worker_that_dies_is_replaced_and_refused(emptied_url: str) -> None:
    async with node(emptied_url) as here:
        await enqueue(here)
        lost = await ask_one(here.plane, "dies")
        await here.told.wait_for(Name.LEASES_LAPSED)
        again = await ask_one(here.plane, "lives")
        assert (again.run_id, again.number) == (lost.run_id, 2)
        assert again.token > lost.token
        assert (await lost.report()).lost == [lost.run_id]
        assert (await again.report()).accepted == [again.run_id]
        assert (await lost.report()).lost == [lost.run_id]
        (row,) = await here.fetch("SELECT state, worker_id FROM history")
        assert tuple(row) == ("succeeded", "lives")


async def test_a_run_is_cancelled_while_it_runs(emptied_url: str) -> None:
    async with node(emptied_url) as here:
        await enqueue(here)
        attempt = await ask_one(here.plane)
        async with here.database.connection() as connection:
            here.plane.leader.cancel_requested(await runs.request_cancel(connection, [attempt.run_id], "ann"))
        leader = here.plane.leader
        heard = leader.ready.leases.heartbeat(
            "w1", [(attempt.run_id, attempt.token)], leader.clock.monotonic(), leader.knows
        )
        assert heard.cancel == [attempt.run_id]
        await attempt.report(Outcome.FAILED)
        assert await here.fetchval("SELECT state FROM history") == "cancelled"


async def test_ticks_that_overlap_are_written_down(emptied_url: str) -> None:
    async with node(emptied_url) as here:
        first = await next_second(here)
        made = await each_second(here, first, overlap=Overlap.SKIP)
        go_on = asyncio.Event()

        async def slow(attempt: Attempt) -> Outcome:
            await go_on.wait()
            return Outcome.SUCCEEDED

        async with Worker(here.plane, slow).at_work():
            await here.told.wait_for(Name.TICKS_SKIPPED, count=2)
            go_on.set()
            await here.told.wait_for(Name.RUNS_SUCCEEDED, count=2)
        assert {row["reason"] for row in await here.fetch("SELECT reason FROM skips")} == {"overlap"}
        await assert_balanced(here, [made], first)


async def test_a_take_over_goes_on_with_what_runs(emptied_url: str) -> None:
    """The node dies with a run at a worker and one in back-off; the next node takes both up, and fires on."""
    async with node(emptied_url, "first") as first:
        await enqueue(first)
        running = await ask_one(first.plane)
        await enqueue(first)
        failed = await ask_one(first.plane)
        await failed.report(Outcome.FAILED, retry_in=timedelta(milliseconds=10))
        await first.die()
        async with node(emptied_url, "second") as second:
            leader = second.plane.leader
            assert set(leader.terms.values()) == {2}
            assert leader.ready.leases.get(running.run_id) is not None
            heard = leader.ready.leases.heartbeat(
                "w1", [(running.run_id, running.token)], leader.clock.monotonic(), leader.knows
            )
            assert (heard.lost, heard.cancel) == ([], [])
            running.plane = second.plane
            assert (await running.report()).accepted == [running.run_id]
            again = await ask_one(second.plane)
            assert (again.run_id, again.number) == (failed.run_id, 2)
            await again.report()
            await first.plane.scheduler.run_once()
            assert await second.fetchval("SELECT count(*) FROM history WHERE state = 'succeeded'") == 2


async def test_an_orderly_stop_hands_over_at_once(emptied_url: str) -> None:
    async with node(emptied_url, "first") as first:
        await enqueue(first)
        attempt = await ask_one(first.plane)
        waiting = asyncio.create_task(ask(first.plane, "idle"))
        await asyncio.sleep(0)
    assert await waiting == []
    async with node(emptied_url, "second") as second:
        assert len(second.plane.leader.terms) == 16
        attempt.plane = second.plane
        assert (await attempt.report()).accepted == [attempt.run_id]
        assert await second.fetchval("SELECT count(*) FROM dead_letters") == 0
        assert await second.fetchval("SELECT attempt FROM history") == 1


async def test_connections_that_are_cut_cost_nothing_that_was_acknowledged(emptied_url: str) -> None:
    async with node(emptied_url) as here:
        first = await next_second(here)
        made = [await each_second(here, first, shard=shard) for shard in range(4)]
        async with Worker(here.plane, succeed).at_work():
            await here.told.wait_for(Name.RUNS_SUCCEEDED, count=4)
        for _ in range(3):
            async with Worker(here.plane, succeed).at_work():
                before = here.told.total(Name.RUNS_SUCCEEDED)
                await here.fetch(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
                await here.told.wait_for(Name.RUNS_SUCCEEDED, count=before + 4)
        told = here.told.total(Name.RUNS_SUCCEEDED)
        assert await here.fetchval("SELECT count(*) FROM history WHERE state = 'succeeded'") >= told
        await assert_balanced(here, made, first)


async def test_the_books_balance_whatever_workers_do(emptied_url: str) -> None:
    """Workers succeed, fail, give back and forget; each nominal time still ends once, under rising tokens."""
    ways = itertools.cycle([Outcome.SUCCEEDED, Outcome.FAILED, None, Outcome.INTERRUPTED, Outcome.SUCCEEDED])

    async def moody(attempt: Attempt) -> Outcome | None:
        return next(ways)

    async with node(emptied_url) as here:
        first = await next_second(here)
        retry = {"max_attempts": 50, "base_s": 0.01}
        made = [await each_second(here, first, shard=shard, retry=retry) for shard in range(16)]
        workers = [Worker(here.plane, moody, f"w{n}") for n in range(3)]
        async with workers[0].at_work(), workers[1].at_work(), workers[2].at_work():
            await here.told.wait_for(Name.RUNS_SUCCEEDED, count=32)
        async with Worker(here.plane, succeed, "last").at_work():
            await here.told.wait_for(Name.RUNS_SUCCEEDED, count=80)
        await assert_balanced(here, made, first)
        attempts = collections.defaultdict(list)
        for attempt in (attempt for worker in workers for attempt in worker.started):
            attempts[attempt.run_id].append(attempt.token)
        assert all(len(tokens) == len(set(tokens)) for tokens in attempts.values())
        assert (
            await here.fetchval("SELECT count(*) FROM (SELECT id FROM history GROUP BY id HAVING count(*) > 1) AS t")
            == 0
        )
        assert list(here.told.named(Name.DUTY_FAILED)) == []
