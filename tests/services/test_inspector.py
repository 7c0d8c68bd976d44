"""Read models: runs merged from live rows and history, their attempts and logs, queues, workers, dead letters."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from horarium import errors
from horarium.domain import ids, job, states
from horarium.services import views
from horarium.services.inspector import Inspector
from horarium.store import audit, inspect, run_logs, workers
from horarium.store.database import Database

ANN = job.Actor("acme", "ann", "viewer")
BOB = job.Actor("other", "bob", "viewer")
JOB = ids.fresh_id(3, datetime(2026, 1, 1, tzinfo=UTC), 1)
ANYTHING = inspect.RunFilter()


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, pool_size=3)
    await database.open()
    async with database.connection() as connection:
        await connection.execute(
            """INSERT INTO jobs (id, shard, tenant_id, name, target, payload, interval_s, retry, timeout_s)
               VALUES ($1, 3, 'acme', 'nightly', '{"handler": "h"}', '{"big": 12345678901234567890}', 60,
                       '{"max_attempts": 7}', 90)""",
            JOB,
        )
    yield database
    await database.close()


@pytest.fixture
def inspector(database: Database) -> Inspector:
    return Inspector(database)


class Rows:
    """Writes runs as the control plane leaves them."""

    def __init__(self, database: Database, now: datetime) -> None:
        self._database = database
        self.now = now

    async def live(self, minutes: float = 0, **columns: Any) -> UUID:
        return await self._insert("runs", minutes, {"state": "waiting", **columns})

    async def final(self, minutes: float = 0, **columns: Any) -> UUID:
        usual = {"state": "succeeded", "attempt": 1, "fencing_token": 1, "trigger": "schedule", "finished_at": self.now}
        return await self._insert("history", minutes, {**usual, **columns})

    async def _insert(self, table: str, minutes: float, columns: dict[str, Any]) -> UUID:
        nominal = self.now + timedelta(minutes=minutes)
        row = {
            "id": ids.tick_run_id(JOB, 3, nominal),
            "job_id": JOB,
            "scheduled_for": nominal,
            "ready_at": nominal,
            "job_version": 1,
            "shard": 3,
            "priority": 5,
            "tenant_id": "acme",
            "queue": "default",
            "target_key": "h",
            **columns,
        }
        places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
        async with self._database.connection() as connection:
            await connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", *row.values())
        run_id: UUID = row["id"]
        return run_id


@pytest.fixture
async def rows(database: Database) -> Rows:
    return Rows(database, await database.now())


def failure(attempt: int, outcome: str = "failed", message: str = "boom") -> dict[str, Any]:
    return {
        "attempt": attempt,
        "worker_id": "w1",
        "started_at": "2026-01-01T00:00:00Z",
        "ended_at": "2026-01-01T00:00:01Z",
        "outcome": outcome,
        "error": {"class": "ValueError", "message": message, "traceback": None},
    }


async def listed(inspector: Inspector, who: job.Actor = ANN, **wanted: Any) -> list[UUID]:
    return [run.id for run in await inspector.runs(who, inspect.RunFilter(**wanted), None, 100)]


async def test_live_and_finished_runs_are_one_list_newest_first(inspector: Inspector, rows: Rows) -> None:
    made = [await rows.final(-3), await rows.live(-2), await rows.final(-1), await rows.live(1)]
    assert await listed(inspector) == made[::-1]


async def test_pages_follow_on_without_gap_or_double(inspector: Inspector, rows: Rows) -> None:
    made = [await (rows.live if minute % 2 else rows.final)(-minute) for minute in range(7)]
    seen: list[UUID] = []
    before = None
    while page := await inspector.runs(ANN, ANYTHING, before, 2):
        seen += [run.id for run in page]
        before = page[-1].id
    assert seen == made


async def test_each_of_the_eight_states_can_be_asked_for(inspector: Inspector, rows: Rows) -> None:
    made = {
        "scheduled": await rows.live(5),
        "queued": await rows.live(-1),
        "running": await rows.live(-2, state="running", attempt=1),
        "failed": await rows.live(6, attempt=1, failures=json.dumps([failure(1)])),
        "succeeded": await rows.final(-3),
        "dead": await rows.final(-4, state="dead"),
        "cancelled": await rows.final(-5, state="cancelled"),
        "skipped": await rows.final(-6, state="skipped"),
    }
    assert set(made) == set(states.RunState)
    for state, run_id in made.items():
        (run,) = await inspector.runs(ANN, inspect.RunFilter(state=state), None, 10)
        assert (run.id, run.state) == (run_id, state)
        assert await inspector.state(ANN, run_id) == state


@pytest.mark.parametrize("attempt", [0, 1])
@pytest.mark.parametrize("minutes", [-5, 5])
@pytest.mark.parametrize("row_state", ["waiting", "running"])
async def test_the_shown_state_is_the_one_of_the_domain(
    inspector: Inspector, rows: Rows, row_state: str, minutes: int, attempt: int
) -> None:
    run_id = await rows.live(minutes, state=row_state, attempt=attempt)
    ready_at = rows.now + timedelta(minutes=minutes)
    assert await inspector.state(ANN, run_id) == states.of_live_run(row_state, ready_at, attempt, rows.now)


async def test_filters(inspector: Inspector, rows: Rows) -> None:
    other_job = ids.fresh_id(3, rows.now, 2)
    waits = await rows.live(
        -1, queue="mail", attempt=2, failures=json.dumps([failure(1), failure(2, message="No Luck")])
    )
    died = await rows.final(-2, state="dead", error="KeyError: 'user'", job_id=other_job)
    old = await rows.final(-60 * 24 * 3, finished_at=rows.now - timedelta(days=3))
    assert await listed(inspector, queue="mail") == [waits]
    assert await listed(inspector, job_id=other_job) == [died]
    assert await listed(inspector, job_id=JOB) == [waits, old]
    assert await listed(inspector, error="no luck") == [waits]
    assert await listed(inspector, error="keyerror") == [died]
    assert await listed(inspector, error="valueerror: no") == [waits]
    assert await listed(inspector, since=rows.now - timedelta(hours=1)) == [waits, died]


async def test_another_tenant_sees_nothing(inspector: Inspector, rows: Rows) -> None:
    live, final = await rows.live(-1), await rows.final(-2)
    assert await listed(inspector, BOB) == []
    for run_id in (live, final):
        with pytest.raises(errors.NotFoundError):
            await inspector.run(BOB, run_id)
        with pytest.raises(errors.NotFoundError):
            await inspector.state(BOB, run_id)


async def test_a_run_shows_what_its_job_says_where_it_says_nothing_itself(inspector: Inspector, rows: Rows) -> None:
    run = await inspector.run(ANN, await rows.live(-1))
    assert (run.job_name, run.max_attempts, run.timeout_s, run.tenant) == ("nightly", 7, 90, "acme")
    assert bytes(run.payload or b"") == b'{"big": 12345678901234567890}'
    assert (run.attempts, run.result, run.progress, run.logs) == ([], None, None, [])


async def test_a_run_shows_its_own_payload_policy_and_timeout(inspector: Inspector, rows: Rows) -> None:
    own = {"payload": "[1.50]", "retry": '{"max_attempts": 2}', "timeout_s": 5, "result": '{"ok": 1e2}'}
    run = await inspector.run(ANN, await rows.final(-1, **own))
    assert (run.max_attempts, run.timeout_s) == (2, 5)
    assert (bytes(run.payload or b""), bytes(run.result or b"")) == (b"[1.50]", b'{"ok": 1e2}')


async def test_attempts_of_a_run_that_goes_on(inspector: Inspector, rows: Rows) -> None:
    columns = {"state": "running", "attempt": 2, "worker_id": "w2", "started_at": rows.now}
    run = await inspector.run(ANN, await rows.live(-1, failures=json.dumps([failure(1, "lost")]), **columns))
    assert [(attempt.attempt, attempt.outcome, attempt.worker_id) for attempt in run.attempts] == [
        (1, "lost", "w1"),
        (2, None, "w2"),
    ]
    assert run.attempts[1].ended_at is None


async def test_attempts_of_a_run_that_succeeded_at_last(inspector: Inspector, rows: Rows) -> None:
    columns = {"attempt": 2, "started_at": rows.now, "failures": json.dumps([failure(1)])}
    run = await inspector.run(ANN, await rows.final(-1, **columns))
    assert [attempt.outcome for attempt in run.attempts] == ["failed", "succeeded"]
    assert run.attempts[1].ended_at == run.finished_at


async def test_attempts_of_a_dead_run_are_its_failures(inspector: Inspector, rows: Rows) -> None:
    columns = {"state": "dead", "attempt": 2, "started_at": rows.now, "error": "ValueError: boom"}
    run = await inspector.run(ANN, await rows.final(-1, failures=json.dumps([failure(1), failure(2)]), **columns))
    assert [attempt.attempt for attempt in run.attempts] == [1, 2]
    assert run.attempts[1].error["message"] == "boom"
    assert run.error == "ValueError: boom"


async def test_the_last_thousand_log_lines_come_with_a_run_and_all_come_in_pages(
    database: Database, inspector: Inspector, rows: Rows
) -> None:
    run_id = await rows.live(-1)
    lines = [
        run_logs.LogRow(
            run_id, 1 + seq // 900, seq, rows.now, "info", f"line {seq}", '{"n": 1.0}' if seq == 5 else None
        )
        for seq in range(1, 1101)
    ]
    async with database.connection() as connection:
        await run_logs.insert(connection, lines)
    run = await inspector.run(ANN, run_id)
    assert [line.seq for line in run.logs] == list(range(101, 1101))
    first = await inspector.logs(run_id, inspect.LogPosition(0, 0), 500)
    assert [line.message for line in first] == [f"line {seq}" for seq in range(1, 501)]
    assert bytes(first[4].fields or b"") == b'{"n": 1.0}'
    rest = await inspector.logs(run_id, inspect.LogPosition(first[-1].attempt, first[-1].seq), 1000)
    assert [line.seq for line in rest] == list(range(501, 1101))


class Memory:
    """What a leader's memory would say."""

    async def queues(self) -> views.QueueStates:
        return views.QueueStates(
            [views.QueueState("mail", "acme", 4, 3, 2, 1.5), views.QueueState("mail", "other", 9, 9, 9, 9.0)]
        )

    async def progress(self, run_id: UUID) -> str | None:
        return '{"fraction": 0.5, "message": "half"}'


