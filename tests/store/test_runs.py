"""Rows of `runs`: made once, claimed once, and ended only under the token of the attempt."""

from __future__ import annotations

import asyncio
import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from horarium.domain import ids
from horarium.store import runs
from horarium.store.runs import Claimed, Finish, Held, RunRow, WaitAgain
from horarium.store.timers import Terms
from tests import builders
from tests.builders import SHARD, Job

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LEASE = timedelta(seconds=15)


@pytest.fixture
async def job(connection: asyncpg.Connection) -> Job:
    """A job without runs."""
    return await builders.insert_job(connection, builders.once(AT), payload='{"of": "job"}', timeout_s=77)


async def make(connection: asyncpg.Connection, job: Job, count: int = 1, **own: Any) -> list[RunRow]:
    """Waiting runs that were asked for by hand."""
    rows = [job.by_hand(AT, **own) for _ in range(count)]
    await runs.insert(connection, rows)
    return rows


async def claim(connection: asyncpg.Connection, terms: Terms, *ids: UUID, worker: str = "w1") -> list[Held]:
    """Claim runs for one worker."""
    return [Held(*row[:2]) for row in await runs.claim(connection, ids, [worker] * len(ids), LEASE, terms)]


async def started(connection: asyncpg.Connection, terms: Terms, job: Job, **own: Any) -> Held:
    """A run that is running."""
    (row,) = await make(connection, job, **own)
    (held,) = await claim(connection, terms, row.id)
    return held


async def live(connection: asyncpg.Connection, run_id: UUID) -> asyncpg.Record | None:
    """The row of a live run."""
    return await connection.fetchrow("SELECT * FROM runs WHERE id = $1", run_id)


async def ended(connection: asyncpg.Connection, run_id: UUID) -> asyncpg.Record | None:
    """The row of a run that ended."""
    return await connection.fetchrow("SELECT * FROM history WHERE id = $1", run_id)


async def test_making_a_tick_twice_makes_it_once(connection: asyncpg.Connection, job: Job) -> None:
    tick = job.tick(AT)
    await runs.insert(connection, [tick])
    await runs.insert(connection, [tick._replace(queue="elsewhere"), job.tick(AT + MINUTE)])
    rows = await runs.of_job(connection, job.id)
    assert [(row["scheduled_for"], row["queue"]) for row in rows] == [(AT, "default"), (AT + MINUTE, "default")]


async def test_what_a_run_has_of_its_own_is_kept_beside_plain_ones(connection: asyncpg.Connection, job: Job) -> None:
    before = job.by_hand(AT)
    own = job.by_hand(AT, payload='{"n": 1.10}', target='{"handler":"t"}', retry="{}", timeout_s=5, rerun_of=before.id)
    await runs.insert(connection, [before, own])
    await runs.insert(connection, [own])
    rows = {row["id"]: row for row in await runs.of_job(connection, job.id)}
    names = ("payload", "target", "retry", "timeout_s", "rerun_of")
    assert [rows[before.id][name] for name in names] == [None] * 5
    assert [rows[own.id][name] for name in names] == ['{"n": 1.10}', '{"handler": "t"}', "{}", 5, before.id]


async def test_claiming_starts_an_attempt(connection: asyncpg.Connection, terms: Terms, job: Job) -> None:
    (row,) = await make(connection, job)
    (found,) = await runs.claim(connection, [row.id], ["w1"], LEASE, terms)
    claimed = Claimed(*found)
    assert (claimed.id, claimed.attempt, claimed.timeout_s, claimed.payload) == (row.id, 1, 77, '{"of": "job"}')
    assert (claimed.scheduled_for, claimed.trigger) == (AT, row.trigger)
    stored = await live(connection, row.id)
    assert stored is not None
    assert (stored["state"], stored["attempt"], stored["worker_id"]) == ("running", 1, "w1")
    assert stored["lease_expires_at"] - stored["started_at"] == LEASE


