"""Memory against rows: each way in which they can differ is found and mended, and what only moves on is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from horarium import clock as clocks
from horarium import errors
from horarium.domain import schedule
from horarium.domain.outcome import Outcome
from horarium.domain.overlap import Overlap
from horarium.domain.run import Phase
from horarium.events import Name
from horarium.services import sweeper as sweepers
from horarium.store import runs
from tests import builders
from tests.builders import Core


@pytest.fixture
async def small_core(emptied_url: str) -> AsyncIterator[Core]:
    """A core whose memory holds four runs."""
    async with builders.running_core(emptied_url, capacity=4) as running:
        yield running


def during(
    monkeypatch: pytest.MonkeyPatch, function: str, happening: Callable[[], Awaitable[object]], *, times: int = 1
) -> None:
    """Let something happen after a store function has read its rows, before its caller sees them."""
    original: Any = getattr(runs, function)
    left = [times]

    async def interrupted(*arguments: Any) -> Any:
        rows = await original(*arguments)
        if left[0]:
            left[0] -= 1
            await happening()
        return rows

    monkeypatch.setattr(runs, function, interrupted)


async def sweep(core: Core) -> tuple[int, int]:
    """One sweep; how many runs it says that it took up, and dropped."""
    before = len(list(core.told.named(Name.SWEEP_FOUND)))
    await core.sweeper.run_once()
    told = list(core.told.named(Name.SWEEP_FOUND))[before:]
    return sum(event.fields["taken_up"] for event in told), sum(event.fields["dropped"] for event in told)


async def without_memory(core: Core, *rows: runs.RunRow) -> None:
    """Rows that nobody told the leader of."""
    async with core.database.connection() as connection:
        await runs.insert(connection, rows)


async def test_nothing_is_found_where_all_is_well(core: Core) -> None:
    await core.started()
    held = await core.started()
    await core.completer.report([held.report(Outcome.FAILED)])
    made = await core.job()
    await core.make(made.tick(core.clock.now() + timedelta(minutes=1)), made.by_hand(core.clock.now()))
    assert await sweep(core) == (0, 0)


async def test_a_waiting_row_that_memory_does_not_know_is_taken_up(core: Core) -> None:
    made = await core.job()
    row = made.by_hand(core.clock.now())
    await without_memory(core, row)
    assert await core.lease_now() == []
    assert await sweep(core) == (1, 0)
    assert [lease["run_id"] for lease in await core.lease()] == [str(row.id)]


async def test_a_running_row_that_memory_does_not_know_gets_one_fresh_lease(core: Core) -> None:
    held = await core.started(timeout_s=100)
    core.leader.ready.gone(held.run_id)
    core.pass_time(14)
    assert await sweep(core) == (1, 0)
    run = core.leader.ready.leases.get(held.run_id)
    assert run is not None
    assert (run.worker_id, run.token, run.attempt) == ("w1", held.token, 1)
    assert run.lease_until == core.clock.monotonic() + 15
    assert run.stop_at == pytest.approx(core.clock.monotonic() + 100 - 14 + 10, abs=1)
    assert core.beat("w1", held).lost == []


async def test_a_run_taken_up_past_its_timeout_still_gets_one_lease(core: Core) -> None:
    held = await core.started(timeout_s=1)
    core.leader.ready.gone(held.run_id)
    core.pass_time(1000)
    await sweep(core)
    run = core.leader.ready.leases.get(held.run_id)
    assert run is not None
    assert run.stop_at == core.clock.monotonic() + 15 + 10


async def test_a_run_that_was_asked_to_stop_is_still_asked_to_stop(core: Core) -> None:
    told, forgotten = await core.started(), await core.started()
    core.leader.ready.gone(forgotten.run_id)
    async with core.database.connection() as connection:
        await runs.request_cancel(connection, [told.run_id, forgotten.run_id], "ann")
    await sweep(core)
    assert set(core.beat("w1", told, forgotten).cancel) == {told.run_id, forgotten.run_id}


async def test_what_memory_holds_without_a_row_is_dropped(core: Core) -> None:
    made = await core.job()
    waiting = made.by_hand(core.clock.now())
    running = await core.started()
    await core.make(waiting)
    await core.fetch("DELETE FROM runs")
    assert await sweep(core) == (0, 2)
    assert waiting.id not in core.leader.ready
    assert running.run_id not in core.leader.ready


async def test_a_claim_whose_answer_was_lost_is_a_lease(core: Core) -> None:
    """Memory put the run back; its row runs under a token that memory has never seen."""
    made = await core.job()
    row = made.by_hand(core.clock.now())
    await core.make(row)
    await builders.until(core.leader.ready.has_queued)
    async with core.database.connection() as connection:
        terms = core.leader.named_terms()
        (claimed,) = await runs.claim(connection, [row.id], ["w1"], timedelta(seconds=15), terms)
    assert await sweep(core) == (1, 0)
    run = core.leader.ready.leases.get(row.id)
    assert run is not None
    assert (run.worker_id, run.token) == ("w1", claimed[1])
    assert await core.lease_now() == []


async def test_a_claim_whose_answer_was_lost_lets_no_held_run_go(core: Core) -> None:
    at = core.clock.now()
    made = await core.job(schedule.Every(timedelta(seconds=1), at), overlap=Overlap.QUEUE_ALL)
    first, second = made.tick(at), made.tick(at + timedelta(seconds=1))
    await core.make(first, second, overlap=Overlap.QUEUE_ALL)
    core.pass_time(1)
    await builders.until(lambda: core.leader.ready.runs[second.id].phase is Phase.HELD)
    async with core.database.connection() as connection:
        terms = core.leader.named_terms()
        (claimed,) = await runs.claim(connection, [first.id], ["w1"], timedelta(seconds=15), terms)
    assert await sweep(core) == (1, 0)
    assert core.leader.ready.runs[second.id].phase is Phase.HELD
    held = builders.Started(first.id, claimed[1], made)
    await core.completer.report([held.report()])
    assert [lease["run_id"] for lease in await core.lease()] == [str(second.id)]


async def test_an_end_whose_answer_was_lost_waits_again(core: Core) -> None:
    held = await core.started()
    again = runs.WaitAgain(held.run_id, held.token, core.clock.now() + timedelta(seconds=30), 1, 0, None, False)
    async with core.database.connection() as connection:
        await runs.wait_again(connection, [again])
    assert await sweep(core) == (1, 0)
    assert core.leader.ready.leases.get(held.run_id) is None
    assert await core.lease_now() == []
    core.pass_time(30)
    (lease,) = await core.lease("w2")
    assert lease["attempt"] == 2


async def test_shards_of_others_are_left_alone(core: Core) -> None:
    made = await core.job()
    row = made.by_hand(core.clock.now())
    await without_memory(core, row)
    core.leader.drop_shards([made.shard])
    assert await sweep(core) == (0, 0)
    assert row.id not in core.leader.ready


async def test_without_shards_there_is_nothing_to_do(core: Core) -> None:
    core.leader.drop_shards(list(core.leader.terms))
    assert await core.sweeper.run_once() == 30


async def test_many_rows_are_walked_page_by_page(core: Core) -> None:
    core.sweeper.rows_at_once = 3
    made = await core.job()
    await without_memory(core, *(made.by_hand(core.clock.now()) for _ in range(9)))
    assert await sweep(core) == (9, 0)
    await core.fetch("DELETE FROM runs")
    assert await sweep(core) == (0, 9)


async def test_a_tick_is_judged_when_all_that_lives_of_its_job_is_loaded(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tick stands on a page before that of the run that is under way, and releases go on while pages travel."""
    core.sweeper.rows_at_once = 1
    ticks = [await _running_and_due(core) for _ in range(3)]
    assert all(due < running for running, due in ticks)
    core.lose_all()

    async def released() -> None:
        core.releaser.release(0)

    during(monkeypatch, "load", released, times=100)
    await core.load_all()
    core.releaser.release(0)
    await asyncio.gather(*core.releaser.under_way())
    assert await core.fetchval("SELECT count(*) FROM skips") == len(ticks)
    assert {row["id"] for row in await core.fetch("SELECT id FROM runs")} == {running for running, _ in ticks}


