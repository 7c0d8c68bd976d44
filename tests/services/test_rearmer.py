"""Timers set anew: after a step of the clock (rule M4), and under newer zone data (rule Z1)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from horarium import clock as clocks
from horarium.domain import schedule, zones
from horarium.events import Name
from horarium.services import rearmer as rearmers
from horarium.services.rearmer import IDLE_S, Rearmer
from tests.builders import Core, Job

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
OLDER = "2000a"


def rearmer(core: Core) -> Rearmer:
    return Rearmer(core.database, core.leader, core.events)


async def timer(core: Core, made: Job) -> dict[str, Any]:
    row = await core.fetchrow("SELECT * FROM timers WHERE job_id = $1", made.id)
    assert row is not None
    return dict(row)


async def test_without_shards_it_looks_again_soon(core: Core) -> None:
    core.leader.drop_shards(list(core.leader.terms))
    assert await rearmer(core).run_once() == 1.0


async def test_a_clock_set_back_by_a_day_rearms_from_now(core: Core) -> None:
    """Otherwise the job would be silent for a day."""
    now = core.clock.now()
    made = await core.job(schedule.Every(HOUR, now - DAY))
    await core.arm(made.timer(now + DAY + HOUR, last=now + DAY))
    assert await rearmer(core).run_once() == IDLE_S
    row = await timer(core, made)
    assert row["scheduled_for"] == row["due_at"] == schedule.next_fire(made.schedule, now)
    assert row["last_scheduled_for"] is None
    (event,) = core.told.named(Name.CLOCK_STEPPED)
    assert event.fields["rearmed"] == 1
    assert set(core.leader.cursors.values()) == {clocks.EPOCH}


async def test_ticks_handled_within_three_hours_stay_handled(core: Core) -> None:
    now = core.clock.now()
    made = await core.job(schedule.Every(HOUR, now))
    await core.arm(made.timer(now + 3 * HOUR, last=now + 2 * HOUR))
    await rearmer(core).run_once()
    assert (await timer(core, made))["scheduled_for"] == now + 3 * HOUR
    assert list(core.told.named(Name.CLOCK_STEPPED)) == []


async def test_timers_of_other_shards_are_left_alone(core: Core) -> None:
    now = core.clock.now()
    made = await core.job(schedule.Every(HOUR, now))
    await core.arm(made.timer(now + DAY + HOUR, last=now + DAY, zone=OLDER))
    core.leader.drop_shards([made.shard])
    await rearmer(core).run_once()
    row = await timer(core, made)
    assert (row["scheduled_for"], row["zone_version"]) == (now + DAY + HOUR, OLDER)


async def test_newer_zone_data_move_the_next_time(core: Core) -> None:
    """As computed with old data it was an hour off."""
    now = core.clock.now()
    made = await core.job(schedule.Cron("30 9 * * *", "Africa/Casablanca"))
    right = schedule.next_fire(made.schedule, now)
    assert right is not None
    await core.arm(made.timer(right + HOUR, last=right - DAY, zone=OLDER))
    await rearmer(core).run_once()
    row = await timer(core, made)
    assert (row["scheduled_for"], row["due_at"], row["zone_version"]) == (right, right, zones.data_version())
    assert row["last_scheduled_for"] == right - DAY
    assert set(core.leader.cursors.values()) == {clocks.EPOCH}


async def test_newer_zone_data_keep_the_jitter(core: Core) -> None:
    now = core.clock.now()
    made = await core.job(schedule.Cron("30 9 * * *", "Europe/Riga"), jitter=timedelta(minutes=10))
    right = schedule.next_fire(made.schedule, now)
    assert right is not None
    await core.arm(made.timer(right + HOUR, last=right - DAY, zone=OLDER))
    await rearmer(core).run_once()
    row = await timer(core, made)
    assert row["due_at"] == schedule.due_time(made.id, right, made.schedule, right + DAY)
    assert row["due_at"] > right


async def test_timers_of_this_data_or_newer_are_left_alone(core: Core) -> None:
    now = core.clock.now()
    made = [await core.job(schedule.Cron("30 9 * * *", "Europe/Riga")) for _ in range(3)]
    for job, version in zip(made, (zones.data_version(), "9999z", ""), strict=True):
        await core.arm(job.timer(now + HOUR, zone=version))
    await rearmer(core).run_once()
    assert {(await timer(core, job))["scheduled_for"] for job in made} == {now + HOUR}


async def test_it_goes_on_batch_by_batch(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rearmers, "ROWS_AT_ONCE", 2)
    now = core.clock.now()
    zoned = [await core.job(schedule.Cron("30 9 * * *", "Europe/Riga")) for _ in range(5)]
    ahead = [await core.job(schedule.Every(HOUR, now)) for _ in range(5)]
    await core.arm(*(job.timer(now + HOUR, zone=OLDER) for job in zoned))
    await core.arm(*(job.timer(now + DAY + HOUR, last=now + DAY) for job in ahead))
    await rearmer(core).run_once()
    assert await core.fetchval("SELECT count(*) FROM timers WHERE zone_version = $1", OLDER) == 0
    assert await core.fetchval("SELECT count(*) FROM timers WHERE last_scheduled_for > $1", now + HOUR) == 0


BROKEN = ["nonsense", '["cron","30 9 * * *","Mars/Olympus"]']


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_schedule_that_cannot_be_planned_holds_up_nobody(
    core: Core, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both walks pass over it; the scheduler marks that job when its time comes (rule Z3)."""
    monkeypatch.setattr(rearmers, "ROWS_AT_ONCE", 1)
    now = core.clock.now()
    bad, ahead = await core.job(schedule.Every(HOUR, now)), await core.job(schedule.Every(HOUR, now))
    zoned = await core.job(schedule.Cron("30 9 * * *", "Europe/Riga"))
    await core.arm(
        bad.timer(now + DAY + HOUR, last=now + DAY, zone=OLDER)._replace(schedule_key=broken),
        ahead.timer(now + DAY + HOUR, last=now + DAY),
        zoned.timer(now + HOUR, zone=OLDER),
    )
    await rearmer(core).run_once()
    assert (await timer(core, ahead))["scheduled_for"] == schedule.next_fire(ahead.schedule, now)
    assert (await timer(core, zoned))["scheduled_for"] == schedule.next_fire(zoned.schedule, now)
    assert (await timer(core, bad))["scheduled_for"] == now + DAY + HOUR


