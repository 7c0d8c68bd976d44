"""Cancelling runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from horarium import errors
from tests.services.catalog_world import NOON, STRANGER, WHO, World, world


@pytest.fixture
async def at_work(emptied_url: str) -> AsyncIterator[World]:
    async with world(emptied_url) as made:
        yield made


async def test_a_waiting_run_ends_at_once(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    run_id = await at_work.manual.run_now(WHO, made.id)
    await at_work.canceller.cancel(WHO, run_id)
    assert await at_work.rows("runs", made) == []
    (ended,) = await at_work.rows("history", made)
    assert (ended["id"], ended["state"], ended["error"]) == (run_id, "cancelled", "cancelled by ada")
    assert at_work.heard.removed == [run_id]
    assert (await at_work.audited())[-1] == ("cancel", "run", None, None)


async def test_a_running_run_is_asked_to_stop_once(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    run_id = await at_work.manual.run_now(WHO, made.id)
    await at_work.start(run_id)
    await at_work.canceller.cancel(WHO, run_id)
    (first,) = await at_work.rows("runs", made)
    await at_work.canceller.cancel(WHO, run_id)
    (second,) = await at_work.rows("runs", made)
    assert (first["state"], first["cancel_requested_by"]) == ("running", "ada")
    assert first["cancel_requested_at"] == second["cancel_requested_at"] is not None
    assert at_work.heard.cancelling == [run_id, run_id]


async def test_what_has_ended_otherwise_cannot_be_cancelled(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    run_id = await at_work.manual.run_now(WHO, made.id)
    await at_work.end(run_id)
    with pytest.raises(errors.ConflictError) as raised:
        await at_work.canceller.cancel(WHO, run_id)
    assert raised.value.code == "already_finished"


async def test_cancelling_again_is_no_error(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    run_id = await at_work.manual.run_now(WHO, made.id)
    await asyncio.gather(*(at_work.canceller.cancel(WHO, run_id) for _ in range(4)))
    await at_work.canceller.cancel(WHO, run_id)
    assert len(await at_work.rows("history", made)) == 1
    assert [line[0] for line in await at_work.audited()] == ["create", "run", "cancel"]


async def test_a_tick_that_was_cancelled_ahead_of_its_time_is_not_made_again(at_work: World) -> None:
    made = await at_work.create(interval_s=8)
    await at_work.fire()
    (tick,) = await at_work.rows("runs", made)
    assert tick["scheduled_for"] == NOON + timedelta(seconds=8)
    await at_work.canceller.cancel(WHO, tick["id"])
    at_work.later(seconds=8)
    await at_work.fire()
    assert await at_work.run_times(made) == [NOON + timedelta(seconds=16)]


@pytest.mark.parametrize("run_id", [uuid4(), UUID(int=0), UUID(int=2**128 - 1)])
async def test_unknown_runs_are_not_found(at_work: World, run_id: UUID) -> None:
    with pytest.raises(errors.NotFoundError):
        await at_work.canceller.cancel(WHO, run_id)


async def test_runs_of_other_tenants_are_not_found(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    live, ended = [await at_work.manual.run_now(WHO, made.id) for _ in range(2)]
    await at_work.end(ended)
    for run_id in (live, ended):
        with pytest.raises(errors.NotFoundError):
            await at_work.canceller.cancel(STRANGER, run_id)
    assert len(await at_work.rows("runs", made)) == 1
