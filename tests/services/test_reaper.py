"""Attempts that the leader ends by itself: only time does that, and a late worker is told that it is late."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from uuid import UUID

import pytest

from horarium.domain.outcome import Outcome
from horarium.events import Name
from horarium.store import runs, shards
from tests import builders
from tests.builders import Core

NEVER_AGAIN = {"max_attempts": 1}


async def test_a_lapsed_lease_is_a_new_attempt_under_a_higher_token(core: Core) -> None:
    held = await core.started()
    await core.reap(15)
    row = await core.row(held.run_id)
    assert row is not None
    assert (row["state"], row["attempt"], row["worker_id"]) == ("waiting", 1, None)
    (failure,) = json.loads(row["failures"])
    assert (failure["outcome"], failure["worker_id"]) == ("lost", "w1")
    (lease,) = await core.lease("w2")
    assert lease["attempt"] == 2
    assert lease["fencing_token"] > held.token
    assert core.told.total(Name.LEASES_LAPSED) == 1


async def test_a_lease_that_is_extended_does_not_lapse(core: Core) -> None:
    held = await core.started()
    for _ in range(6):
        await core.reap(5)
        assert core.beat("w1", held).lost == []
    row = await core.row(held.run_id)
    assert row is not None
    assert (row["state"], row["fencing_token"]) == ("running", held.token)


async def test_a_run_that_kills_its_worker_each_time_ends_in_the_dead_letters(core: Core) -> None:
    held = await core.started(retry={"max_attempts": 3, "base_s": 10, "jitter": 0})
    delays = []
    for attempt in (2, 3):
        await core.reap(15)
        row = await core.row(held.run_id)
        assert row is not None
        delays.append(row["ready_at"] - core.clock.now())
        await core.reap(delays[-1].total_seconds())
        (lease,) = await core.lease(f"w{attempt}")
        assert lease["attempt"] == attempt
    await core.reap(15)
    assert delays == [timedelta(0), timedelta(seconds=20)]
    ended = await core.ended(held.run_id)
    assert ended is not None
    assert (ended["state"], ended["attempt"]) == ("dead", 3)
    assert [failure["outcome"] for failure in json.loads(ended["failures"])] == ["lost"] * 3
    assert await core.fetchval("SELECT attempts FROM dead_letters WHERE run_id = $1", held.run_id) == 3


async def test_no_heartbeat_extends_a_run_beyond_its_timeout_and_ten_seconds(core: Core) -> None:
    held = await core.started(timeout_s=20, retry=NEVER_AGAIN)
    for _ in range(5):
        await core.reap(5.9)
        assert core.beat("w1", held).lost == []
        assert await core.row(held.run_id) is not None
    await core.reap(0.5)
    ended = await core.ended(held.run_id)
    assert ended is not None
    assert (ended["state"], ended["error"]) == ("dead", "TimeoutError: the attempt took longer than its timeout")
    assert core.told.total(Name.LEASES_LAPSED) == 0


async def test_a_run_that_does_not_stop_when_it_is_asked_to_is_cancelled_after_thirty_seconds(core: Core) -> None:
    held = await core.started()
    async with core.database.connection() as connection:
        core.leader.cancel_requested(await runs.request_cancel(connection, [held.run_id], "ann"))
    for _ in range(3):
        await core.reap(9.9)
        assert core.beat("w1", held).lost == []
        assert await core.row(held.run_id) is not None
    await core.reap(0.5)
    ended = await core.ended(held.run_id)
    assert ended is not None
    assert (ended["state"], ended["error"]) == ("cancelled", "cancelled by ann")


async def test_a_worker_that_does_not_stop_is_refused(core: Core) -> None:
    held = await core.started()
    async with core.database.connection() as connection:
        core.leader.cancel_requested(await runs.request_cancel(connection, [held.run_id], "ann"))
    await core.reap(31)
    assert (await core.completer.report([held.report()])).lost == [held.run_id]


async def test_a_run_that_two_heartbeats_do_not_list_is_taken_back_without_an_attempt(core: Core) -> None:
    held = await core.started()
    for taken_back in (False, True):
        core.beat("w1")
        await core.take_back("w1")
        row = await core.row(held.run_id)
        assert row is not None
        assert (row["state"] == "waiting") is taken_back
    (lease,) = await core.lease("w2")
    assert (lease["run_id"], lease["attempt"]) == (str(held.run_id), 1)


async def test_other_workers_runs_are_not_taken_back(core: Core) -> None:
    held = await core.started(worker_id="w2")
    for _ in range(3):
        core.beat("w1")
        await core.take_back("w1")
    row = await core.row(held.run_id)
    assert row is not None
    assert row["state"] == "running"


async def test_a_row_that_is_not_as_memory_thought_leaves_memory(core: Core) -> None:
    held = await core.started()
    await core.fetch("UPDATE runs SET fencing_token = fencing_token + 1000 WHERE id = $1", held.run_id)
    await core.reap(15)
    assert held.run_id not in core.leader.ready
    await core.sweeper.follow_edits()
    assert held.run_id in core.leader.ready


async def test_a_run_that_has_ended_meanwhile_leaves_memory(core: Core) -> None:
    """Another node took in the report: the row is in history under the token that memory still holds."""
    held = await core.started()
    async with core.database.connection() as connection:
        await runs.succeed(connection, [held.run_id], [held.token], [None], [None])
    await core.reap(15)
    assert held.run_id not in core.leader.ready
    ended = await core.ended(held.run_id)
    assert ended is not None
    assert ended["state"] == "succeeded"


async def test_a_verdict_that_comes_too_late_leaves_the_next_attempt_alone(core: Core) -> None:
    """The worker's own report and the claim of the next attempt were quicker than the reaper's."""
    held = await core.started(retry={"base_s": 0})
    leases = core.leader.ready.leases
    core.pass_time(15)
    verdict = list(leases.overdue(core.clock.monotonic()).lapsed)
    assert [run.id for run in verdict] == [held.run_id]
    reported = core.completer.report([held.report(Outcome.FAILED)])
    await reported
    (lease,) = await core.lease("w2")
    await core.reaper._end([held.report(Outcome.LOST)._replace(by_leader=True)])
    run = leases.get(held.run_id)
    assert run is not None
    assert (run.worker_id, run.token) == ("w2", lease["fencing_token"])


@pytest.mark.parametrize("retry", [{"base_s": 3600}, NEVER_AGAIN])
async def test_a_frozen_worker_that_reports_after_its_lease_is_refused(core: Core, retry: dict[str, int]) -> None:
    held = await core.started(retry=retry)
    await core.reap(15)
    taken = await core.completer.report([held.report(result='"late"')])
    assert (taken.accepted, taken.lost) == ([], [held.run_id])
    assert await core.fetchval("SELECT count(*) FROM history WHERE state = 'succeeded'") == 0


async def test_a_worker_whose_run_was_taken_back_is_refused(core: Core) -> None:
    held = await core.started()
    for _ in range(2):
        core.beat("w1")
    await core.take_back("w1")
    assert (await core.completer.report([held.report()])).lost == [held.run_id]


async def test_a_leader_that_was_frozen_ends_nothing(core: Core) -> None:
    """It wakes with every lease lapsed in its memory; meanwhile another node leads, and hears the worker."""
    held = await core.started()
    await core.fetch("UPDATE shards SET lease_expires_at = now() - interval '1 second'")
    async with core.database.connection() as connection:
        assert len(await shards.take(connection, "node-2", builders.LONG, 4096)) == 16
    await core.reap(20)
    row = await core.row(held.run_id)
    assert row is not None
    assert (row["state"], row["fencing_token"]) == ("running", held.token)


async def test_a_leader_that_stood_still_does_not_take_it_for_the_workers_silence(core: Core) -> None:
    """Nobody else led meanwhile, and the heartbeats of twenty seconds wait to be read."""
    held = await core.started()
    await core.reap(5)
    core.pass_time(20)
    await core.reaper.run_once()
    row = await core.row(held.run_id)
    assert row is not None
    assert (row["state"], row["fencing_token"]) == ("running", held.token)
    assert core.beat("w1", held).lost == []
    await core.reap(15)
    assert core.told.total(Name.LEASES_LAPSED) == 1


async def test_a_silent_worker_gets_no_answer_to_what_it_asked_before(core: Core) -> None:
    core.reaper.on_silent = core.dispatcher.dismiss
    await core.started()
    asked = asyncio.create_task(core.lease("w1"))
    await builders.until(lambda: core.dispatcher.waiting() == 1)
    await core.reap(15)
    assert await asked == []
    assert len(await core.lease("w2")) == 1


async def test_the_leases_of_long_runs_are_written_down(core: Core) -> None:
    long, short = await core.started(), UUID(int=0)
    core.pass_time(31)
    short = (await core.started()).run_id
    query = "SELECT lease_expires_at FROM runs WHERE id = $1"
    before = [await core.fetchval(query, run_id) for run_id in (long.run_id, short)]
    await core.reaper.refresh_once()
    after = [await core.fetchval(query, run_id) for run_id in (long.run_id, short)]
    assert after[0] > before[0]
    assert after[1] == before[1]
