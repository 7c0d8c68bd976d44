"""What an edit does to the ticks and runs of a job (rules E1 to E5, J3)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from horarium import errors
from horarium.domain import job
from horarium.domain.states import JobStatus
from tests.services.catalog_world import NOON, WHO, World, instant, world

SKIPPED = """
INSERT INTO skips (job_id, tenant_id, shard, first, last, count, reason) VALUES ($1, 'acme', $2, $3, $4, $5, 'overlap')
"""


@pytest.fixture
async def at_work(emptied_url: str) -> AsyncIterator[World]:
    async with world(emptied_url) as made:
        yield made


async def test_a_new_schedule_counts_from_now_and_runs_nothing_at_once(at_work: World) -> None:
    """kubernetes/kubernetes#63371: slots of the new schedule that lay before the edit were started (E2)."""
    at_work.at("2026-12-01T10:30:00+00:00")
    made = await at_work.create(schedule="0 22 * * *")
    await at_work.patch(made, schedule="0 9 * * *")
    assert await at_work.next_time(made) == instant("2026-12-02T09:00:00Z")
    await at_work.fire()
    assert await at_work.rows("runs", made) == []
    assert await at_work.skipped(made) == []


async def test_a_yearly_job_made_minutely_has_missed_nothing(at_work: World) -> None:
    """csi-addons/kubernetes-csi-addons#374: the edit counted as thousands of missed runs (E2)."""
    made = await at_work.create(schedule="0 0 1 1 *")
    at_work.at("2027-06-01T12:00:30+00:00")
    await at_work.execute("UPDATE timers SET scheduled_for = '2028-01-01', due_at = '2028-01-01'")
    at_work.cook_the_books()
    await at_work.patch(made, schedule="* * * * *")
    assert await at_work.next_time(made) == instant("2027-06-01T12:01:00Z")
    assert await at_work.skipped(made) == []


async def test_a_new_schedule_takes_effect_at_the_next_look(at_work: World) -> None:
    """jobrunr/jobrunr#460: recurring jobs were cached for ever, so an edit had no effect before a restart (I3)."""
    made = await at_work.create(schedule="0 3 * * *")
    await at_work.patch(made, schedule="* * * * *")
    assert at_work.heard.timers[-1] == (made.shard, instant("2026-12-01T12:01:00Z"))
    at_work.later(seconds=51)
    await at_work.fire()
    assert await at_work.run_times(made) == [instant("2026-12-01T12:01:00Z")]


async def test_other_edits_leave_the_next_time_alone(at_work: World) -> None:
    made = await at_work.create(interval_s=3600)
    at_work.later(minutes=10)
    changed = await at_work.patch(
        made, payload={"v": 2}, priority=9, queue="q", target={"handler": "other"}, overlap="skip", timeout_s=5
    )
    timer = await at_work.timer(made)
    assert timer is not None
    assert timer["scheduled_for"] == NOON + timedelta(hours=1)
    row = [timer[name] for name in ("priority", "queue", "target_key", "policy_key", "job_version")]
    assert row == [9, "q", "other", "o=skip", 2]
    assert changed.anchor_at == NOON


async def test_an_interval_keeps_its_grid_unless_it_is_changed_itself(at_work: World) -> None:
    """sibson/redbeat#281: a restart put an overdue job off by a whole period (I2)."""
    made = await at_work.create(interval_s=3600)
    at_work.later(minutes=10)
    await at_work.patch(made, end_at="2027-01-01T00:00:00Z")
    assert await at_work.next_time(made) == NOON + timedelta(hours=1)
    await at_work.patch(made, interval_s=60)
    assert await at_work.next_time(made) == NOON + timedelta(minutes=11)


async def test_an_occurrence_whose_time_has_come_keeps_its_definition(at_work: World) -> None:
    made = await at_work.create(schedule="* * * * *", payload={"v": 1}, timeout_s=10, target={"handler": "old"})
    at_work.later(seconds=60)
    await at_work.fire()
    await at_work.patch(made, payload={"v": 2}, timeout_s=20, target={"handler": "new"}, retry={"max_attempts": 9})
    (run,) = await at_work.rows("runs", made)
    assert [run[name] for name in ("payload", "timeout_s", "target_key")] == ['{"v":1}', 10, "old"]
    assert json.loads(run["target"]) == {"handler": "old"}
    assert json.loads(run["retry"]) == {}