async def test_progress_comes_from_memory_while_it_runs_and_from_history_after(database: Database, rows: Rows) -> None:
    inspector = Inspector(database, Memory())
    running = await inspector.run(ANN, await rows.live(-1, state="running"))
    ended = await inspector.run(ANN, await rows.final(-2, progress='{"fraction": 1}'))
    assert msgspec.json.decode(running.progress or b"")["message"] == "half"
    assert msgspec.json.decode(ended.progress or b"") == {"fraction": 1}


async def test_queues_are_counted_where_there_is_no_memory(inspector: Inspector, rows: Rows) -> None:
    await rows.live(5, queue="mail")
    await rows.live(-2, queue="mail")
    await rows.live(-1, queue="mail", state="running")
    await rows.live(-3, queue="other-queue", tenant_id="other")
    (queue,) = await inspector.queues(ANN)
    assert (queue.name, queue.waiting, queue.scheduled, queue.queued, queue.running) == ("mail", 2, 1, 1, 1)
    assert queue.oldest_due_s == pytest.approx(120, abs=30)
    assert (queue.exact, queue.paused, queue.workers) == (True, False, 0)


async def test_depths_of_queues_come_from_memory(database: Database) -> None:
    (queue,) = await Inspector(database, Memory()).queues(ANN)
    assert (queue.waiting, queue.running, queue.oldest_due_s) == (7, 2, 1.5)


