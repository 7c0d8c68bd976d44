"""Public bug reports of other schedulers that are about a whole life: each is named by its thread."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from horarium import clock as clocks
from horarium.domain import schedule
from horarium.domain.outcome import Outcome
from horarium.events import Name
from horarium.services import scheduler as schedulers
from horarium.services import waiters
from horarium.services.endings import Report
from horarium.services.shard_owner import ShardOwner
from horarium.store import runs, shards, timers
from tests import builders
from tests.builders import Core
from tests.lives import planes

MINUTE = timedelta(minutes=1)
MINUTELY = schedule.Cron("* * * * *", "UTC")


@pytest.fixture
async def core(emptied_url: str) -> AsyncIterator[Core]:
    """The duties of a node that leads every shard, with a clock that is moved by hand."""
    async with builders.running_core(emptied_url) as running:
        yield running


async def fired(core: Core) -> list[datetime]:
    """The nominal times of all live runs."""
    return [row[0] for row in await core.fetch("SELECT scheduled_for FROM runs ORDER BY scheduled_for")]


async def at(core: Core, instant: datetime) -> None:
    """Move the clock to an instant, forward or back, and let the scheduler look until it has nothing more to do."""
    core.clock.step((instant - core.clock.now()).total_seconds())
    while await core.scheduler.run_once() == 0:
        pass


async def test_jobs_run_on_after_each_change_of_leader(emptied_url: str) -> None:
    """dkron-io/dkron#998: after a leader change schedules stay listed but no longer run."""
    jobs, changes = 5, 3
    first: datetime | None = None
    for change in range(changes + 1):
        async with planes.node(emptied_url, f"node-{change}") as node:
            if first is None:
                first = await _every_second_jobs(node, jobs)
            await node.told.wait_for(Name.RUNS_FIRED, count=jobs)
            assert node.plane.watch.overdue_timers == 0
            await node.die()
    async with planes.node(emptied_url, "the-last") as node:
        counts = await node.fetch("SELECT job_id, scheduled_for, count(*) FROM runs GROUP BY 1, 2")
        times = sorted({row["scheduled_for"] for row in counts})
        assert {row["count"] for row in counts} == {1}
        assert len(counts) == jobs * len(times)
        assert times == [first + timedelta(seconds=n) for n in range(len(times))]


async def _every_second_jobs(node: planes.RunningNode, count: int) -> datetime:
    """Jobs whose first tick is the next full second; returns it."""
    start: datetime = (await node.database.now()).replace(microsecond=0) + timedelta(seconds=1)
    async with node.database.transaction() as connection:
        for _ in range(count):
            made = await builders.insert_job(connection, schedule.Cron("* * * * * *", "UTC"))
            await timers.upsert(connection, [made.timer(start)])
    node.plane.leader.rescan()
    return start