async def test_retries_keep_the_definition_too(at_work: World) -> None:
    made = await at_work.create(schedule="* * * * *", payload={"v": 1})
    at_work.later(seconds=60)
    await at_work.fire()
    (run,) = await at_work.rows("runs", made)
    await at_work.execute("UPDATE runs SET attempt = 1, ready_at = ready_at + interval '1 hour'")
    await at_work.patch(made, payload={"v": 2}, schedule="0 0 1 1 *")
    (kept,) = await at_work.rows("runs", made)
    assert (kept["id"], kept["payload"]) == (run["id"], '{"v":1}')


async def test_ticks_made_ahead_take_the_new_definition(at_work: World) -> None:
    made = await at_work.create(interval_s=4, payload={"v": 1})
    await at_work.fire()
    at_work.later(seconds=5)
    await at_work.patch(made, payload={"v": 2}, priority=9, queue="q", target={"handler": "new"})
    come, ahead = await at_work.rows("runs", made)
    assert (come["payload"], come["priority"], come["queue"], come["job_version"]) == ('{"v":1}', 5, "default", 1)
    assert (ahead["payload"], ahead["target"]) == (None, None)
    assert (ahead["priority"], ahead["queue"], ahead["target_key"], ahead["job_version"]) == (9, "q", "new", 2)
    assert at_work.heard.edited == [made.id]


async def test_a_new_schedule_takes_back_ticks_ahead(at_work: World) -> None:
    made = await at_work.create(interval_s=4)
    await at_work.fire()
    at_work.later(seconds=5)
    come, ahead = await at_work.rows("runs", made)
    await at_work.patch(made, interval_s=3600)
    assert [row["id"] for row in await at_work.rows("runs", made)] == [come["id"]]
    assert at_work.heard.removed == [ahead["id"]]
    assert await at_work.next_time(made) == NOON + timedelta(seconds=3605)


async def test_a_tick_that_was_claimed_or_cancelled_ahead_is_not_made_twice(at_work: World) -> None:
    made = await at_work.create(schedule="*/4 * * * * *")
    await at_work.fire()
    first, second = await at_work.rows("runs", made)
    await at_work.start(first["id"])
    await at_work.canceller.cancel(WHO, second["id"])
    await at_work.patch(made, schedule="*/2 * * * * *")
    assert await at_work.next_time(made) == NOON + timedelta(seconds=10)


async def test_an_occurrence_between_its_nominal_and_its_due_time_survives_other_edits(at_work: World) -> None:
    """temporalio/temporal#4866: an update sent in the jitter of an occurrence lost it (E3)."""
    made = await at_work.create(interval_s=300, jitter_s=60)
    timer = await at_work.timer(made)
    assert timer is not None
    at_work.at(timer["scheduled_for"] + (timer["due_at"] - timer["scheduled_for"]) / 2)
    await at_work.patch(made, payload={})
    await at_work.patch(made, description="x")
    kept = await at_work.timer(made)
    assert kept is not None
    assert (kept["scheduled_for"], kept["due_at"]) == (timer["scheduled_for"], timer["due_at"])