async def test_a_run_claimed_ahead_of_its_instant_starts_at_it(
    connection: asyncpg.Connection, terms: Terms, job: Job
) -> None:
    soon = await connection.fetchval("SELECT now()") + MINUTE
    (row,) = await make(connection, job, ready_at=soon)
    await claim(connection, terms, row.id)
    stored = await live(connection, row.id)
    assert stored is not None
    assert stored["started_at"] == soon


async def test_one_claim_serves_many_workers(connection: asyncpg.Connection, terms: Terms, job: Job) -> None:
    made = [row.id for row in await make(connection, job, 4)]
    assert len(await runs.claim(connection, made, ["a", "b", "a", "b"], LEASE, terms)) == 4
    rows = await runs.of_job(connection, job.id)
    assert {row["id"]: row["worker_id"] for row in rows} == dict(zip(made, "abab", strict=True))


async def test_only_waiting_runs_of_led_shards_are_claimed(
    connection: asyncpg.Connection, terms: Terms, job: Job
) -> None:
    running = await started(connection, terms, job)
    waiting, elsewhere = await make(connection, job), await make(connection, job, shard=SHARD + 1)
    here = Terms([SHARD], [terms.terms[terms.shards.index(SHARD)]])
    asked = [running.id, waiting[0].id, elsewhere[0].id, ids.fresh_id(SHARD, AT, 1)]
    stale = Terms(terms.shards, [term - 1 for term in terms.terms])
    assert await claim(connection, stale, *asked) == []
    assert [held.id for held in await claim(connection, here, *asked)] == [waiting[0].id]


async def test_two_claims_at_once_share_no_run(
    connection: asyncpg.Connection, other: asyncpg.Connection, terms: Terms, job: Job
) -> None:
    made = [row.id for row in await make(connection, job, 50)]
    both = await asyncio.gather(claim(connection, terms, *made), claim(other, terms, *made))
    assert sorted(held.id for held in itertools.chain(*both)) == sorted(made)


async def test_tokens_rise_from_claim_to_claim_whoever_claims(
    connection: asyncpg.Connection, other: asyncpg.Connection, terms: Terms, job: Job
) -> None:
    held = await started(connection, terms, job)
    tokens = [held.token]
    for connected in (other, connection, other, connection):
        again = WaitAgain(held.id, held.token, AT, 0, 0, None, False)
        await runs.wait_again(connected, [again])
        (held,) = await claim(connected, terms, held.id)
        tokens.append(held.token)
    assert tokens == sorted(set(tokens))


async def test_claims_touch_no_index(connection: asyncpg.Connection, terms: Terms, job: Job) -> None:
    """Fillfactor leaves room on the page: a claim is a heap-only update."""
    made = [row.id for row in await make(connection, job, 20)]
    async with connection.transaction():
        assert len(await claim(connection, terms, *made)) == 20
        counts = await connection.fetchrow(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'runs'"
        )
    assert counts is not None
    assert (counts["n_tup_upd"], counts["n_tup_hot_upd"]) == (20, 20)


async def test_success_moves_the_row_to_history(connection: asyncpg.Connection, terms: Terms, job: Job) -> None:
    plain, told = await started(connection, terms, job), await started(connection, terms, job)
    assert await runs.succeed(connection, [plain.id], [plain.token], [None], [None]) == [plain]
    given = ([told.id], [told.token], ['{"a": 1.10}'], ['{"fraction": 1}'])
    assert await runs.succeed(connection, *given) == [told]
    bare = await started(connection, terms, job)
    assert await runs.succeed_plain(connection, [bare.id], [bare.token]) == 1
    rows = [await ended(connection, held.id) for held in (plain, told, bare)]
    kept = [(row["state"], row["result"], row["progress"], row["attempt"], row["worker_id"]) for row in rows if row]
    assert kept == [
        ("succeeded", None, None, 1, "w1"),
        ("succeeded", '{"a": 1.10}', '{"fraction": 1}', 1, "w1"),
        ("succeeded", None, None, 1, "w1"),
    ]
    assert await runs.of_job(connection, job.id) == []