async def test_what_has_begun_is_loaded_first_and_goes_on(core: Core) -> None:
    """Leases, retries and timers wait for nothing that waits, however much that is."""
    running, failed = await core.started(), await core.started()
    await core.completer.report([failed.report(Outcome.FAILED, retry_in=timedelta(seconds=30))])
    made = await core.job()
    waiting = made.by_hand(core.clock.now())
    await core.make(waiting)
    shards = set(core.lose_all())
    await core.sweeper.load(shards)
    core.leader.loaded(shards)
    assert {*core.leader.ready.runs} == {running.run_id, failed.run_id}
    assert core.beat("w1", running).lost == []
    assert set(core.leader.cursors) == shards
    assert await sweep(core) == (0, 0)  # what waits is not missing, it is not there yet
    await core.sweeper.fill(shards)
    core.leader.completed(shards)
    assert waiting.id in core.leader.ready


async def test_a_run_that_waits_may_start_before_all_that_waits_is_there(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    core.sweeper.rows_at_once = 1
    made = await core.job()
    rows = [made.by_hand(core.clock.now()) for _ in range(3)]
    await core.make(*rows)
    shards = set(core.lose_all())
    await core.sweeper.load(shards)
    core.leader.loaded(shards)
    given: list[int] = []

    async def leased() -> None:
        given.append(len(await core.lease_now()))

    during(monkeypatch, "load", leased, times=3)
    await core.sweeper.fill(shards)
    assert given == [0, 1, 1]


async def _running_and_due(core: Core) -> tuple[UUID, UUID]:
    """A job that skips what overlaps: its run that is under way, and a tick before it that jitter made due after it."""
    at = core.clock.now()
    made = await core.job(schedule.Every(timedelta(seconds=1), at), overlap=Overlap.SKIP)
    late, started = made.tick(at - timedelta(seconds=1), ready_at=at), made.tick(at)
    await core.make(started, overlap=Overlap.SKIP)
    await core.lease(slots=1)
    await without_memory(core, late)
    return started.id, late.id


async def test_a_run_that_ends_while_its_row_travels_is_no_find(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    held = await core.started()
    during(monkeypatch, "load", lambda: core.completer.report([held.report()]))
    assert await sweep(core) == (0, 0)
    assert held.run_id not in core.leader.ready


async def test_a_run_that_is_made_while_rows_travel_is_no_find(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row was read between the commit and the moment in which the leader was told."""
    made = await core.job()
    row = made.by_hand(core.clock.now())
    await without_memory(core, row)

    async def told() -> None:
        core.leader.add([builders.live(row)])

    during(monkeypatch, "load_by_id", told)
    assert await sweep(core) == (0, 0)


async def test_a_run_that_is_made_after_the_rows_were_read_is_kept(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await core.job()
    row = made.by_hand(core.clock.now())
    during(monkeypatch, "load", lambda: core.make(row))
    assert await sweep(core) == (0, 0)
    assert row.id in core.leader.ready


async def test_a_run_whose_end_is_committed_and_not_told_yet_is_not_dropped(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the commit and memory lies a round trip; the figures of that run would be lost."""
    held = await core.started()
    ended: list[Name] = []
    core.completer.on_ended = lambda run, name: ended.append(name)
    async with core.database.connection() as connection:
        await runs.succeed(connection, [held.run_id], [held.token], [None], [None])

    async def told() -> None:
        core.completer._forget([held.run_id], Name.RUNS_SUCCEEDED)

    during(monkeypatch, "load", told)
    assert await sweep(core) == (0, 0)
    assert ended == [Name.RUNS_SUCCEEDED]


async def test_two_sweeps_at_once_do_not_spoil_each_other(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refill begins while the last page of a sweep is on its way."""
    held = [await core.started() for _ in range(3)]
    during(monkeypatch, "load", lambda: core.sweeper.fill(set(core.leader.terms)))
    assert await sweep(core) == (0, 0)
    assert all(core.leader.ready.leases.get(run.run_id) for run in held)


async def test_runs_beyond_the_capacity_wait_in_the_table(small_core: Core) -> None:
    core = small_core
    made = await core.job()
    rows = [made.by_hand(core.clock.now()) for _ in range(10)]
    await core.make(*rows)
    assert len(core.leader.ready) == 4
    await core.sweeper.refill_once()
    assert len(core.leader.ready) == 4
    got: set[str] = set()
    while len(got) < 10:
        leases = await core.lease(slots=4)
        got.update(lease["run_id"] for lease in leases)
        held = [builders.Started(UUID(lease["run_id"]), lease["fencing_token"], made) for lease in leases]
        await core.completer.report([run.report() for run in held])
        await core.sweeper.refill_once()
    assert got == {str(row.id) for row in rows}
    assert not core.leader.ready.overflowed
    assert list(core.told.named(Name.SWEEP_FOUND)) == []


async def test_memory_is_refilled_when_half_of_it_is_free(small_core: Core) -> None:
    core = small_core
    made = await core.job()
    await core.make(*(made.by_hand(core.clock.now()) for _ in range(10)))
    held = [
        builders.Started(UUID(lease["run_id"]), lease["fencing_token"], made) for lease in await core.lease(slots=3)
    ]
    await core.completer.report([held[0].report(), held[1].report()])
    await core.sweeper.refill_once()
    assert len(core.leader.ready) == 2
    await core.completer.report([held[2].report()])
    await core.sweeper.refill_once()
    assert len(core.leader.ready) == 4


async def test_a_sweep_of_a_full_memory_finds_no_faults(small_core: Core) -> None:
    core = small_core
    made = await core.job()
    await core.make(*(made.by_hand(core.clock.now()) for _ in range(6)))
    assert await sweep(core) == (0, 0)
    assert core.leader.ready.overflowed


async def test_a_sweep_while_memory_is_filled_finds_no_faults(
    small_core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = small_core
    made = await core.job()
    await core.make(*(made.by_hand(core.clock.now()) for _ in range(9)))
    for lease in await core.lease(slots=4):
        await core.completer.report([builders.Started(UUID(lease["run_id"]), lease["fencing_token"], made).report()])
    during(monkeypatch, "load", core.sweeper.run_once)
    await core.sweeper.refill_once()
    assert list(core.told.named(Name.SWEEP_FOUND)) == []


async def test_a_sweep_during_a_take_over_leaves_it_to_the_load(core: Core) -> None:
    made = await core.job()
    row = made.by_hand(core.clock.now())
    await without_memory(core, row)
    shards = dict(core.leader.terms)
    core.leader.drop_shards(list(shards))
    core.leader.take_shards(shards)
    assert await sweep(core) == (0, 0)
    assert row.id not in core.leader.ready


async def test_a_take_over_loads_what_lives(core: Core) -> None:
    """Waiting, running and in back-off, as another leader left them."""
    running = await core.started()
    failed = await core.started()
    await core.completer.report([failed.report(Outcome.FAILED, retry_in=timedelta(seconds=30))])
    made = await core.job()
    waiting = made.by_hand(core.clock.now())
    await core.make(waiting)
    core.lose_all()
    assert len(core.leader.ready) == 0
    await core.load_all()
    assert len(core.leader.ready) == 3
    assert core.beat("w1", running).lost == []
    assert [lease["run_id"] for lease in await core.lease()] == [str(waiting.id)]
    core.pass_time(30)
    assert [lease["attempt"] for lease in await core.lease()] == [2]
    assert list(core.told.named(Name.SWEEP_FOUND)) == []


async def test_what_the_leader_before_was_told_meanwhile_is_found_a_lease_later(core: Core) -> None:
    """A run and a timer that were made after the load, and told to a leader that did not know yet that it was none."""
    shards = core.lose_all()
    await core.load_all()
    later = core.clock.now() + timedelta(hours=1)
    core.leader.cursors.update(dict.fromkeys(shards, later))  # the timers were scanned
    made = await core.job()
    row = made.by_hand(core.clock.now())
    await without_memory(core, row)
    core.pass_time(sweepers.NOTICED_AFTER_S - 0.1)
    await core.sweeper.refill_once()
    assert row.id not in core.leader.ready
    core.pass_time(0.1)
    await core.sweeper.refill_once()
    assert row.id in core.leader.ready
    assert set(core.leader.cursors.values()) == {clocks.EPOCH}
    core.leader.cursors.update(dict.fromkeys(shards, later))
    await core.sweeper.refill_once()  # once is enough
    assert set(core.leader.cursors.values()) == {later}


async def test_a_leader_with_very_many_runs_leaves_it_to_the_next_sweep(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweepers, "FEW_RUNS", 1)
    made = await core.job()
    for _ in range(2):
        await core.make(made.by_hand(core.clock.now()))
    await core.load_all()
    row = made.by_hand(core.clock.now())
    await without_memory(core, row)
    core.pass_time(sweepers.NOTICED_AFTER_S)
    await core.sweeper.refill_once()
    assert row.id not in core.leader.ready
    assert await sweep(core) == (1, 0)


async def test_an_edit_moves_waiting_runs_to_another_queue(core: Core) -> None:
    made = await core.job()
    now, later = made.by_hand(core.clock.now()), made.tick(core.clock.now() + timedelta(minutes=1))
    await core.make(now, later)
    await builders.until(core.leader.ready.has_queued)
    await core.fetch("UPDATE runs SET queue = 'other', priority = 9, target_key = 'new'")
    core.leader.job_edited(made.id)
    await core.sweeper.follow_edits()
    assert await core.lease_now() == []
    other = builders.wanted("other", handlers=["new"])
    assert [lease["run_id"] for lease in await core.lease(want=other)] == [str(now.id)]
    core.pass_time(60)
    assert [lease["run_id"] for lease in await core.lease(want=other)] == [str(later.id)]
    assert core.leader.edited == set()


async def test_an_edit_of_the_overlap_rule_counts_for_runs_that_are_live(core: Core) -> None:
    at = core.clock.now()
    made = await core.job(schedule.Every(timedelta(seconds=60), at))
    first, second = made.tick(at), made.tick(at + timedelta(seconds=60))
    await core.make(first, second)
    await core.lease()
    await core.fetch("UPDATE jobs SET overlap = 'queue_all'")
    core.leader.job_edited(made.id)
    await core.sweeper.follow_edits()
    core.pass_time(60)
    assert await core.lease_now() == []
    assert core.leader.ready.runs[second.id].overlap is Overlap.QUEUE_ALL


async def test_an_edit_takes_up_runs_that_memory_does_not_know(core: Core) -> None:
    made = await core.job()
    row = made.by_hand(core.clock.now())
    await without_memory(core, row)
    core.leader.job_edited(made.id)
    await core.sweeper.follow_edits()
    assert core.leader.ready.runs[row.id].phase is Phase.WHEEL


async def test_an_edit_while_an_edit_is_followed_is_followed_too(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await core.job()
    row = made.by_hand(core.clock.now())
    await core.make(row)

    async def edit() -> None:
        await core.fetch("UPDATE runs SET queue = 'second'")
        core.leader.job_edited(made.id)

    during(monkeypatch, "load_of_job", edit)
    core.leader.job_edited(made.id)
    await core.sweeper.follow_edits()
    assert core.leader.ready.runs[row.id].queue == "second"


async def test_an_edit_is_followed_once_the_database_can_be_asked(core: Core) -> None:
    made = await core.job()
    row = made.by_hand(core.clock.now())
    await core.make(row)
    await core.fetch("UPDATE runs SET queue = 'second'")
    core.leader.job_edited(made.id)
    await core.database.close()
    with pytest.raises(errors.UnavailableError):
        await core.sweeper.follow_edits()
    await core.database.open()
    await core.sweeper.follow_edits()
    assert core.leader.ready.runs[row.id].queue == "second"


async def test_a_database_that_stood_still_does_not_put_the_next_sweep_off_for_long(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulation: twenty times a stall of a minute is twenty minutes."""

    async def stalled(shards: set[int]) -> None:
        core.clock.advance(60)

    monkeypatch.setattr(core.sweeper, "_sweep", stalled)
    assert await core.sweeper.run_once() == 30 * sweepers.MOST_INTERVALS


async def test_after_broken_connections_it_looks_as_soon_as_it_is_quiet(core: Core) -> None:
    """A commit went through and its answer did not: the run is taken up within seconds, not with the next ordinary sweep."""
    made = await core.job()
    row = made.by_hand(core.clock.now())
    await without_memory(core, row)
    await core.sweeper.refill_once()
    assert row.id not in core.leader.ready
    core.database.losses += 1
    await core.sweeper.refill_once()
    assert row.id not in core.leader.ready
    core.pass_time(sweepers.QUIET_S)
    await core.sweeper.refill_once()
    assert row.id in core.leader.ready


async def test_a_full_memory_takes_up_what_waits_in_a_short_lane(small_core: Core) -> None:
    """A tenant has ten runs waiting and memory holds four: another one's run is found behind them in the table all the same."""
    core = small_core
    loud, quiet = await core.job(tenant_id="loud"), await core.job(tenant_id="quiet")
    await core.make(*(loud.by_hand(core.clock.now()) for _ in range(10)))
    core.leader.ready.release(clocks.to_seconds(core.clock.now()))
    hidden = quiet.by_hand(core.clock.now())
    async with core.database.connection() as connection:
        await runs.insert(connection, [hidden])
    await core.sweeper.run_once()
    await core.sweeper.refill_once()
    assert hidden.id in core.leader.ready
    assert len(core.leader.ready) == 4
    leases = await core.lease(slots=2)
    assert str(hidden.id) in {lease["run_id"] for lease in leases}, "it has its turn in the round robin"


async def test_a_new_leader_takes_up_what_waits_in_short_lanes_too(small_core: Core) -> None:
    core = small_core
    loud, quiet = await core.job(tenant_id="loud"), await core.job(tenant_id="quiet")
    rows = [*(loud.by_hand(core.clock.now()) for _ in range(20)), quiet.by_hand(core.clock.now())]
    core.sweeper.rows_at_once = 6
    async with core.database.connection() as connection:
        await runs.insert(connection, rows)
    await core.sweeper.fill(set(core.leader.terms))
    await core.sweeper.refill_once()
    assert rows[-1].id not in core.leader.ready, "nothing is ready yet: who has how much is not known"
    core.leader.ready.release(clocks.to_seconds(core.clock.now()))
    await core.sweeper.refill_once()
    assert rows[-1].id in core.leader.ready
    assert core.leader.ready.overflowed
