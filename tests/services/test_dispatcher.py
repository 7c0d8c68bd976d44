"""Handing out: the long poll, the claim for a group, early claims, and what happens when either side goes away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

import pytest

from horarium import clock as clocks
from horarium.domain.run import Phase
from horarium.events import Name
from horarium.services import waiters
from horarium.store import runs, timers
from tests import builders
from tests.builders import Core, wanted

EARLY = timedelta(milliseconds=100)


@pytest.fixture
async def early_core(emptied_url: str) -> AsyncIterator[Core]:
    """A core that claims runs up to a tenth of a second before their instant."""
    async with builders.running_core(emptied_url, early=EARLY) as running:
        yield running


async def until_it_waits(core: Core, requests: int = 1) -> None:
    """Let the event loop go round until so many requests wait, and the dispatcher has seen them."""
    await builders.until(lambda: core.dispatcher.waiting() >= requests)


async def test_a_lease_tells_the_worker_all_it_needs(core: Core) -> None:
    made = await core.job(name='Grüße "an" alle', payload='{"big": 12345678901234567890, "a" : [1.0]}', timeout_s=77)
    row = made.by_hand(core.clock.now())
    await core.make(row)
    (lease,) = await core.lease("w1")
    token = lease.pop("fencing_token")
    assert lease == {
        "run_id": str(row.id),
        "job_id": str(made.id),
        "job_name": 'Grüße "an" alle',
        "attempt": 1,
        "trigger": "manual",
        "scheduled_for": row.scheduled_for.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "timeout_s": 77,
        "lease_s": 15,
        "target": {"handler": "work"},
        "payload": {"big": 12345678901234567890, "a": [1.0]},
    }
    stored = await core.row(row.id)
    assert stored is not None
    assert (stored["state"], stored["attempt"], stored["fencing_token"]) == ("running", 1, token)
    assert (stored["worker_id"], stored["started_at"] is not None) == ("w1", True)
    held = core.leader.ready.leases.get(row.id)
    assert held is not None
    assert (held.worker_id, held.token, held.attempt) == ("w1", token, 1)


async def test_a_payload_is_passed_on_digit_for_digit(core: Core) -> None:
    made = await core.job(payload='{"n":1.10,"b":  2}')
    await core.make(made.by_hand(core.clock.now()))
    (text,) = await core.dispatcher.lease("w1", wanted(), 1, builders.WAIT_S)
    assert text.endswith(',"payload":{"n":1.10,"b":  2}}')


async def test_a_run_with_a_payload_of_its_own_carries_it(core: Core) -> None:
    made = await core.job(payload='{"a": 1}', timeout_s=77)
    target = '{"handler": "other"}'
    await core.make(made.by_hand(core.clock.now(), payload='{"a": 2}', target=target, timeout_s=5))
    (lease,) = await core.lease()
    assert (lease["payload"], lease["target"], lease["timeout_s"]) == ({"a": 2}, {"handler": "other"}, 5)


async def test_who_waits_is_answered_when_a_run_is_added(core: Core) -> None:
    made = await core.job()
    waiting = asyncio.create_task(core.lease())
    await until_it_waits(core)
    await core.make(made.by_hand(core.clock.now()))
    assert len(await waiting) == 1


async def test_who_waits_is_answered_at_the_instant(core: Core) -> None:
    """Real time: the clock of this machine is the database's."""
    clock = clocks.DatabaseClock()
    core.leader.clock = clock
    made = await core.job()
    ready_at = clock.now() + timedelta(milliseconds=120)
    waiting = asyncio.create_task(core.lease())
    await until_it_waits(core)
    await core.make(made.tick(ready_at))
    (lease,) = await waiting
    assert clock.now() >= ready_at
    assert "start_in_s" not in lease


async def test_a_run_is_not_handed_out_before_its_instant(core: Core) -> None:
    made = await core.job()
    await core.make(made.tick(core.clock.now() + timedelta(seconds=5)))
    assert await core.lease_now() == []
    core.pass_time(4.9)
    assert await core.lease_now() == []
    core.pass_time(0.1)
    assert len(await core.lease()) == 1


async def test_a_poll_that_does_not_wait_is_answered_at_once(core: Core) -> None:
    assert await core.lease_now() == []
    made = await core.job()
    await core.make(made.by_hand(core.clock.now()))
    assert len(await core.lease_now()) == 1


async def test_no_more_than_the_slots_are_handed_out(core: Core) -> None:
    made = await core.job()
    await core.make(*(made.by_hand(core.clock.now()) for _ in range(5)))
    assert [len(await core.lease(slots=2)) for _ in range(3)] == [2, 2, 1]
    assert await core.lease_now() == []


