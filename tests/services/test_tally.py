"""Figures of what ended: histograms, minutes, and nothing lost while the database is away."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium import errors
from horarium.domain.outcome import Outcome
from horarium.events import Name
from horarium.services.tally import BUCKETS, Tally, bucket_of, by_queue
from horarium.store import rollups
from tests.builders import Core, a_run


@pytest.fixture
def tally(core: Core) -> Tally:
    counting = Tally(core.database, core.leader)
    core.completer.on_ended = counting.ended
    return counting


@given(st.floats(0, 1e6))
def test_a_duration_lies_in_its_bucket(seconds: float) -> None:
    bucket = bucket_of(seconds)
    assert 0 <= bucket < BUCKETS
    assert bucket == BUCKETS - 1 or seconds * 1000 <= 2**bucket
    assert bucket == 0 or seconds * 1000 > 2 ** (bucket - 1)


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(0, 0), (-1, 0), (0.001, 0), (0.0011, 1), (0.002, 1), (0.004, 2), (1.024, 10), (1.025, 11), (1e9, BUCKETS - 1)],
)
def test_bounds_are_powers_of_two_in_ms(seconds: float, bucket: int) -> None:
    assert bucket_of(seconds) == bucket


async def test_each_end_is_counted_once(core: Core, tally: Tally) -> None:
    succeeded = [await core.started(queue="mail") for _ in range(2)]
    failed, dead = await core.started(queue="mail"), await core.started(queue="mail", retry={"max_attempts": 1})
    interrupted = await core.started(queue="mail")
    core.clock.advance(3)
    await core.completer.report(
        [
            *(run.report() for run in succeeded),
            failed.report(Outcome.FAILED),
            dead.report(Outcome.FAILED),
            interrupted.report(Outcome.INTERRUPTED),
        ]
    )
    await core.completer.report([succeeded[0].report()])  # a repeat
    expected = {"succeeded": 2, "failed": 1, "dead": 1, "interrupted": 1}
    assert {outcome: count.count for (_, outcome), count in tally.by_outcome().items()} == expected
    ended = by_queue(tally.by_outcome())["mail"]
    assert (ended.count, sum(ended.duration_ms), ended.duration_ms[bucket_of(3)]) == (5, 5, 5)
    assert ended.duration_sum == pytest.approx(15)


async def test_counts_are_written_by_minute_and_added_up(core: Core, tally: Tally) -> None:
    for _ in range(2):
        held = await core.started(queue="mail", tenant_id="acme")
        core.clock.advance(0.001)
        await core.completer.report([held.report()])
        await tally.run_once()
    (row,) = await core.fetch("SELECT * FROM rollups")
    assert (row["tenant_id"], row["queue"], row["outcome"], row["count"]) == ("acme", "mail", "succeeded", 2)
    assert row["minute"] == core.clock.now().replace(second=0, microsecond=0)
    assert row["duration_ms"] == [2] + [0] * (BUCKETS - 1)
    assert sum(row["lag_ms"]) == 2
    core.clock.advance(61)
    held = await core.started(queue="mail", tenant_id="acme")
    await core.completer.report([held.report()])
    await tally.run_once()
    assert await core.fetchval("SELECT count(*) FROM rollups") == 2


async def test_what_cannot_be_written_is_added_to_the_next_time(core: Core, tally: Tally) -> None:
    held = [await core.started() for _ in range(2)]
    await core.completer.report([held[0].report()])
    await core.database.close()
    for _ in range(2):
        with pytest.raises(errors.UnavailableError):
            await tally.run_once()
        assert tally.by_outcome()["default", "succeeded"].count == 1
    await core.database.open()
    await core.completer.report([held[1].report()])
    assert tally.by_outcome()["default", "succeeded"].count == 2
    await tally.run_once()
    assert await core.fetchval("SELECT sum(count) FROM rollups") == 2
    assert tally.by_outcome()["default", "succeeded"].count == 2
    await tally.run_once()
    assert await core.fetchval("SELECT sum(count) FROM rollups") == 2


async def test_figures_since_the_start_count_what_is_being_written_once(
    core: Core, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    async def writing(*_: object) -> None:
        seen.append(tally.by_outcome()["mail", "succeeded"].count)
        tally.ended([a_run(queue="mail")], Name.RUNS_SUCCEEDED)
        seen.append(tally.by_outcome()["mail", "succeeded"].count)

    monkeypatch.setattr(rollups, "add", writing)
    tally.ended([a_run(queue="mail")], Name.RUNS_SUCCEEDED)
    await tally.run_once()
    assert [*seen, tally.by_outcome()["mail", "succeeded"].count] == [1, 2, 2]


async def test_the_lag_of_the_start_is_counted(core: Core, tally: Tally) -> None:
    made = await core.job()
    await core.make(made.by_hand(core.clock.now() - timedelta(seconds=2)))
    (lease,) = await core.lease()
    run = next(iter(core.leader.ready.leases.all()))
    assert str(run.id) == lease["run_id"]
    tally.ended([run], Name.RUNS_SUCCEEDED)
    assert by_queue(tally.by_outcome())["default"].lag_ms[bucket_of(2)] == 1
    assert by_queue(tally.by_outcome())["default"].lag_sum == pytest.approx(2)


async def test_an_end_of_a_run_that_never_started_has_no_duration(core: Core, tally: Tally) -> None:
    tally.ended([a_run(queue="mail")], Name.RUNS_CANCELLED)
    assert by_queue(tally.by_outcome())["mail"].duration_sum == 0
    assert {key: count.count for key, count in tally.by_outcome().items()} == {("mail", "cancelled"): 1}
