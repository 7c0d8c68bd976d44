"""The overlap rule carried out: what does not start is written down, and nothing is left in limbo."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from horarium.domain import schedule
from horarium.domain.outcome import Outcome
from horarium.domain.overlap import Overlap
from horarium.domain.run import Phase
from horarium.events import Name
from horarium.services import releaser as releasers
from horarium.store import runs, skips
from tests import builders
from tests.builders import Core, Job, Started

SECOND = timedelta(seconds=1)


async def ticking(core: Core, overlap: Overlap, ticks: int = 3) -> tuple[Job, list[runs.RunRow]]:
    """A job that fires each second under an overlap rule, and the runs of its next ticks, the first one due now."""
    at = core.clock.now()
    made = await core.job(schedule.Every(SECOND, at), overlap=overlap, name="ticking")
    rows = [made.tick(at + n * SECOND) for n in range(ticks)]
    await core.make(*rows, overlap=overlap)
    return made, rows


async def started(core: Core, made: Job) -> Started:
    """The next run of a job, handed to a worker."""
    (lease,) = await core.lease(slots=1)
    return Started(UUID(lease["run_id"]), lease["fencing_token"], made)


async def second_passes(core: Core) -> None:
    """The next tick's instant comes, and what follows from it is written."""
    core.clock.advance(1)
    core.releaser.release(0)
    await asyncio.gather(*core.releaser._under_way)


async def skipped(core: Core) -> list[tuple[Any, ...]]:
    rows = await core.fetch("SELECT first, count, exact, reason, coalesced_into FROM skips ORDER BY id")
    return [tuple(row) for row in rows]


async def test_allow_lets_every_tick_start(core: Core) -> None:
    _, rows = await ticking(core, Overlap.ALLOW)
    await core.lease()
    core.pass_time(2)
    assert len(await core.lease()) == 2
    assert await skipped(core) == []
    assert len(rows) == 3


async def test_skip_writes_down_the_ticks_that_do_not_start(core: Core) -> None:
    made, rows = await ticking(core, Overlap.SKIP)
    held = await started(core, made)
    await second_passes(core)
    assert await skipped(core) == [(rows[1].scheduled_for, 1, True, "overlap", None)]
    assert await core.row(rows[1].id) is None
    assert rows[1].id not in core.leader.ready
    (event,) = core.told.named(Name.TICKS_SKIPPED)
    assert event.fields == {"job_id": made.id, "count": 1, "reason": "overlap", "tenant": "default"}
    await core.completer.report([held.report()])
    core.pass_time(1)
    assert (await started(core, made)).run_id == rows[2].id


async def test_a_run_in_back_off_counts_as_live(core: Core) -> None:
    made, rows = await ticking(core, Overlap.SKIP)
    held = await started(core, made)
    await core.completer.report([held.report(Outcome.FAILED, retry_in=timedelta(hours=1))])
    await second_passes(core)
    assert await skipped(core) == [(rows[1].scheduled_for, 1, True, "overlap", None)]


async def test_a_run_whose_lease_has_lapsed_counts_until_it_was_taken_back(core: Core) -> None:
    made, rows = await ticking(core, Overlap.SKIP, ticks=20)
    held = await started(core, made)
    for _ in range(16):
        await core.reaper.run_once()
        await second_passes(core)
    assert len(await skipped(core)) == 16
    await core.reaper.run_once()
    again = await started(core, made)
    assert again.run_id == held.run_id
    await core.completer.report([again.report()])
    core.pass_time(1)
    assert (await started(core, made)).run_id == rows[17].id


async def test_queue_all_starts_one_after_the_other(core: Core) -> None:
    made, rows = await ticking(core, Overlap.QUEUE_ALL)
    held = await started(core, made)
    core.pass_time(2)
    for row in rows[1:]:
        assert await core.lease_now() == []
        await core.completer.report([held.report()])
        held = await started(core, made)
        assert held.run_id == row.id
    assert await skipped(core) == []


async def test_queue_one_keeps_the_newest_and_says_what_it_stands_for(core: Core) -> None:
    made, rows = await ticking(core, Overlap.QUEUE_ONE, ticks=4)
    held = await started(core, made)
    for _ in range(3):
        await second_passes(core)
    assert await skipped(core) == [
        (rows[1].scheduled_for, 1, True, "coalesced", rows[2].id),
        (rows[2].scheduled_for, 1, True, "coalesced", rows[3].id),
    ]
    await core.completer.report([held.report()])
    assert (await started(core, made)).run_id == rows[3].id