@pytest.mark.parametrize("fired", [False, True])
@pytest.mark.parametrize(("schedule", "stays"), [("*/15 * * * *", True), ("7 * * * *", False)])
async def test_an_occurrence_in_its_jitter_stays_if_the_new_schedule_has_it(
    at_work: World, fired: bool, schedule: str, stays: bool
) -> None:
    """temporalio/temporal#4866: a new schedule keeps it only if the nominal time is one of its own (J3)."""
    made = await at_work.create(schedule="*/5 * * * *", jitter_s=60)
    at_work.at("2026-12-01T12:14:30+00:00")
    await at_work.execute("UPDATE timers SET scheduled_for = '2026-12-01T12:15Z', due_at = '2026-12-01T12:15:08Z'")
    at_work.cook_the_books()
    if fired:
        at_work.later(seconds=29)
        await at_work.fire()
    at_work.at("2026-12-01T12:15:05+00:00")
    await at_work.patch(made, schedule=schedule)
    kept = await at_work.rows("runs", made)
    nominal = instant("2026-12-01T12:15:00Z")
    if stays:
        assert [(row["scheduled_for"], row["ready_at"]) for row in kept] == [(nominal, instant("2026-12-01T12:15:08Z"))]
        assert await at_work.next_time(made) == instant("2026-12-01T12:30:00Z")
        assert await at_work.skipped(made) == []
    else:
        assert kept == []
        assert await at_work.next_time(made) == instant("2026-12-01T13:07:00Z")
        assert await at_work.skipped(made) == [("edited", nominal, nominal, 1)]


async def test_an_occurrence_due_before_the_edit_still_runs(at_work: World) -> None:
    made = await at_work.create(schedule="* * * * *", payload={"v": 1})
    at_work.later(seconds=80)
    await at_work.patch(made, schedule="0 0 1 1 *", payload={"v": 2})
    (run,) = await at_work.rows("runs", made)
    assert (run["scheduled_for"], run["payload"]) == (instant("2026-12-01T12:01:00Z"), None)
    assert [row.id for row in at_work.heard.added] == [run["id"]]
    assert await at_work.next_time(made) == instant("2027-01-01T00:00:00Z")


async def test_an_edit_after_an_outage_settles_it_by_the_old_policy(at_work: World) -> None:
    made = await at_work.create(schedule="* * * * *")
    at_work.later(minutes=10)
    await at_work.patch(made, priority=9)
    assert await at_work.run_times(made) == [instant("2026-12-01T12:10:00Z")]
    assert await at_work.skipped(made) == [
        ("coalesced", instant("2026-12-01T12:01:00Z"), instant("2026-12-01T12:09:00Z"), 9)
    ]
    assert await at_work.next_time(made) == instant("2026-12-01T12:11:00Z")


async def test_a_changed_jitter_moves_the_due_time_only(at_work: World) -> None:
    made = await at_work.create(schedule="0 13 * * *")
    await at_work.patch(made, jitter_s=600)
    timer = await at_work.timer(made)
    assert timer is not None
    assert timer["scheduled_for"] == instant("2026-12-01T13:00:00Z") < timer["due_at"]


async def test_a_finished_job_with_a_later_end_goes_on(at_work: World) -> None:
    made = await at_work.create(schedule="* * * * *", end_at="2026-12-01T12:01:00Z")
    at_work.later(seconds=60)
    await at_work.fire()
    assert (await at_work.view(made)).status is JobStatus.FINISHED
    assert (await at_work.patch(made, description="over")).status is JobStatus.FINISHED
    assert (await at_work.patch(made, end_at="2026-12-01T13:00:00Z")).status is JobStatus.ACTIVE
    assert await at_work.next_time(made) == instant("2026-12-01T12:02:00Z")


async def test_a_job_in_error_is_mended_by_a_new_schedule(at_work: World) -> None:
    made = await at_work.create(schedule="0 2 * * *", timezone="Europe/Riga")
    await at_work.execute("UPDATE jobs SET status = 'error', status_reason = 'no such zone'")
    await at_work.execute("DELETE FROM timers")
    assert (await at_work.patch(made, priority=9)).status is JobStatus.ERROR
    mended = await at_work.patch(made, timezone="Europe/Vilnius")
    assert (mended.status, mended.status_reason) == (JobStatus.ACTIVE, None)
    assert await at_work.next_time(made) == instant("2026-12-02T00:00:00Z")


