"""A worker against a scripted server: leases in, handlers at their instant, results out."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

import pytest
from aiohttp import web

from horarium import Context, Discard, Horarium, Retry, Snooze, errors
from horarium.protocol import messages
from horarium.sdk import executor, processes, threads, worker
from tests.sdk import peer as peers


def carriers(h: Horarium) -> dict[str, worker.Carrier]:
    return executor.carriers_of(h.handlers, threads.Threads(), processes.Processes("nothing:h"))


def value(result: messages.Result) -> Any:
    assert result.outcome == "succeeded", result
    return json.loads(bytes(result.result))  # type: ignore[arg-type]


async def test_an_async_handler_gets_its_arguments_and_its_value_is_reported(peer: peers.Peer) -> None:
    h = Horarium()

    @h.job("greet")
    async def greet(ctx: Context, user_id: int, tag: str = "none") -> dict[str, Any]:
        return {"user": user_id, "tag": tag, "run": ctx.run_id, "attempt": ctx.attempt, "token": ctx.fencing_token,
                "job": ctx.job_name, "at": ctx.scheduled_for, "payload": ctx.payload}  # fmt: skip

    async with peers.working(peer, carriers(h)):
        (run_id,) = await peer.offer("greet", {"user_id": 7}, attempt=3)
        assert value(await peer.result(run_id)) == {
            "user": 7, "tag": "none", "run": run_id, "attempt": 3, "token": 1, "job": "greet",
            "at": "2026-12-01T02:00:00Z", "payload": {"user_id": 7},
        }  # fmt: skip
    assert peer.keys == {"Bearer hrm_test"}
    assert len(peer.stopped) == 1


async def test_a_plain_handler_runs_in_a_thread(peer: peers.Peer) -> None:
    h = Horarium()

    @h.job("where")
    def where(ctx: Context) -> str:
        ctx.progress(0.5, "half")
        ctx.log("said", level="warning", n=1)
        ctx.logger.error("logged %d", 2)
        ctx.logger.info("kept whatever the level of the root logger")
        ctx.logger.debug("not kept")
        return threading.current_thread().name

    async with peers.working(peer, carriers(h)):
        (run_id,) = await peer.offer("where")
        result = await peer.result(run_id)
    assert value(result).startswith("horarium-handler-")
    assert result.progress == messages.Progress(0.5, "half")
    assert [(line.seq, line.level, line.message) for line in result.logs] == [
        (1, "warning", "said"), (2, "error", "logged 2"), (3, "info", "kept whatever the level of the root logger"),
    ]  # fmt: skip
    assert bytes(result.logs[0].fields) == b'{"n":1}'  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("raised", "outcome", "delay", "message"),
    [
        (Retry("rate limited", in_="5m"), "failed", 300.0, "rate limited"),
        (Retry(), "failed", None, "the handler asked for another attempt"),
        (Discard("no such user"), "discard", None, "no such user"),
        (Snooze("1h"), "snooze", 3600.0, "snoozed for 3600 s"),
        (ValueError("bad \0 \ud800"), "failed", None, "bad � ?"),
        (SystemExit(3), "failed", None, "3"),
        (KeyboardInterrupt(), "failed", None, ""),
        (asyncio.CancelledError(), "failed", None, ""),
    ],
)
@pytest.mark.parametrize("kind", ["task", "thread"])
async def test_what_a_handler_raises(
    peer: peers.Peer, kind: str, raised: BaseException, outcome: str, delay: float | None, message: str
) -> None:
    h = Horarium()

    @h.job("task")
    async def in_task(ctx: Context) -> None:
        raise raised

    @h.job("thread")
    def in_thread(ctx: Context) -> None:
        raise raised

    async with peers.working(peer, carriers(h)):
        (run_id,) = await peer.offer(kind)
        result = await peer.result(run_id)
    assert (result.outcome, result.retry_in_s) == (outcome, delay)
    assert result.error is not None
    assert (result.error.class_, result.error.message) == (type(raised).__name__, message)


async def test_a_traceback_begins_in_the_handler_and_keeps_its_end(peer: peers.Peer) -> None:
    h = Horarium()

    @h.job("deep")
    async def deep(ctx: Context) -> None:
        raise ValueError("x" * 20_000)

    async with peers.working(peer, carriers(h)):
        (run_id,) = await peer.offer("deep")
        result = await peer.result(run_id)
    assert result.error is not None and result.error.traceback is not None
    assert len(result.error.traceback) <= messages.MAX_TRACEBACK_CHARS
    assert result.error.traceback.endswith("xxx\n")
    assert len(result.error.message) <= 4096


@pytest.mark.parametrize("payload", [{"user_id": "seven"}, {}, [1], {"user_id": 1, "more": 2}])
async def test_a_payload_that_does_not_fit_is_a_dead_letter(peer: peers.Peer, payload: Any) -> None:
    h = Horarium()
    called = []

    @h.job("strict")
    async def strict(ctx: Context, user_id: int) -> None:
        called.append(user_id)

    async with peers.working(peer, carriers(h)):
        (run_id,) = await peer.offer("strict", payload)
        result = await peer.result(run_id)
    assert result.outcome == "discard" and not called
    assert result.error is not None and result.error.class_ == "PayloadMismatch"


async def test_a_run_for_an_unknown_handler_fails(peer: peers.Peer) -> None:
    async with peers.working(peer, carriers(Horarium())):
        (run_id,) = await peer.offer("nobody")
        result = await peer.result(run_id)
    assert result.outcome == "failed" and result.error is not None
    assert result.error.class_ == "UnknownHandlerError" and "'nobody'" in result.error.message


async def test_a_value_that_cannot_be_kept_does_not_fail_the_run(peer: peers.Peer) -> None:
    h = Horarium()

    @h.job("odd")
    async def odd(ctx: Context, size: int) -> Any:
        return "x" * size if size else object()

    async with peers.working(peer, carriers(h)):
        ids = await peer.offer("odd", {"size": 0}, {"size": 70_000})
        results = [await peer.result(run_id) for run_id in ids]
    assert [result.outcome for result in results] == ["succeeded", "succeeded"]
    assert "cannot be written as JSON" in results[0].logs[0].message
    assert "70002 bytes long" in results[1].logs[0].message


async def test_an_early_claim_starts_at_its_instant(peer: peers.Peer) -> None:
    h, began = Horarium(), []

    @h.job("exact")
    async def exact(ctx: Context) -> None:
        began.append((ctx.run_id, time.monotonic()))

    async with peers.working(peer, carriers(h)):
        offered_at = time.monotonic()
        late = await peer.offer("exact", start_in_s=0.3)
        soon = await peer.offer("exact", start_in_s=0.1)
        now = await peer.offer("exact")
        for run_id in (*late, *soon, *now):
            await peer.result(run_id)
    assert [run_id for run_id, _ in began] == [*now, *soon, *late]
    for (_, instant), wait in zip(began, (0.0, 0.1, 0.3), strict=True):
        assert instant - offered_at >= wait


async def test_an_early_claim_that_was_long_on_its_way_starts_sooner(peer: peers.Peer) -> None:
    h, peer.age_s, peer.lease_s = Horarium(), 3600.0 - 0.1, 7200.0

    @h.job("exact")
    async def exact(ctx: Context) -> None: ...

    async with peers.working(peer, carriers(h)):
        (run_id,) = await peer.offer("exact", start_in_s=3600.0)
        assert (await peer.result(run_id)).outcome == "succeeded"


async def test_a_run_whose_lease_lapsed_before_it_began_is_not_begun(peer: peers.Peer) -> None:
    """The worker was frozen between the claim and the start: the run is another's by now."""
    h, begun = Horarium(), []

    @h.job("late")
    async def late(ctx: Context) -> None:
        begun.append(ctx.run_id)

    peer.age_s = peer.lease_s + 1
    async with peers.working(peer, carriers(h)):
        await peer.offer("late")
        await peer.until(lambda: len(peer.requests) >= 2)
        peer.age_s = 0.0
        (second,) = await peer.offer("late")
        await peer.result(second)
    assert begun == [second]
    assert [*peer.results] == [second]