@pytest.mark.parametrize("result", [None, "1"])
async def test_a_stale_token_ends_nothing(
    connection: asyncpg.Connection, terms: Terms, job: Job, result: str | None
) -> None:
    held = await started(connection, terms, job)
    (waiting,) = await make(connection, job)
    given = ([held.id, waiting.id], [held.token - 1, 0], [result, result], [None, None])
    assert await runs.succeed(connection, *given) == []
    assert await runs.succeed_plain(connection, *given[:2]) == 0
    assert await runs.ended_under(connection, *given[:2]) == set()
    assert await ended(connection, held.id) is None
    await runs.finish(connection, [Finish(held.id, held.token - 1, "dead", "e", None, None, 1, False)])
    await runs.wait_again(connection, [WaitAgain(held.id, held.token - 1, AT, 1, 0, None, False)])
    stored = await live(connection, held.id)
    assert stored is not None
    assert (stored["state"], stored["fencing_token"]) == ("running", held.token)


async def test_the_rows_behind_reports_are_locked_with_their_policy(
    connection: asyncpg.Connection, other: asyncpg.Connection, terms: Terms
) -> None:
    made = await builders.insert_job(connection, builders.once(AT), retry={"max_attempts": 2}, timeout_s=77)
    of_job = await started(connection, terms, made)
    own = await started(connection, terms, made, retry='{"max_attempts": 9}', timeout_s=5)
    stale = await started(connection, terms, made)
    async with connection.transaction():
        rows = await runs.lock_held(
            connection,
            [of_job.id, own.id, stale.id],
            [of_job.token, own.token, stale.token + 1],
            [False] * 3,
            Terms([], []),
        )
        policies = {row["id"]: (json.loads(row["retry"]), row["timeout_s"]) for row in rows}
        assert policies == {of_job.id: ({"max_attempts": 2}, 77), own.id: ({"max_attempts": 9}, 5)}
        with pytest.raises(asyncpg.LockNotAvailableError):
            await other.fetch("SELECT FROM runs WHERE id = $1 FOR UPDATE NOWAIT", of_job.id)


async def test_what_a_leader_finds_counts_only_while_it_leads(
    connection: asyncpg.Connection, terms: Terms, job: Job
) -> None:
    held = await started(connection, terms, job)
    stale = Terms(terms.shards, [term - 1 for term in terms.terms])
    assert await runs.lock_held(connection, [held.id], [held.token], [True], stale) == []
    assert len(await runs.lock_held(connection, [held.id], [held.token], [True], terms)) == 1


async def test_a_run_waits_again_with_what_became_of_it(connection: asyncpg.Connection, terms: Terms, job: Job) -> None:
    held = await started(connection, terms, job)
    await runs.wait_again(connection, [WaitAgain(held.id, held.token, AT + MINUTE, 1, 2, '[{"attempt": 1}]', False)])
    stored = await live(connection, held.id)
    assert stored is not None
    names = ("state", "ready_at", "attempt", "snoozes", "failures", "fencing_token")
    kept = [stored[name] for name in names]
    assert kept == ["waiting", AT + MINUTE, 1, 2, '[{"attempt": 1}]', held.token]
    assert [stored[name] for name in ("started_at", "lease_expires_at", "worker_id")] == [None] * 3


async def test_an_end_that_its_leader_made_takes_the_token_away(
    connection: asyncpg.Connection, terms: Terms, job: Job
) -> None:
    again, done = await started(connection, terms, job), await started(connection, terms, job)
    await runs.wait_again(connection, [WaitAgain(again.id, again.token, AT, 1, 0, None, True)])
    await runs.finish(connection, [Finish(done.id, done.token, "dead", "lost", None, None, 1, True)])
    waiting, dead = await live(connection, again.id), await ended(connection, done.id)
    assert waiting is not None
    assert dead is not None
    assert waiting["fencing_token"] > again.token
    assert dead["fencing_token"] > done.token
    assert await runs.already_reported(connection, [again, done]) == set()