async def test_who_waits_together_is_served_by_one_claim(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    claims: list[list[str]] = []
    claim = runs.claim

    async def counted(connection: object, ids: list[UUID], workers: list[str], *rest: object) -> object:
        claims.append(list(workers))
        return await claim(connection, ids, workers, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(runs, "claim", counted)
    made = await core.job()
    waiting = [asyncio.create_task(core.lease(f"w{n}", slots=2)) for n in range(4)]
    await until_it_waits(core, 4)
    await core.make(*(made.by_hand(core.clock.now()) for _ in range(8)))
    leases = await asyncio.gather(*waiting)
    assert claims == [["w0", "w0", "w1", "w1", "w2", "w2", "w3", "w3"]]
    assert [len(each) for each in leases] == [2, 2, 2, 2]
    assert len({lease["run_id"] for each in leases for lease in each}) == 8
    assert [{lease["run_id"] for lease in each} for each in leases] == [
        {str(row["id"]) for row in await core.fetch("SELECT id FROM runs WHERE worker_id = $1", f"w{n}")}
        for n in range(4)
    ]


async def test_no_run_is_handed_out_twice(core: Core) -> None:
    made = await core.job()
    await core.make(*(made.by_hand(core.clock.now()) for _ in range(60)))

    async def work(worker_id: str) -> list[str]:
        got: list[str] = []
        while leases := await core.lease_now(worker_id, slots=3):
            got += [lease["run_id"] for lease in leases]
        return got

    got = [run_id for each in await asyncio.gather(*(work(f"w{n}") for n in range(8))) for run_id in each]
    while leases := await core.lease_now(slots=60):
        got += [lease["run_id"] for lease in leases]
    assert len(got) == len(set(got)) == 60


async def test_tokens_rise_with_every_claim(core: Core) -> None:
    held = [await core.started() for _ in range(3)]
    assert [run.token for run in held] == sorted({run.token for run in held})


async def test_a_claim_cannot_take_what_is_no_longer_there(core: Core) -> None:
    """Deleted between choosing and claiming, and the poke was lost."""
    made = await core.job()
    kept, deleted = made.by_hand(core.clock.now()), made.by_hand(core.clock.now())
    await core.make(kept, deleted)
    await core.fetch("DELETE FROM runs WHERE id = $1", deleted.id)
    assert [lease["run_id"] for lease in await core.lease()] == [str(kept.id)]
    assert deleted.id not in core.leader.ready


async def test_who_gets_nothing_of_a_claim_is_answered_so(core: Core) -> None:
    made = await core.job()
    row = made.by_hand(core.clock.now())
    waiting = asyncio.create_task(core.lease())
    await until_it_waits(core)
    core.leader.add([builders.live(row)])
    assert await waiting == []


async def test_a_leader_of_the_past_claims_nothing(core: Core) -> None:
    made = await core.job()
    await core.make(made.by_hand(core.clock.now()))
    await core.fetch("UPDATE shards SET term = term + 1")
    assert await core.lease_now() == []
    assert await core.fetchval("SELECT state FROM runs") == "waiting"


async def test_a_deleted_jobs_tick_makes_no_run(core: Core) -> None:
    """The rows go in the transaction that deletes the job, between firing and claiming."""
    made = await core.job()
    at = core.clock.now()
    await core.arm(made.timer(at))
    await core.scheduler.run_once()
    async with core.database.transaction() as connection:
        await timers.delete(connection, [made.id])
        assert len(await runs.retract(connection, [made.id], None)) == 1
    assert await core.lease_now() == []
    assert len(core.leader.ready) == 0


async def test_who_goes_away_while_the_claim_is_under_way_gives_back(core: Core) -> None:
    made = await core.job()
    row = made.by_hand(core.clock.now())
    going = asyncio.create_task(core.lease("gone"))
    await until_it_waits(core)
    async with core.database.transaction() as connection:  # holds the claim back
        await connection.execute("LOCK TABLE runs IN EXCLUSIVE MODE")
        core.leader.add([builders.live(row)])
        await builders.until(lambda: core.leader.ready.runs[row.id].phase is Phase.CLAIMING)
        going.cancel()
        await runs.insert(connection, [row])
    (lease,) = await core.lease("w2")
    assert (lease["run_id"], lease["attempt"]) == (str(row.id), 1)
    assert core.told.total(Name.RUNS_INTERRUPTED) == 1
    assert await core.fetchval("SELECT worker_id FROM runs") == "w2"


async def test_who_goes_away_just_as_the_claim_ends_gives_back(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is there already, but nobody will read it."""
    made = await core.job()
    row = made.by_hand(core.clock.now())
    going = asyncio.create_task(core.dispatcher.lease("gone", wanted(), 1, builders.WAIT_S))
    await until_it_waits(core)
    answer = core.dispatcher._answer

    def answer_and_go(waiter: waiters.Waiter, leases: list[str]) -> None:
        answer(waiter, leases)
        going.cancel()

    monkeypatch.setattr(core.dispatcher, "_answer", answer_and_go)
    await core.make(row)
    await asyncio.wait({going})
    assert going.cancelled()
    monkeypatch.undo()
    await builders.until(going.cancelled)
    await core.completer.settle()
    (lease,) = await core.lease_now("w2")
    assert (lease["run_id"], lease["attempt"]) == (str(row.id), 1)


async def test_who_went_away_before_gets_nothing(core: Core) -> None:
    going = asyncio.create_task(core.lease("gone"))
    await until_it_waits(core)
    going.cancel()
    await asyncio.wait({going})
    assert core.dispatcher.waiting() == 0
    made = await core.job()
    await core.make(made.by_hand(core.clock.now()))
    assert len(await core.lease("w2")) == 1


async def test_without_a_database_nothing_is_handed_out_and_nothing_is_lost(core: Core) -> None:
    made = await core.job()
    await core.make(made.by_hand(core.clock.now()))
    await core.database.close()
    assert await core.lease_now() == []
    assert core.leader.ready.has_queued()
    waiting = asyncio.create_task(core.lease())
    await until_it_waits(core)
    await core.database.open()
    assert len(await waiting) == 1


async def test_a_claim_that_fails_is_made_again(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong, such as a deadlock with an edit: nobody waits for ever and no run is stuck."""
    claim = runs.claim
    failures = [RuntimeError("deadlock detected")]

    async def failing(*arguments: object) -> object:
        if failures:
            raise failures.pop()
        return await claim(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(runs, "claim", failing)
    made = await core.job()
    await core.make(made.by_hand(core.clock.now()))
    async with asyncio.timeout(builders.WAIT_S):
        assert len(await core.lease()) == 1
    assert core.told.total(Name.DUTY_FAILED) == 1


async def test_an_answer_lost_on_the_way_is_found_by_the_sweep(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim went through, its answer did not: the run comes back without an attempt once its worker does not list it."""
    claim = runs.claim
    cut = iter([True])

    async def cut_once(connection: object, *arguments: object) -> object:
        grants = await claim(connection, *arguments)  # type: ignore[arg-type]
        if next(cut, False):
            raise ConnectionResetError("cut")
        return grants

    monkeypatch.setattr(runs, "claim", cut_once)
    made = await core.job()
    row = made.by_hand(core.clock.now())
    await core.make(row)
    assert await core.lease_now("w1") == []
    assert await core.fetchval("SELECT state FROM runs") == "running"
    await core.sweeper.run_once()
    held = core.leader.ready.leases.get(row.id)
    assert held is not None
    assert held.worker_id == "w1"
    for _ in range(2):
        core.beat("w1")
    await core.take_back("w1")
    (lease,) = await core.lease("w2")
    assert (lease["run_id"], lease["attempt"]) == (str(row.id), 1)


async def test_a_run_is_claimed_early_for_who_waits_idle(early_core: Core) -> None:
    made = await early_core.job()
    waiting = asyncio.create_task(early_core.lease())
    await until_it_waits(early_core)
    early_core.clock.step(time.time() - early_core.clock.time())
    await early_core.make(made.tick(early_core.clock.now() + timedelta(minutes=5)))
    await until_it_waits(early_core)
    assert not waiting.done()
    early_core.clock.step(time.time() - early_core.clock.time())
    ready_at = early_core.clock.now() + timedelta(milliseconds=99)
    await early_core.make(made.tick(ready_at))
    (lease,) = await waiting
    assert 0 <= lease["start_in_s"] < 0.1
    row = await early_core.row(UUID(lease["run_id"]))
    assert row is not None
    assert row["started_at"] >= ready_at


async def test_a_run_that_was_ready_before_the_clock_was_set_back_is_started_at_once(early_core: Core) -> None:
    """Found by the simulation: its worker was told to begin in a day, and held it until then."""
    made = await early_core.job()
    await early_core.make(made.tick(early_core.clock.now()))
    early_core.releaser.release(0.0)
    early_core.clock.step(-86400.0)
    (lease,) = await early_core.lease()
    assert "start_in_s" not in lease


async def test_start_in_s_says_how_early(early_core: Core) -> None:
    """Worked out when the answer is written, by the clock that memory has of the database."""
    made = await early_core.job()
    waiting = asyncio.create_task(early_core.lease())
    await until_it_waits(early_core)
    ready_at = early_core.clock.now() + timedelta(seconds=60)
    await early_core.make(made.tick(ready_at))
    early_core.pass_time(59.95)
    (lease,) = await waiting
    assert lease["start_in_s"] == pytest.approx(0.05, abs=0.001)
    held = early_core.leader.ready.leases.get(UUID(lease["run_id"]))
    assert held is not None
    assert held.lag_s == 0


async def test_nothing_leaves_the_wheel_early_while_nobody_waits(early_core: Core) -> None:
    made = await early_core.job()
    row = made.tick(early_core.clock.now() + timedelta(seconds=60))
    await early_core.make(row)
    early_core.pass_time(59.95)
    for _ in range(10):
        await asyncio.sleep(0)
    assert early_core.leader.ready.runs[row.id].phase is Phase.WHEEL
    assert len(await early_core.lease()) == 1


async def test_runs_are_kept_apart_by_what_a_worker_can_do(core: Core) -> None:
    handler, http = await core.job(handler="mail"), await core.job(handler="@http")
    await core.make(handler.by_hand(core.clock.now()), http.by_hand(core.clock.now()))
    assert await core.lease_now(want=wanted(handlers=["other"])) == []
    assert [lease["job_id"] for lease in await core.lease(want=wanted())] == [str(handler.id)]
    assert [lease["job_id"] for lease in await core.lease(want=wanted(handlers=["@http"]))] == [str(http.id)]


async def test_a_worker_of_one_tenant_gets_no_other_tenants_runs(core: Core) -> None:
    made = await core.job(tenant_id="acme")
    await core.make(made.by_hand(core.clock.now()))
    assert await core.lease_now(want=wanted(tenant="other")) == []
    assert len(await core.lease(want=wanted(tenant="acme"))) == 1


async def test_what_is_too_large_for_one_answer_is_handed_out_in_several(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiters, "MAX_RESPONSE_BYTES", 1000)
    made = await core.job(payload=f'{{"text": "{"x" * 300}"}}')
    await core.make(*(made.by_hand(core.clock.now()) for _ in range(3)))
    got = [lease for _ in range(3) for lease in await core.lease()]
    assert len({lease["run_id"] for lease in got}) == 3
    assert {lease["attempt"] for lease in got} == {1}


async def test_a_run_that_is_larger_than_any_answer_is_a_dead_letter(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiters, "MAX_RESPONSE_BYTES", 1000)
    made = await core.job(payload=f'{{"text": "{"x" * 2000}"}}')
    row = made.by_hand(core.clock.now())
    await core.make(row)
    assert await core.lease() == []
    await core.told.wait_for(Name.RUNS_DEAD)
    ended = await core.ended(row.id)
    assert ended is not None
    assert ended["error"] == "Refused: the run is larger than a worker's answer may be"


async def test_draining_answers_who_waits_and_hands_out_no_more(core: Core) -> None:
    waiting = asyncio.create_task(core.lease())
    await until_it_waits(core)
    made = await core.job()
    await core.dispatcher.stop()
    assert await waiting == []
    await core.make(made.by_hand(core.clock.now()))
    assert await core.lease() == []
    assert await core.fetchval("SELECT state FROM runs") == "waiting"


async def test_a_fault_in_memory_does_not_end_the_dispatcher(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    take = core.leader.ready.take
    faults = [RuntimeError("a fault of ours")]

    def faulty(*arguments: object) -> object:
        if faults:
            raise faults.pop()
        return take(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(core.leader.ready, "take", faulty)
    made = await core.job()
    waiting = asyncio.create_task(core.lease())
    await core.make(made.by_hand(core.clock.now()))
    await builders.until(lambda: not faults)
    assert core.told.total(Name.DUTY_FAILED) == 1
    assert len(await waiting) == 1


async def test_the_lag_of_a_start_is_kept_for_the_figures(core: Core) -> None:
    made = await core.job()
    row = made.by_hand(core.clock.now())
    core.clock.advance(2.5)
    await core.make(row)
    await core.lease()
    held = core.leader.ready.leases.get(row.id)
    assert held is not None
    assert held.lag_s == pytest.approx(2.5)