async def test_slots_are_never_overdrawn_and_all_runs_end(peer: peers.Peer) -> None:
    h = Horarium()
    running = most = 0

    @h.job("busy")
    async def busy(ctx: Context) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    async with peers.working(peer, carriers(h), slots=3):
        ids = await peer.offer("busy", *[{}] * 50)
        for run_id in ids:
            await peer.result(run_id)
    assert most <= 3
    assert all(request.slots <= 3 for request in peer.requests)


async def test_many_slots_are_asked_for_in_batches_side_by_side(peer: peers.Peer) -> None:
    h = Horarium()

    @h.job("noop")
    async def noop(ctx: Context) -> None: ...

    async with peers.working(peer, carriers(h), slots=1_200):
        await peer.until(lambda: len(peer.requests) >= 2)
        ids = await peer.offer("noop", *[{}] * 1000)
        await peer.until(lambda: len(peer.results) == 1000)
    assert [request.slots for request in peer.requests[:2]] == [500, 500]
    assert set(peer.results) == set(ids)
    assert max(len(report) for report in peer.reports) > 50


async def test_queues_handlers_and_order_are_told(peer: peers.Peer) -> None:
    h = Horarium()

    @h.job("one")
    async def one(ctx: Context) -> None: ...

    queues = (messages.QueueWeight("critical", 6), messages.QueueWeight("default", 3))
    async with peers.working(peer, carriers(h), queues=queues, strict=True):
        await peer.until(lambda: peer.requests)
    request = peer.requests[0]
    assert (request.queues, request.strict, request.handlers) == (list(queues), True, ["one"])
    assert request.worker.pid is not None and request.worker.version