async def test_a_run_ends_dead_with_all_its_attempts(connection: asyncpg.Connection, terms: Terms, job: Job) -> None:
    held = await started(connection, terms, job, payload='{"own": 1}')
    finished = Finish(held.id, held.token, "dead", "E: boo", '[{"attempt": 1}]', '{"fraction": 0.5}', 4, False)
    await runs.finish(connection, [finished])
    row = await ended(connection, held.id)
    assert row is not None
    names = ("state", "error", "failures", "progress", "attempt", "fencing_token", "payload", "trigger")
    kept = [row[name] for name in names]
    assert kept == ["dead", "E: boo", '[{"attempt": 1}]', '{"fraction": 0.5}', 4, held.token, '{"own": 1}', "manual"]
    assert await live(connection, held.id) is None


async def test_a_repeat_is_known_by_the_token_it_was_taken_in_under(
    connection: asyncpg.Connection, terms: Terms, job: Job
) -> None:
    done, again, running = [await started(connection, terms, job) for _ in range(3)]
    (never,) = await make(connection, job)
    await runs.succeed(connection, [done.id], [done.token], [None], [None])
    await runs.wait_again(connection, [WaitAgain(again.id, again.token, AT, 1, 0, None, False)])
    asked = [done, again, running, Held(done.id, done.token - 1), Held(never.id, 0)]
    assert await runs.already_reported(connection, asked) == {done, again}


async def test_only_runs_that_wait_are_ended_before_they_start(
    connection: asyncpg.Connection, terms: Terms, job: Job
) -> None:
    running = await started(connection, terms, job)
    (waiting,) = await make(connection, job)
    (gone,) = await runs.end_waiting(connection, [running.id, waiting.id], "cancelled", "cancelled by ann")
    assert gone == (waiting.id, job.id, "default", SHARD, AT, "default")
    row = await ended(connection, waiting.id)
    assert row is not None
    assert (row["state"], row["error"], row["started_at"], row["attempt"]) == ("cancelled", "cancelled by ann", None, 0)
    assert await live(connection, running.id) is not None


async def test_ticks_that_have_not_started_are_taken_back(
    connection: asyncpg.Connection, terms: Terms, job: Job
) -> None:
    early, late, interrupted, running, tried = (job.tick(AT + index * MINUTE) for index in range(5))
    by_hand = job.by_hand(AT)
    await runs.insert(connection, [early, late, interrupted, running, tried, by_hand])
    (first,) = await claim(connection, terms, interrupted.id)
    (second,) = await claim(connection, terms, tried.id)
    await claim(connection, terms, running.id)
    await runs.wait_again(
        connection,
        [
            WaitAgain(first.id, first.token, AT, 0, 0, None, False),
            WaitAgain(second.id, second.token, AT, 1, 0, None, False),
        ],
    )
    assert [gone.id for gone in await runs.retract(connection, [job.id], AT)] == [late.id]
    (gone,) = await runs.retract(connection, [job.id], None)
    assert gone == (early.id, job.id, SHARD, "default", AT, AT)
    left = {row["id"] for row in await runs.of_job(connection, job.id)}
    assert left == {interrupted.id, running.id, tried.id, by_hand.id}


async def test_runs_keep_the_definition_they_were_made_under(
    connection: asyncpg.Connection, terms: Terms, job: Job
) -> None:
    come, ahead, tried = job.tick(AT), job.tick(AT + MINUTE), job.tick(AT + 2 * MINUTE)
    own = job.by_hand(AT + 3 * MINUTE, payload='{"own": 1}')
    await runs.insert(connection, [come, ahead, tried, own])
    (held,) = await claim(connection, terms, tried.id)
    await runs.wait_again(connection, [WaitAgain(held.id, held.token, AT, 1, 0, None, False)])
    await runs.snapshot(connection, job.id, AT)
    rows = {row["id"]: (row["payload"], row["timeout_s"]) for row in await runs.of_job(connection, job.id)}
    of_job = ('{"of": "job"}', 77)
    assert rows == {come.id: of_job, ahead.id: (None, None), tried.id: of_job, own.id: ('{"own": 1}', 77)}


async def test_only_running_runs_are_asked_to_stop_and_once(
    connection: asyncpg.Connection, terms: Terms, job: Job
) -> None:
    running = await started(connection, terms, job)
    (waiting,) = await make(connection, job)
    asked = [running.id, waiting.id]
    assert await runs.request_cancel(connection, asked, "ann") == [running.id]
    first = await live(connection, running.id)
    assert await runs.request_cancel(connection, asked, "ben") == [running.id]
    second = await live(connection, running.id)
    assert first is not None
    assert first == second
    assert (first["cancel_requested_by"], first["cancel_requested_at"] is not None) == ("ann", True)