async def test_workers_and_recent_runs_make_a_queue_known(database: Database, inspector: Inspector) -> None:
    served = '[{"name": "mail", "weight": 3}, {"name": "idle", "weight": 1}]'
    async with database.connection() as connection:
        await workers.upsert(
            connection, [workers.WorkerRow("w1", "acme", "n1", "1.0", "host", 7, served, '["h"]', 10, 2)]
        )
        await connection.execute(
            "INSERT INTO rollups VALUES (now() - interval '1 hour', 'acme', 'done', 'succeeded', 1, 1, '{}', '{}')"
        )
    found = {queue.name: (queue.workers, queue.slots) for queue in await inspector.queues(ANN)}
    assert found == {"done": (0, 0), "idle": (1, 10), "mail": (1, 10)}
    (worker,) = await inspector.workers(ANN, None, 10)
    assert (worker.id, worker.state, worker.slots, worker.running, worker.pid) == ("w1", "alive", 10, 2, 7)
    assert msgspec.json.decode(worker.handlers or b"") == ["h"]
    assert await inspector.workers(ANN, "w1", 10) == []
    assert await inspector.workers(BOB, None, 10) == []


async def test_a_worker_that_is_not_heard_of_is_silent_and_later_gone(database: Database, inspector: Inspector) -> None:
    row = workers.WorkerRow("w1", "acme", "n1", "1.0", "host", 7, "[]", None, 10, 2)
    async with database.connection() as connection:
        await workers.upsert(connection, [row])
        await connection.execute("UPDATE workers SET last_seen_at = now() - interval '1 minute'")
        assert [worker.state for worker in await inspector.workers(ANN, None, 10)] == ["silent"]
        await connection.execute("UPDATE workers SET last_seen_at = now() - interval '2 hours'")
    assert await inspector.workers(ANN, None, 10) == []