async def test_a_timeout_cancels_the_handler(peer: peers.Peer) -> None:
    h, seen = Horarium(), []

    @h.job("slow")
    async def slow(ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(ctx.cancelled)
            raise

    async with peers.working(peer, carriers(h)):
        (run_id,) = await peer.offer("slow", timeout_s=0.1)
        result = await peer.result(run_id)
    assert seen == [True]
    assert result.outcome == "failed" and result.error is not None
    assert (result.error.class_, result.error.message) == ("Timeout", "ran longer than its timeout of 0.1 s")


async def test_a_handler_that_does_not_stop_is_reported_and_keeps_its_slot(
    peer: peers.Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "STOPPING_S", 0.1)
    h, release = Horarium(), threading.Event()

    @h.job("deaf")
    def deaf(ctx: Context) -> None:
        release.wait()

    async with peers.working(peer, carriers(h), slots=1):
        (run_id,) = await peer.offer("deaf", timeout_s=0.1)
        result = await peer.result(run_id)
        asked = len(peer.requests)
        assert result.error is not None and result.error.class_ == "Timeout"
        assert asked == 1
        release.set()
        (second,) = await peer.offer("deaf")
        await peer.result(second)
    assert sum(r.run_id == run_id for report in peer.reports for r in report) == 1


async def test_a_thread_sees_that_it_should_stop(peer: peers.Peer) -> None:
    h = Horarium()

    @h.job("polite")
    def polite(ctx: Context) -> bool:
        return ctx.wait_cancelled()

    async with peers.working(peer, carriers(h)):
        (run_id,) = await peer.offer("polite", timeout_s=0.1)
        assert value(await peer.result(run_id)) is True


async def test_results_are_repeated_until_the_server_answers(peer: peers.Peer) -> None:
    h, calls = Horarium(), []

    @h.job("once")
    async def once(ctx: Context) -> int:
        calls.append(ctx.run_id)
        return 1

    peer.fail("report", peers.unavailable, times=2)
    async with peers.working(peer, carriers(h)):
        (run_id,) = await peer.offer("once")
        assert value(await peer.result(run_id)) == 1
    assert len(peer.reports) == 3 and calls == [run_id]


async def test_a_result_whose_answer_was_lost_is_repeated(peer: peers.Peer) -> None:
    h = Horarium()

    @h.job("once")
    async def once(ctx: Context) -> None: ...

    peer.fail("report", None)
    async with peers.working(peer, carriers(h)):
        (run_id,) = await peer.offer("once")
        await peer.result(run_id)
    assert len(peer.reports) == 2


async def test_a_result_that_the_server_refuses_does_not_hold_up_the_others(peer: peers.Peer) -> None:
    h = Horarium()

    @h.job("once")
    async def once(ctx: Context) -> None: ...

    def refuse() -> web.Response:
        return web.json_response({"title": "too large"}, status=413)

    peer.fail("report", refuse, times=2)  # the batch of two, then its first half
    async with peers.working(peer, carriers(h)):
        first, second = await peer.offer("once", {}, {})
        await peer.result(second)
    assert first not in peer.results and len(peer.reports) == 3


async def test_another_node_is_asked_when_one_is_away(peer: peers.Peer) -> None:
    h = Horarium()

    @h.job("once")
    async def once(ctx: Context) -> None: ...

    async with peers.working(peer, carriers(h), urls=("http://127.0.0.1:9", peer.url)):
        (run_id,) = await peer.offer("once")
        await peer.result(run_id)


async def test_a_refused_worker_ends_with_the_servers_reason(peer: peers.Peer) -> None:
    def refuse() -> web.Response:
        return web.json_response({"title": "Not allowed", "detail": "this key may not work"}, status=403)

    peer.fail("lease", refuse)
    with pytest.raises(errors.RequestError, match="this key may not work"):
        async with peers.working(peer, carriers(Horarium())):
            await peer.until(lambda: peer.stopped)


async def test_a_worker_that_has_worked_outlives_a_refusal(peer: peers.Peer) -> None:
    h = Horarium()

    @h.job("once")
    async def once(ctx: Context) -> None: ...

    async with peers.working(peer, carriers(h), slots=1):
        first = await peer.offer("once")
        await peer.result(first[0])
        peer.fail("lease", lambda: web.json_response({"title": "revoked"}, status=401))
        second = await peer.offer("once")
        third = await peer.offer("once")
        await peer.result(second[0])
        await peer.result(third[0])


async def test_a_drained_node_is_left(peer: peers.Peer) -> None:
    h = Horarium()

    @h.job("once")
    async def once(ctx: Context) -> None: ...

    async with peers.serving(peers.Peer()) as other:
        other.fail("lease", lambda: web.Response(body=b'{"leases":[],"drain":true}'))
        async with peers.working(peer, carriers(h), urls=(other.url, peer.url)):
            (run_id,) = await peer.offer("once")
            await peer.result(run_id)
        assert len(other.requests) == 1


async def test_stopping_waits_for_handlers_and_takes_no_more_runs(peer: peers.Peer) -> None:
    h, began, go_on = Horarium(), asyncio.Event(), asyncio.Event()

    @h.job("steady")
    async def steady(ctx: Context) -> str:
        began.set()
        await go_on.wait()
        return "through"

    async with peers.working(peer, carriers(h)) as running:
        (run_id,) = await peer.offer("steady")
        await began.wait()
        await peer.until(lambda: len(peer.requests) == 2)
        running.stop()
        await peer.offer("steady")
        go_on.set()
        assert value(await peer.result(run_id)) == "through"
        await peer.until(lambda: peer.stopped)
    assert len(peer.requests) == 2
    assert all(result.outcome == "interrupted" for result in peer.results.values() if result.run_id != run_id)


async def test_after_the_grace_period_runs_are_given_back(peer: peers.Peer) -> None:
    h, began = Horarium(), asyncio.Event()

    @h.job("endless")
    async def endless(ctx: Context) -> None:
        began.set()
        await asyncio.Event().wait()

    async with peers.working(peer, carriers(h), grace_s=0.1) as running:
        (run_id,) = await peer.offer("endless")
        await began.wait()
        running.stop()
        result = await peer.result(run_id)
    assert result.outcome == "interrupted"


async def test_a_second_stop_does_not_wait(peer: peers.Peer) -> None:
    h, began = Horarium(), asyncio.Event()

    @h.job("endless")
    async def endless(ctx: Context) -> None:
        began.set()
        await asyncio.Event().wait()

    async with peers.working(peer, carriers(h), grace_s=3600) as running:
        (run_id,) = await peer.offer("endless")
        await began.wait()
        running.stop()
        running.stop()
        assert (await peer.result(run_id)).outcome == "interrupted"


async def test_an_early_claim_that_has_not_begun_is_given_back_at_once(peer: peers.Peer) -> None:
    h, called, peer.lease_s = Horarium(), [], 0.3

    @h.job("later")
    async def later(ctx: Context) -> None:
        called.append(ctx.run_id)

    async with peers.working(peer, carriers(h), grace_s=3600, slots=1) as running:
        (run_id,) = await peer.offer("later", start_in_s=3600)
        (other,) = await peer.offer("later")  # the slot is taken, so it is not asked for
        await peer.beat_of(run_id)
        running.stop()
        assert (await peer.result(run_id)).outcome == "interrupted"
    assert not called and other not in peer.results