async def test_memory_is_loaded_page_by_page(connection: asyncpg.Connection, terms: Terms, job: Job) -> None:
    made = sorted(row.id for row in await make(connection, job, 5))
    await make(connection, job, shard=SHARD + 1)
    first = await runs.load(connection, [SHARD], UUID(int=0), 3)
    rest = await runs.load(connection, [SHARD], first[-1]["id"], 3)
    assert [[row["id"] for row in page] for page in (first, rest)] == [made[:3], made[3:]]
    assert (first[0]["timeout_s"], first[0]["overlap"], first[0]["state"]) == (77, "allow", "waiting")


async def test_runs_of_a_job_that_is_gone_are_loaded_with_defaults(connection: asyncpg.Connection, job: Job) -> None:
    (row,) = await make(connection, job)
    (orphan,) = await make(connection, job, job_id=UUID(int=7))
    (own,) = await runs.load_of_job(connection, job.id)
    (lost,) = await runs.load_by_id(connection, [orphan.id, UUID(int=8)])
    assert (own["id"], lost["id"]) == (row.id, orphan.id)
    assert own.keys() and list(own.keys()) == list(lost.keys())
    assert (lost["timeout_s"], lost["overlap"]) == (300, "allow")


async def test_leases_are_written_for_those_who_still_hold_them(
    connection: asyncpg.Connection, terms: Terms, job: Job
) -> None:
    held, stale = await started(connection, terms, job), await started(connection, terms, job)
    await runs.refresh_leases(connection, [held.id, stale.id], [held.token, stale.token - 1], timedelta(hours=9))
    rows = {row["id"]: row["lease_expires_at"] - row["started_at"] for row in await runs.of_job(connection, job.id)}
    assert rows[held.id] > timedelta(hours=8)
    assert rows[stale.id] == LEASE


async def test_ticks_are_dropped_only_under_the_terms_of_their_shard(
    connection: asyncpg.Connection, terms: Terms, job: Job
) -> None:
    dropped, running = job.tick(AT), job.tick(AT + MINUTE)
    await runs.insert(connection, [dropped, running])
    await claim(connection, terms, running.id)
    stale = Terms(terms.shards, [term - 1 for term in terms.terms])
    assert await runs.drop_waiting(connection, [dropped.id, running.id], stale) == []
    (gone,) = await runs.drop_waiting(connection, [dropped.id, running.id], terms)
    assert gone == (dropped.id, job.id, SHARD, "default", AT, AT)
    assert [row["id"] for row in await runs.of_job(connection, job.id)] == [running.id]


def scanned_lists(plan: dict[str, Any]) -> set[str]:
    """The lists (`unnest`) that a plan reads as if they were tables, by their alias."""
    own = {plan["Alias"]} if plan["Node Type"] == "Function Scan" else set()
    return own.union(*(scanned_lists(child) for child in plan.get("Plans", ())))


async def planned(connection: asyncpg.Connection, statement: str, *arguments: Any) -> dict[str, Any]:
    """The plan of a statement."""
    text = "\n".join(line for line in statement.splitlines() if not line.startswith("--"))
    found = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {text}", *arguments)
    plan: dict[str, Any] = json.loads(found)[0]["Plan"]
    return plan


async def test_a_claim_and_a_success_join_runs_with_no_list(
    connection: asyncpg.Connection, terms: Terms, job: Job
) -> None:
    """`runs` is empty most of the time: joined with a list, it may be planned as a comparison of each row with each id."""
    made = [row.id for row in await make(connection, job, 1_000)]
    arguments = (made, "{}", "w1", LEASE, terms.shards, terms.terms)
    assert scanned_lists(await planned(connection, runs.SQL.claim, *arguments)) == {"mine"}
    assert scanned_lists(await planned(connection, runs.SQL.succeed_plain, made, [1] * len(made))) == set()