async def test_a_standby_that_cannot_take_the_lock_dispatches_nothing(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sibson/redbeat#208: an error while taking the lock is swallowed and the standby starts to dispatch as well."""
    made = await core.job(MINUTELY)
    now = core.clock.now()
    nominal = now.replace(second=0, microsecond=0) + MINUTE
    await core.arm(made.timer(nominal))

    async def refused(*_: object, **__: object) -> dict[int, int]:
        raise asyncpg.InsufficientPrivilegeError("permission denied for table shards")

    standby_leader = schedulers.Leader(core.clock, type(core.leader.ready)(lease_s=15))
    standby = schedulers.Scheduler(core.database, standby_leader, core.events, timedelta(minutes=2))
    monkeypatch.setattr(shards, "take", refused)
    await core.fetch("UPDATE shards SET leader = NULL WHERE shard = 0")
    owner = ShardOwner(
        core.database, standby_leader, clocks.DatabaseClock(), core.events, shards.NodeRow("standby", None, "0")
    )
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await owner.run_once()
    await standby.run_once()
    assert await fired(core) == []
    standby_leader.take_shards(dict(core.leader.terms))
    standby_leader.loaded(core.leader.terms)
    await standby.run_once()
    await at(core, nominal)
    assert (await fired(core)).count(nominal) == 1


async def test_a_clock_that_is_put_right_neither_repeats_nor_spins(core: Core) -> None:
    """robfig/cron#480: the clock was two hours fast and is put right; no job runs for the next two hours."""
    five = datetime(2027, 3, 1, 17, 0, tzinfo=UTC)
    core.clock.step((five - MINUTE - core.clock.now()).total_seconds())
    made = await core.job(MINUTELY)
    await core.arm(made.timer(five))
    await at(core, five)
    handled = await fired(core)
    assert handled[0] == five
    core.clock.step(-timedelta(hours=1, minutes=59).total_seconds())
    core.leader.rescan()
    assert await core.scheduler.run_once() >= schedulers.SCAN_EVERY_S
    assert await fired(core) == handled
    await at(core, handled[-1] + MINUTE)
    assert await fired(core) == [*handled, handled[-1] + MINUTE]


async def test_after_a_sleep_there_is_one_look_and_one_run(core: Core) -> None:
    """leo91000/graphile_worker_rs#337: after a laptop sleep the loop wakes many times a millisecond."""
    made = await core.job(MINUTELY)
    nominal = core.clock.now().replace(second=0, microsecond=0) + MINUTE
    await core.arm(made.timer(nominal))
    core.clock.step((nominal + timedelta(minutes=84) - core.clock.now()).total_seconds())
    core.leader.rescan()
    assert await core.scheduler.run_once() >= schedulers.SCAN_EVERY_S
    assert await fired(core) == [nominal + timedelta(minutes=84)]
    skip = await core.fetchrow("SELECT first, last, count, reason FROM skips")
    assert skip is not None
    assert tuple(skip) == (nominal, nominal + timedelta(minutes=83), 84, "coalesced")


async def test_a_step_of_a_second_around_midnight_makes_one_run_not_before_its_time(core: Core) -> None:
    """MichaelXavier/cron#30: a monthly job ran at 23:59:59.07 and again at 00:00:00 around a leap second."""
    midnight = datetime(2017, 1, 1, tzinfo=UTC)
    core.clock.step((midnight - timedelta(seconds=5) - core.clock.now()).total_seconds())
    made = await core.job(schedule.Cron("0 0 1 * *", "UTC"))
    await core.arm(made.timer(midnight))
    for seconds in (-0.5, -1.5, -0.07):
        await at(core, midnight + timedelta(seconds=seconds))
        assert await core.lease_now() == []
    await at(core, midnight)
    (lease,) = await core.lease()
    assert datetime.fromisoformat(lease["scheduled_for"]) == midnight
    await at(core, midnight + timedelta(seconds=1))
    assert await core.lease_now() == []
    assert await core.fetchval("SELECT count(*) FROM runs") == 1


async def test_a_run_too_large_for_the_wire_does_not_block_the_others(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """camunda/camunda#4420: one job too large for the transport blocks the queue: workers ask for it again and again."""
    monkeypatch.setattr(waiters, "MAX_RESPONSE_BYTES", 100_000)
    made = await core.job()
    now = core.clock.now()
    large = made.by_hand(now, payload=json.dumps({"text": "x" * 150_000}))
    small = [made.by_hand(now) for _ in range(100)]
    await core.make(large, *small)
    done: set[str] = set()
    while len(done) < len(small):
        for lease in await core.lease(slots=50):
            report = Report(runs.uuid_of(lease["run_id"]), lease["fencing_token"], Outcome.SUCCEEDED)
            assert (await core.completer.report([report])).lost == []
            done.add(lease["run_id"])
    assert done == {str(row.id) for row in small}
    await core.told.wait_for(Name.RUNS_DEAD)
    letter = await core.fetchrow("SELECT run_id, error FROM dead_letters")
    assert letter is not None
    assert letter["run_id"] == large.id
    assert "larger than a worker's answer may be" in letter["error"]
