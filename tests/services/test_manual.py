"""Runs by hand: now, again, and out of the dead letters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from horarium import errors
from horarium.domain import ids, job
from horarium.store.inspect import DeadFilter
from tests.services.catalog_world import NOON, STRANGER, WHO, World, world


@pytest.fixture
async def at_work(emptied_url: str) -> AsyncIterator[World]:
    async with world(emptied_url) as made:
        yield made


async def _ended_run(at_work: World, made: job.Job, state: str = "succeeded") -> UUID:
    run_id = await at_work.manual.run_now(WHO, made.id)
    await at_work.start(run_id)
    await at_work.end(run_id, state)
    return run_id


async def _dead_run(at_work: World, made: job.Job, mark: str = "f1", error: str = "Boom: no") -> UUID:
    run_id = await _ended_run(at_work, made, "dead")
    await at_work.execute(
        "INSERT INTO dead_letters (run_id, job_id, tenant_id, queue, shard, fingerprint, error, attempts, since)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, 4, $8)",
        run_id, made.id, made.tenant_id, made.spec.queue, made.shard, mark, error, at_work.clock.now(),
    )  # fmt: skip
    return run_id


async def test_run_now_makes_a_run_beside_the_schedule(at_work: World) -> None:
    made = await at_work.create(schedule="@daily", queue="q", priority=8)
    before = await at_work.timer(made)
    run_id = await at_work.manual.run_now(WHO, "nightly")
    (run,) = await at_work.rows("runs", made)
    assert (run["id"], run["trigger"], run["queue"], run["priority"]) == (run_id, "manual", "q", 8)
    assert (run["scheduled_for"], run["ready_at"], run["payload"], run["state"]) == (NOON, NOON, None, "waiting")
    assert ids.shard_of(run_id) == made.shard
    assert not ids.is_tick(run_id)
    assert await at_work.timer(made) == before
    assert [row.id for row in at_work.heard.added] == [run_id]
    assert (await at_work.audited())[-1] == ("run", "job", None, {"run_id": str(run_id)})


async def test_run_now_may_have_a_payload_of_its_own(at_work: World) -> None:
    made = await at_work.create(schedule="@daily", payload={"v": 1})
    await at_work.manual.run_now(WHO, made.id, '{"v":9007199254740993}')
    (run,) = await at_work.rows("runs", made)
    assert run["payload"] == '{"v":9007199254740993}'


async def test_paused_and_finished_jobs_can_be_run_by_hand_and_deleted_ones_cannot(at_work: World) -> None:
    paused = await at_work.create(schedule="@daily")
    await at_work.catalog.pause(WHO, paused.id)
    once = await at_work.create(name=None, run_at="now")
    (run,) = await at_work.rows("runs", once)
    await at_work.end(run["id"])
    for each in (paused, once):
        await at_work.manual.run_now(WHO, each.id)
        assert len(await at_work.rows("runs", each)) == 1
    await at_work.catalog.delete(WHO, paused.id)
    with pytest.raises(errors.ConflictError):
        await at_work.manual.run_now(WHO, paused.id)
    with pytest.raises(errors.NotFoundError):
        await at_work.manual.run_now(WHO, "nightly")
    with pytest.raises(errors.NotFoundError):
        await at_work.manual.run_now(WHO, uuid4())


async def test_a_rerun_repeats_a_run_for_the_same_nominal_time(at_work: World) -> None:
    made = await at_work.create(schedule="* * * * *", payload={"v": 1})
    at_work.later(minutes=1)
    await at_work.fire()
    (tick,) = await at_work.rows("runs", made)
    await at_work.end(tick["id"])
    at_work.later(hours=1)
    run_id = await at_work.manual.rerun(WHO, tick["id"])
    (run,) = await at_work.rows("runs", made)
    assert (run["id"], run["rerun_of"], run["trigger"]) == (run_id, tick["id"], "rerun")
    assert (run["scheduled_for"], run["ready_at"]) == (NOON + timedelta(minutes=1), at_work.clock.now())
    assert (run["payload"], run["target"]) == (None, None)
    assert (await at_work.audited())[-1] == ("rerun", "run", None, {"run_id": str(run_id)})


async def test_a_rerun_has_the_snapshot_of_the_run_it_repeats(at_work: World) -> None:
    made = await at_work.create(schedule="@daily", payload={"v": 1}, target={"handler": "old"}, timeout_s=7)
    first = await at_work.manual.run_now(WHO, made.id)
    await at_work.patch(made, payload={"v": 2}, target={"handler": "new"}, timeout_s=9)
    await at_work.end(first)
    await at_work.manual.rerun(WHO, first)
    (run,) = await at_work.rows("runs", made)
    assert (run["payload"], run["target"], run["timeout_s"], run["target_key"]) == (
        '{"v":1}', '{"handler": "old"}', 7, "old"
    )  # fmt: skip


async def test_what_lives_is_unknown_or_deleted_is_not_repeated(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    ended = await _ended_run(at_work, made)
    live = await at_work.manual.run_now(WHO, made.id)
    with pytest.raises(errors.ConflictError) as raised:
        await at_work.manual.rerun(WHO, live)
    assert raised.value.code == "still_live"
    for run_id, who in (
        (uuid4(), WHO),
        (ended, STRANGER),
        (live, STRANGER),
        (UUID(int=0), WHO),
        (UUID(int=2**128 - 1), WHO),
    ):
        with pytest.raises(errors.NotFoundError):
            await at_work.manual.rerun(who, run_id)
    await at_work.catalog.delete(WHO, made.id)
    with pytest.raises(errors.ConflictError):
        await at_work.manual.rerun(WHO, ended)


async def test_dead_letters_are_retried_by_run(at_work: World) -> None:
    made = await at_work.create(schedule="@daily", priority=3)
    first, second = await _dead_run(at_work, made), await _dead_run(at_work, made)
    assert await at_work.manual.retry_dead(WHO, [first, uuid4()]) == 1
    (run,) = await at_work.rows("runs", made)
    assert (run["rerun_of"], run["trigger"], run["ready_at"], run["priority"]) == (first, "rerun", NOON, 3)
    async with at_work.database.connection() as connection:
        assert [row[0] for row in await connection.fetch("SELECT run_id FROM dead_letters")] == [second]
    assert (await at_work.audited())[-1] == ("retry", "dead_letter", None, {"run_id": str(run["id"])})
    assert [row.id for row in at_work.heard.added][-1] == run["id"]
    assert await at_work.manual.retry_dead(WHO, [first]) == 0
    assert await at_work.manual.retry_dead(WHO, []) == 0


async def test_dead_letters_are_chosen_by_each_member_of_the_filter(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    other = await at_work.create(name="other", schedule="@daily", queue="q")
    for each, mark, error in ((made, "f1", "Boom: no"), (made, "f2", "Timeout: 5 s"), (other, "f1", "Boom: no")):
        at_work.later(minutes=1)
        await _dead_run(at_work, each, mark, error)
    discard = at_work.manual.discard_dead

    async def keep(wanted: DeadFilter) -> int:
        """How many a filter takes, without taking them."""
        async with at_work.database.connection() as connection:
            kept = await connection.fetch("SELECT * FROM dead_letters")
            count = await discard(WHO, wanted)
            await connection.execute("DELETE FROM dead_letters")
            await connection.executemany(
                "INSERT INTO dead_letters VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)", [tuple(row) for row in kept]
            )
        return count

    assert await keep(DeadFilter()) == 3
    assert await keep(DeadFilter(job_id=made.id)) == 2
    assert await keep(DeadFilter(fingerprint="f1")) == 2
    assert await keep(DeadFilter(queue="q")) == 1
    assert await keep(DeadFilter(error="tImEout")) == 1
    assert await keep(DeadFilter(since=NOON + timedelta(minutes=2))) == 2
    assert await keep(DeadFilter(job_id=other.id, fingerprint="f2")) == 0
    assert await at_work.manual.discard_dead(STRANGER, DeadFilter()) == 0
    assert await at_work.manual.retry_dead(STRANGER, DeadFilter()) == 0


async def test_many_dead_letters_are_taken_in_bites(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    dead = [await _dead_run(at_work, made) for _ in range(5)]
    assert await at_work.manual.retry_dead(WHO, DeadFilter(), limit=2) == 2
    assert {row["rerun_of"] for row in await at_work.rows("runs", made)} == set(sorted(dead)[:2])
    assert await at_work.manual.discard_dead(WHO, DeadFilter(), limit=2) == 2
    assert await at_work.manual.retry_dead(WHO, DeadFilter()) == 1
    assert [line[:2] for line in await at_work.audited()].count(("discard", "dead_letter")) == 2


async def test_letters_of_deleted_jobs_can_only_be_discarded(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    run_id = await _dead_run(at_work, made)
    await at_work.catalog.delete(WHO, made.id)
    assert await at_work.manual.retry_dead(WHO, DeadFilter()) == 0
    assert await at_work.manual.discard_dead(WHO, [run_id]) == 1


async def test_a_rerun_closes_the_dead_letter(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    run_id = await _dead_run(at_work, made)
    await at_work.manual.rerun(WHO, run_id)
    assert await at_work.manual.retry_dead(WHO, DeadFilter()) == 0
    assert len(await at_work.rows("runs", made)) == 1


async def test_a_letter_whose_run_left_history_runs_as_its_job_says(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    await _dead_run(at_work, made)
    await at_work.execute("DELETE FROM history")
    assert await at_work.manual.retry_dead(WHO, DeadFilter()) == 1
    (run,) = await at_work.rows("runs", made)
    assert (run["scheduled_for"], run["payload"]) == (NOON, None)