async def test_ticks_that_come_due_together_name_the_one_that_runs(core: Core) -> None:
    made, rows = await ticking(core, Overlap.QUEUE_ONE, ticks=5)
    await started(core, made)
    core.clock.advance(3)
    await second_passes(core)
    assert {row[4] for row in await skipped(core)} == {rows[4].id}
    assert len(await skipped(core)) == 3


async def test_cancel_running_asks_the_running_one_to_stop(core: Core) -> None:
    made, rows = await ticking(core, Overlap.CANCEL_RUNNING)
    held = await started(core, made)
    await second_passes(core)
    assert core.beat("w1", held).cancel == [held.run_id]
    row = await core.row(held.run_id)
    assert row is not None
    assert row["cancel_requested_by"] == releasers.ASKED_BY
    assert await core.lease_now() == []
    await core.completer.report([held.report(Outcome.FAILED)])
    ended = await core.ended(held.run_id)
    assert ended is not None
    assert ended["state"] == "cancelled"
    assert (await started(core, made)).run_id == rows[1].id


async def test_cancel_running_does_not_pile_up_behind_a_run_that_is_slow_to_stop(core: Core) -> None:
    made, rows = await ticking(core, Overlap.CANCEL_RUNNING, ticks=4)
    held = await started(core, made)
    for _ in range(3):
        await second_passes(core)
    assert [(row[3], row[4]) for row in await skipped(core)] == [("coalesced", rows[2].id), ("coalesced", rows[3].id)]
    await core.completer.report([held.report()])
    assert (await started(core, made)).run_id == rows[3].id


async def test_runs_by_hand_stand_outside_the_rule(core: Core) -> None:
    made, _ = await ticking(core, Overlap.SKIP, ticks=1)
    await started(core, made)
    by_hand = made.by_hand(core.clock.now())
    await core.make(by_hand)
    assert (await started(core, made)).run_id == by_hand.id


async def test_what_runs_already_is_not_skipped(core: Core) -> None:
    """Memory was behind: the row of the tick is running, under another leader's claim."""
    made, rows = await ticking(core, Overlap.SKIP, ticks=2)
    await started(core, made)
    await core.fetch("UPDATE runs SET state = 'running', fencing_token = 99 WHERE id = $1", rows[1].id)
    await second_passes(core)
    assert await skipped(core) == []
    assert await core.row(rows[1].id) is not None


async def test_a_leader_of_the_past_skips_nothing(core: Core) -> None:
    made, rows = await ticking(core, Overlap.SKIP, ticks=2)
    await started(core, made)
    await core.fetch("UPDATE shards SET term = term + 1")
    await second_passes(core)
    assert await skipped(core) == []
    assert await core.row(rows[1].id) is not None


@pytest.mark.parametrize("fault", [ConnectionResetError("cut"), RuntimeError("a fault of ours")])
async def test_a_tick_is_not_left_in_limbo_by_a_fault(
    core: Core, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    monkeypatch.setattr(releasers, "TRY_AGAIN_S", 0.01)
    insert, faults = skips.insert, [fault]

    async def failing(*arguments: Any) -> None:
        if faults:
            raise faults.pop()
        await insert(*arguments)

    monkeypatch.setattr(skips, "insert", failing)
    made, rows = await ticking(core, Overlap.SKIP, ticks=2)
    await started(core, made)
    await second_passes(core)
    assert await skipped(core) == [(rows[1].scheduled_for, 1, True, "overlap", None)]
    assert rows[1].id not in core.leader.ready


async def test_the_end_does_not_wait_for_a_database_that_is_away(core: Core) -> None:
    made, rows = await ticking(core, Overlap.SKIP, ticks=2)
    await started(core, made)
    await core.database.close()
    core.clock.advance(1)
    core.releaser.release(0)
    async with asyncio.timeout(builders.WAIT_S):
        await core.releaser.settle()
    await core.database.open()
    assert await core.row(rows[1].id) is not None  # the next leader judges it anew


async def test_a_held_run_is_freed_by_an_edit_to_allow(core: Core) -> None:
    made, rows = await ticking(core, Overlap.QUEUE_ALL, ticks=2)
    await started(core, made)
    await second_passes(core)
    assert core.leader.ready.runs[rows[1].id].phase is Phase.HELD
    await core.fetch("UPDATE jobs SET overlap = 'allow'")
    core.leader.job_edited(made.id)
    await core.sweeper.follow_edits()
    core.dispatcher.wake()
    assert (await started(core, made)).run_id == rows[1].id