async def test_a_one_off_can_be_moved(at_work: World) -> None:
    made = await at_work.create(run_at="2026-12-02T00:00:00Z")
    await at_work.patch(made, run_at="2026-12-03T00:00:00Z")
    assert await at_work.next_time(made) == instant("2026-12-03T00:00:00Z")
    await at_work.patch(made, run_in_s=60)
    assert await at_work.next_time(made) == NOON + timedelta(seconds=60)
    await at_work.patch(made, run_at="now")
    assert await at_work.timer(made) is None
    assert await at_work.run_times(made) == [NOON]


async def test_a_one_off_at_the_very_time_of_a_tick_that_has_ended_is_not_run_again(at_work: World) -> None:
    """Found by the simulation (rule I1): a run that somebody had cancelled came back under its id."""
    made = await at_work.create(schedule="*/5 * * * * *")
    await at_work.fire()
    (tick, *_) = await at_work.rows("runs", made)
    await at_work.canceller.cancel(WHO, tick["id"])
    at_work.later(seconds=30)
    await at_work.patch(made, schedule=None, run_at=tick["scheduled_for"].isoformat())
    assert tick["id"] not in [run["id"] for run in await at_work.rows("runs", made)]
    assert (await at_work.view(made)).job.spec.run_at == tick["scheduled_for"]


@pytest.mark.parametrize(
    ("first", "last", "count", "at", "is_run"),
    [
        (5, 5, 1, 5, False),
        (5, 15, 3, 10, False),
        (5, 15, 2, 7, True),
        (5, 5, 1, 10, True),
    ],
    ids=["the one that was skipped", "one of a stretch", "none of the schedule's", "another"],
)
async def test_a_one_off_at_the_very_time_of_a_tick_that_was_skipped_is_not_run_either(
    at_work: World, first: int, last: int, count: int, at: int, is_run: bool
) -> None:
    """Found by the simulation: a tick stood in the books as coalesced, and ran."""
    made = await at_work.create(schedule="*/5 * * * * *")
    at_work.later(seconds=30)
    times = [NOON + timedelta(seconds=each) for each in (first, last, at)]
    await at_work.execute("DELETE FROM timers")
    at_work.cook_the_books()
    await at_work.execute(SKIPPED, made.id, made.shard, *times[:2], count)
    await at_work.patch(made, schedule=None, run_at=times[2].isoformat())
    assert (times[2] in await at_work.run_times(made)) is is_run


async def test_a_one_off_made_ahead_of_its_time_can_be_moved(at_work: World) -> None:
    made = await at_work.create(run_in_s=5)
    await at_work.fire()
    assert await at_work.run_times(made) == [NOON + timedelta(seconds=5)]
    await at_work.patch(made, run_at="2026-12-03T00:00:00Z")
    assert await at_work.rows("runs", made) == []
    assert await at_work.next_time(made) == instant("2026-12-03T00:00:00Z")


async def test_a_one_off_whose_time_has_passed_can_be_described_anew_but_not_moved_back(at_work: World) -> None:
    made = await at_work.create(run_at="now")
    (run,) = await at_work.rows("runs", made)
    await at_work.end(run["id"])
    at_work.later(hours=1)
    assert (await at_work.patch(made, description="done", run_at="2026-12-01T12:00:00Z")).spec.description == "done"
    with pytest.raises(errors.InvalidError) as raised:
        await at_work.patch(made, run_at="2026-12-01T12:00:01Z")
    assert raised.value.faults[0].code == "run_at_in_past"
    assert await at_work.rows("runs", made) == []


async def test_a_one_off_in_local_time_follows_its_zone(at_work: World) -> None:
    made = await at_work.create(run_at="2027-07-01T09:00:00", timezone="Europe/Riga")
    assert await at_work.next_time(made) == instant("2027-07-01T06:00:00Z")
    await at_work.patch(made, timezone="Asia/Kolkata")
    assert await at_work.next_time(made) == instant("2027-07-01T03:30:00Z")
    absolute = await at_work.create(name="absolute", run_at="2027-07-01T09:00:00Z", timezone="Europe/Riga")
    await at_work.patch(absolute, timezone="Asia/Kolkata")
    assert await at_work.next_time(absolute) == instant("2027-07-01T09:00:00Z")