async def dead(database: Database, run_id: UUID, **columns: Any) -> None:
    row = {
        "job_id": JOB,
        "tenant_id": "acme",
        "queue": "mail",
        "fingerprint": "f1",
        "error": "ValueError: 1",
        **columns,
    }
    async with database.connection() as connection:
        await connection.execute(
            "INSERT INTO dead_letters (run_id, shard, attempts, job_id, tenant_id, queue, fingerprint, error) "
            "VALUES ($1, 3, 4, $2, $3, $4, $5, $6)",
            run_id,
            *row.values(),
        )


async def test_dead_letters_are_listed_and_grouped(database: Database, inspector: Inspector, rows: Rows) -> None:
    one, two, three, foreign = [ids.tick_run_id(JOB, 3, rows.now + timedelta(minutes=n)) for n in range(4)]
    await dead(database, one)
    await dead(database, two, error="ValueError: 2")
    await dead(database, three, fingerprint="f2", error="KeyError", queue="bulk")
    await dead(database, foreign, tenant_id="other")

    async def found(**wanted: Any) -> list[UUID]:
        letters = await inspector.dead_letters(ANN, inspect.DeadFilter(**wanted), None, 10)
        return [letter.run_id for letter in letters]

    assert await found() == [three, two, one]
    assert await found(queue="mail") == [two, one]
    assert await found(fingerprint="f2") == [three]
    assert await found(error="valueerror: 2") == [two]
    assert await found(job_id=JOB) == [three, two, one]
    assert await found(since=rows.now + timedelta(hours=1)) == []
    assert [letter.run_id for letter in await inspector.dead_letters(ANN, inspect.DeadFilter(), two, 10)] == [one]
    groups = await inspector.dead_letter_groups(ANN, inspect.DeadFilter(), 10)
    assert [(group.fingerprint, group.count, group.job_name) for group in groups] == [
        ("f1", 2, "nightly"),
        ("f2", 1, "nightly"),
    ]


async def test_a_job_is_found_by_id_or_by_name_within_the_tenant(inspector: Inspector) -> None:
    assert await inspector.job_id(ANN, JOB) == await inspector.job_id(ANN, "nightly") == JOB
    for who, ref in ((ANN, "weekly"), (ANN, UUID(int=1)), (BOB, JOB), (BOB, "nightly")):
        with pytest.raises(errors.NotFoundError):
            await inspector.job_id(who, ref)


async def test_the_audit_of_the_tenant_is_listed(database: Database, inspector: Inspector) -> None:
    async with database.connection() as connection:
        await audit.record(connection, ANN, "pause", "job", "j1")
    assert [entry.action for entry in await inspector.audit(ANN, audit.Filter(), [], 10)] == ["pause"]
    assert await inspector.audit(BOB, audit.Filter(), [], 10) == []


async def test_a_list_that_takes_too_long_is_given_up(
    database: Database, inspector: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("horarium.services.inspector.LIST_TIME", timedelta(milliseconds=50))
    async with database.connection() as connection:
        lock = connection.transaction()
        await lock.start()
        await connection.execute("LOCK TABLE history IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(errors.TooBroadError, match="narrow the filter"):
            await inspector.runs(ANN, ANYTHING, None, 10)
        await lock.rollback()
    assert await inspector.runs(ANN, ANYTHING, None, 10) == []


@pytest.mark.parametrize("run_id", [UUID(int=0), UUID(int=2**128 - 1), UUID("edf8d93d-d182-566e-8dc2-b7e8f93e9a10")])
async def test_an_id_that_is_none_of_ours_is_not_found(inspector: Inspector, run_id: UUID) -> None:
    with pytest.raises(errors.NotFoundError):
        await inspector.run(ANN, run_id)


async def test_a_time_before_all_time_filters_nothing(inspector: Inspector, rows: Rows) -> None:
    run_id = await rows.final(-1)
    assert await listed(inspector, since=datetime(1970, 1, 1, tzinfo=UTC)) == [run_id]
