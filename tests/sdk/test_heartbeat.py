"""The heartbeat: beats whatever handlers do, carries what they say, and learns of lost and cancelled runs."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest
from aiohttp import web

from horarium import Context, Horarium, LeaseLostError
from horarium.sdk import executor, processes, threads, worker
from tests.sdk import peer as peers


@pytest.fixture
def short(peer: peers.Peer) -> peers.Peer:
    """A peer whose leases are short, so that heartbeats come quickly."""
    peer.lease_s = 0.6
    return peer


def carriers(h: Horarium) -> dict[str, worker.Carrier]:
    return executor.carriers_of(h.handlers, threads.Threads(), processes.Processes("nothing:h"))


async def test_it_beats_while_a_handler_blocks_the_event_loop(short: peers.Peer) -> None:
    """The worker runs in a loop of its own; its handler blocks that loop until two heartbeats have come."""
    h, began, release = Horarium(), threading.Event(), threading.Event()

    @h.job("rude")
    async def rude(ctx: Context) -> bool:
        began.set()
        return release.wait(peers.PATIENCE_S)

    stop = asyncio.Event()

    async def work(inner_stop: asyncio.Event) -> None:
        async with peers.working(short, carriers(h)):
            await inner_stop.wait()

    inner = asyncio.new_event_loop()
    inner_stop = asyncio.Event()
    thread = threading.Thread(target=lambda: inner.run_until_complete(work(inner_stop)))
    thread.start()
    (run_id,) = await short.offer("rude")
    await asyncio.to_thread(began.wait, peers.PATIENCE_S)
    await short.beat_of(run_id)
    await short.beat_of(run_id)
    release.set()
    assert (await short.result(run_id)).outcome == "succeeded"
    inner.call_soon_threadsafe(inner_stop.set)
    await asyncio.to_thread(thread.join)
    inner.close()
    assert not stop.is_set()


async def test_one_beat_lists_all_runs_with_progress_and_new_lines(short: peers.Peer) -> None:
    h, go_on = Horarium(), asyncio.Event()

    @h.job("talk")
    async def talk(ctx: Context, name: str) -> None:
        await ctx.log(f"hello from {name}", who=name)
        await ctx.progress(0.25, name)
        await go_on.wait()
        await ctx.log("bye")

    async with peers.working(short, carriers(h)):
        first, second = await short.offer("talk", {"name": "a"}, {"name": "b"})
        run = await short.beat_of(first, lambda run: run.logs)
        assert [(line.seq, line.message) for line in run.logs] == [(1, "hello from a")]
        assert run.progress is not None and run.progress.message == "a"
        assert {run.run_id for run in short.beats[-1].runs} == {first, second}
        await short.beat_of(first, lambda run: not run.logs)  # acknowledged: not sent again
        go_on.set()
        result = await short.result(second)
    assert [line.message for line in result.logs][-1] == "bye"


async def test_lines_are_sent_again_when_a_beat_was_not_answered(short: peers.Peer) -> None:
    h, go_on = Horarium(), asyncio.Event()

    @h.job("talk")
    async def talk(ctx: Context) -> None:
        await ctx.log("hello")
        await go_on.wait()

    short.lease_s = 3.0  # far from lapsing
    short.fail("heartbeat", None)
    async with peers.working(short, carriers(h)):
        (run_id,) = await short.offer("talk")
        for _ in range(2):
            run = await short.beat_of(run_id)
            assert [line.message for line in run.logs] == ["hello"]
        go_on.set()
        await short.result(run_id)


async def test_a_lost_run_is_broken_off_and_not_reported(short: peers.Peer, caplog: pytest.LogCaptureFixture) -> None:
    h, ended = Horarium(), asyncio.Event()
    said: list[BaseException] = []

    @h.job("long")
    async def long(ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                await ctx.progress(1)
            except LeaseLostError as error:
                said.append(error)
            ended.set()
            raise

    async with peers.working(short, carriers(h)):
        short.lost.add("run-1")
        (run_id,) = await short.offer("long")
        await asyncio.wait_for(ended.wait(), peers.PATIENCE_S)
    assert run_id == "run-1" and len(said) == 1
    assert not short.reports
    assert "run run-1: the lease was lost" in caplog.text


async def test_a_thread_whose_run_is_lost_learns_it_from_its_context(short: peers.Peer) -> None:
    h, ended = Horarium(), threading.Event()

    @h.job("long")
    def long(ctx: Context) -> None:
        try:
            while True:
                ctx.wait_cancelled()
                ctx.progress(0.5)
        finally:
            ended.set()

    async with peers.working(short, carriers(h)):
        short.lost.add("run-1")
        await short.offer("long")
        assert await asyncio.to_thread(ended.wait, peers.PATIENCE_S)
    assert not short.reports


async def test_a_cancelled_run_is_broken_off_and_reported(short: peers.Peer) -> None:
    h = Horarium()

    @h.job("long")
    async def long(ctx: Context) -> None:
        await asyncio.Event().wait()

    async with peers.working(short, carriers(h)):
        short.cancelled.add("run-1")
        (run_id,) = await short.offer("long")
        result = await short.result(run_id)
    assert result.outcome == "failed" and result.error is not None and result.error.class_ == "Cancelled"


async def test_a_lease_that_lapses_by_the_workers_own_clock_is_lost(short: peers.Peer) -> None:
    h, ended = Horarium(), asyncio.Event()
    began_at = 0.0

    @h.job("long")
    async def long(ctx: Context) -> None:
        nonlocal began_at
        began_at = time.monotonic()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    short.fail("heartbeat", peers.unavailable, times=1000)
    async with peers.working(short, carriers(h)):
        (run_id,) = await short.offer("long")
        await asyncio.wait_for(ended.wait(), peers.PATIENCE_S)
        assert time.monotonic() - began_at >= short.lease_s - 0.1
        await short.offer("long", run_id=run_id)  # the server gives it out again: the slot is free, it is taken
        short.faults["heartbeat"].clear()
        await short.beat_of(run_id, lambda run: run.fencing_token == 2)
        short.cancelled.add(run_id)
        assert (await short.result(run_id)).fencing_token == 2


async def test_a_run_is_listed_until_its_result_is_placed(short: peers.Peer) -> None:
    h = Horarium()

    @h.job("once")
    async def once(ctx: Context) -> None: ...

    released = False

    def refuse() -> web.Response:
        if not released:
            short.fail("report", refuse)
        return peers.unavailable()

    short.fail("report", refuse)
    async with peers.working(short, carriers(h)):
        (run_id,) = await short.offer("once")
        await short.until(lambda: short.reports)
        await short.beat_of(run_id)
        await short.beat_of(run_id)
        released = True
        await short.result(run_id)


async def test_a_newer_lease_of_the_same_run_supersedes_the_old_attempt(peer: peers.Peer) -> None:
    h, began, tokens = Horarium(), asyncio.Queue[int](), []

    @h.job("twice")
    async def twice(ctx: Context) -> None:
        began.put_nowait(ctx.fencing_token)
        try:
            if ctx.fencing_token == 1:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            tokens.append(ctx.fencing_token)
            raise

    async with peers.working(peer, carriers(h)):
        await peer.offer("twice", run_id="same")
        assert await began.get() == 1
        await peer.offer("twice", run_id="same")
        assert (await peer.result("same")).fencing_token == 2
    assert tokens == [1]


async def test_failing_beats_are_told(short: peers.Peer, caplog: pytest.LogCaptureFixture) -> None:
    h, go_on = Horarium(), asyncio.Event()

    @h.job("long")
    async def long(ctx: Context) -> None:
        await go_on.wait()

    short.fail("heartbeat", peers.unavailable)
    with caplog.at_level(logging.WARNING, "horarium.worker"):
        async with peers.working(short, carriers(h)):
            (run_id,) = await short.offer("long")
            await short.beat_of(run_id)
            await short.beat_of(run_id)
            go_on.set()
            await short.result(run_id)
    assert "a heartbeat did not get through" in caplog.text and "HTTP 503" in caplog.text


async def test_a_run_in_doubt_goes_on_until_its_lease_ends_and_its_lines_are_sent_again(short: peers.Peer) -> None:
    h, ended = Horarium(), asyncio.Event()
    began_at = 0.0

    @h.job("long")
    async def long(ctx: Context) -> None:
        nonlocal began_at
        began_at = time.monotonic()
        await ctx.log("hello")
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    short.unsure.add("run-1")
    async with peers.working(short, carriers(h)):
        (run_id,) = await short.offer("long")
        for _ in range(2):
            run = await short.beat_of(run_id, lambda run: run.logs)
            assert [line.message for line in run.logs] == ["hello"]
        await asyncio.wait_for(ended.wait(), peers.PATIENCE_S)
        assert time.monotonic() - began_at >= short.lease_s - 0.1
    assert not short.reports


async def test_it_beats_with_nothing_held_after_an_answer_was_lost(short: peers.Peer) -> None:
    """So that runs in the lost answer are missed by the server, and given out again without the use of an attempt."""
    h = Horarium()

    @h.job("quick")
    async def quick(ctx: Context) -> None:
        return None

    async with peers.working(short, carriers(h)):
        (first,) = await short.offer("quick")
        await short.result(first)  # the worker knows by now how long leases are
        short.fail("lease", None)
        (second,) = await short.offer("quick")
        await short.result(second)
        await short.until(lambda: sum(not beat.runs for beat in short.beats) >= 2)