async def test_a_timer_that_was_moved_meanwhile_stays_as_it_is(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule I4: the recomputed time counts only for the occurrence that it was computed from."""
    now = core.clock.now()
    made = await core.job(schedule.Cron("30 9 * * *", "Europe/Riga"))
    await core.arm(made.timer(now + HOUR, zone=OLDER))
    change = rearmers._change

    def moved(row: Any, at: datetime) -> Any:
        found = change(row, at)
        assert found is not None
        return found._replace(scheduled_for=found.scheduled_for - HOUR)

    monkeypatch.setattr(rearmers, "_change", moved)
    await rearmer(core).run_once()
    assert (await timer(core, made))["scheduled_for"] == now + HOUR


async def test_a_local_one_off_is_recomputed_from_its_text(core: Core) -> None:
    """Rule Z2: it was given as wall time, and its zone's offset is another one now."""
    local = (core.clock.now() + 60 * DAY).strftime("%Y-%m-%dT09:30:00")
    right = schedule.parse_run_at(local, "Africa/Casablanca", None, core.clock.now()).at
    timing = schedule.Once(right + HOUR, local, "Africa/Casablanca")
    made = await core.job(timing)
    await core.arm(made.timer(right + HOUR, zone=OLDER))
    await rearmer(core).run_once()
    row = await timer(core, made)
    assert (row["scheduled_for"], row["due_at"]) == (right, right)
    assert schedule.decode(row["schedule_key"]).timing == schedule.Once(right, local, "Africa/Casablanca")
    assert await core.fetchval("SELECT run_at FROM jobs") == right


async def test_a_local_one_off_whose_time_has_come_under_newer_data_is_due(core: Core) -> None:
    at = (core.clock.now() - 10 * timedelta(minutes=1)).replace(microsecond=0)
    made = await core.job(schedule.Once(at + HOUR, at.strftime("%Y-%m-%dT%H:%M:%S"), "Africa/Abidjan"))
    await core.arm(made.timer(at + HOUR, zone=OLDER))
    await rearmer(core).run_once()
    assert (await timer(core, made))["scheduled_for"] == at


async def test_a_one_off_with_an_offset_never_moves(core: Core) -> None:
    at = core.clock.now() + 60 * DAY
    made = await core.job(schedule.Once(at))
    await core.arm(made.timer(at, zone=OLDER))
    await rearmer(core).run_once()
    assert (await timer(core, made))["scheduled_for"] == at