async def test_one_kind_of_timing_is_exchanged_for_another(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    with pytest.raises(errors.InvalidError) as raised:
        await at_work.patch(made, interval_s=60)
    assert raised.value.faults[0].code == "one_timing"
    await at_work.patch(made, schedule=None, interval_s=60)
    assert await at_work.next_time(made) == NOON + timedelta(seconds=60)
    once = await at_work.patch(made, interval_s=None, run_at="2027-01-01T00:00:00Z")
    assert job.is_one_off(once.spec)
    assert await at_work.next_time(made) == instant("2027-01-01T00:00:00Z")


async def test_a_faulty_edit_changes_nothing(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    for patch in ({"schedule": "0 0 30 2 *"}, {"priority": 10}, {"nmae": "x"}, {"target": None}, {"name": None}):
        with pytest.raises(errors.InvalidError):
            await at_work.patch(made, **patch)
    assert (await at_work.view(made)).job == made


async def test_an_edit_that_changes_nothing_is_none(at_work: World) -> None:
    made = await at_work.create(schedule="@daily", priority=7)
    assert await at_work.patch(made) == made
    assert await at_work.patch(made, priority=7, schedule="@daily") == made
    assert [line[0] for line in await at_work.audited()] == ["create"]


async def test_a_secret_that_is_sent_back_masked_stays(at_work: World) -> None:
    http = {"url": "https://example.com", "secret": "s3cret", "headers": {"X-Api-Key": "k", "X-Team": "t"}}
    made = await at_work.create(schedule="@daily", target={"http": http})
    masked = {**http, "secret": "***", "headers": {"X-Api-Key": "***", "X-Team": "u"}}
    changed = await at_work.patch(made, target={"http": masked})
    assert changed.spec.target["http"] == {**http, "headers": {"X-Api-Key": "k", "X-Team": "u"}}
    put, _ = await at_work.catalog.put(
        WHO, "nightly", at_work.spec(name="nightly", schedule="@daily", target={"http": masked})
    )
    assert put == changed
    gone = await at_work.patch(made, target={"http": {"secret": None}})
    assert "secret" not in gone.spec.target["http"]
    with pytest.raises(errors.InvalidError):
        await at_work.patch(made, target={"http": {"secret": "***"}})


async def test_a_job_can_be_renamed_but_not_to_a_taken_name(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    await at_work.create(name="taken", schedule="@daily")
    assert (await at_work.patch(made, name="renamed")).id == made.id
    assert (await at_work.catalog.get(WHO, "renamed")).job.id == made.id
    with pytest.raises(errors.ConflictError) as raised:
        await at_work.patch(made, name="taken")
    assert raised.value.code == "name_taken"
    with pytest.raises(errors.NotFoundError):
        await at_work.catalog.get(WHO, "nightly")


async def test_an_edit_in_the_second_of_a_fire_is_not_undone(at_work: World) -> None:
    """ngageoint/scale#1706: the scheduler wrote back its old copy over an edit (E5)."""
    made = await at_work.create(schedule="* * * * *", payload={"v": 0})
    for round_ in range(1, 41):
        at_work.later(minutes=1)
        await asyncio.gather(at_work.fire(), at_work.patch(made, payload={"v": round_}, priority=round_ % 10))
        stored = (await at_work.view(made)).job
        assert stored.spec.payload == f'{{"v":{round_}}}'
        timer = await at_work.timer(made)
        assert timer is not None
        assert (timer["priority"], timer["job_version"]) == (round_ % 10, stored.version)
        assert timer["scheduled_for"] > at_work.clock.now()
    assert len(await at_work.run_times(made)) == 40


async def test_edits_at_one_moment_come_one_after_the_other(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    await asyncio.gather(*(at_work.patch(made, tags=[f"t{number}"], priority=number) for number in range(8)))
    assert (await at_work.view(made)).job.version == 9
    results = await asyncio.gather(
        *(at_work.catalog.patch(WHO, made.id, {"description": str(n)}, 9) for n in range(5)), return_exceptions=True
    )
    assert sum(isinstance(result, errors.StaleVersionError) for result in results) == 4
