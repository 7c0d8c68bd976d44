"""What applications are tested with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from horarium import Context, Discard, Horarium, LeaseLostError, Retry, errors
from horarium.protocol import messages
from horarium.testing import InlineWorker, ManualClock, Outbox, lease

h = Horarium()


@h.job("email.welcome")
async def welcome(ctx: Context, user_id: int) -> dict[str, Any]:
    await ctx.progress(0.5, "half")
    ctx.log("sent", user_id=user_id)
    return {"user": user_id, "attempt": ctx.attempt, "at": ctx.scheduled_for, "run": ctx.run_id}


@h.job("plain", process=True)
def plain(ctx: Context, how: str = "") -> str | None:
    match how:
        case "retry":
            raise Retry("later", in_="5m")
        case "discard":
            raise Discard("no")
        case "lost":
            raise LeaseLostError
        case "error":
            raise ValueError("oops")
    return how or None


@h.job("signup")
async def signup(ctx: Context) -> None:
    await welcome.enqueue(user_id=7)
    await plain.enqueue_in("2h", how="error")
    await welcome.enqueue_many([{"user_id": 8}, {"user_id": 9}])
    await h.enqueue("elsewhere", {"x": 1})


def test_an_async_handler() -> None:
    at = datetime(2026, 12, 1, tzinfo=UTC)
    run = InlineWorker(h).run("email.welcome", {"user_id": 7}, attempt=2, run_id="r", scheduled_for=at).check()
    assert run.value == {"user": 7, "attempt": 2, "at": "2026-12-01T00:00:00Z", "run": "r"}
    assert (run.outcome, run.progress, run.logs) == ("succeeded", messages.Progress(0.5, "half"), ["sent"])


async def test_inside_an_event_loop() -> None:
    assert (await InlineWorker(h).run_async("plain", {"how": "x"})).value == "x"
    assert (await InlineWorker(h).run_async("plain")).value is None


@pytest.mark.parametrize(
    ("how", "outcome", "delay", "kind"),
    [("retry", "failed", 300, "Retry"), ("discard", "discard", None, "Discard"), ("error", "failed", None, "ValueError")],
)  # fmt: skip
def test_what_a_handler_raises(how: str, outcome: str, delay: float | None, kind: str) -> None:
    run = InlineWorker(h).run("plain", {"how": how})
    assert (run.outcome, run.retry_in_s) == (outcome, delay)
    assert run.error is not None and run.error.class_ == kind
    with pytest.raises(Exception, match=run.error.message):
        run.check()


def test_a_lost_lease_reports_nothing() -> None:
    run = InlineWorker(h).run("plain", {"how": "lost"})
    assert run.error is None and isinstance(run.raised, LeaseLostError)


def test_arguments_are_checked() -> None:
    run = InlineWorker(h).run("email.welcome", {"user_id": "seven"})
    assert run.outcome == "discard" and run.error is not None and run.error.class_ == "PayloadMismatch"


def test_an_unknown_handler() -> None:
    with pytest.raises(errors.ConfigurationError, match=r"the application has: email\.welcome, plain, signup"):
        InlineWorker(h).run("nobody")


def test_the_outbox_keeps_what_is_enqueued() -> None:
    with Outbox(h) as outbox:
        InlineWorker(h).run("signup").check()
    assert outbox.arguments("email.welcome") == [{"user_id": 7}, {"user_id": 8}, {"user_id": 9}]
    assert outbox.arguments("elsewhere") == [{"x": 1}]
    assert len(outbox) == 5
    assert next(body for body in outbox if "run_in_s" in body)["run_in_s"] == 7200
    runs = InlineWorker(h).run_all(body for body in outbox if body["target"]["handler"] in h.handlers)
    assert [run.outcome for run in runs] == ["succeeded", "failed", "succeeded", "succeeded"]


async def test_the_outbox_ends_with_its_block() -> None:
    async with Horarium("http://127.0.0.1:9", "k") as other:
        with Outbox(other):
            await other.enqueue("x")
        with pytest.raises(errors.UnreachableError):
            await other.enqueue("x")


def test_the_clock_moves_by_hand() -> None:
    clock = ManualClock(datetime(2026, 12, 1, tzinfo=UTC))
    before = clock.monotonic()
    clock.advance(timedelta(minutes=1))
    clock.step(timedelta(hours=-1))
    assert clock.now() == datetime(2026, 11, 30, 23, 1, tzinfo=UTC)
    assert clock.time() == clock.now().timestamp()
    assert clock.monotonic() == before + 60
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(timedelta(seconds=-1))
    with pytest.raises(ValueError, match="no time zone"):
        ManualClock(datetime(2026, 12, 1))  # noqa: DTZ001


def test_leases_are_legal_and_their_tokens_rise() -> None:
    first, second = lease("a"), lease("a", {"x": 1}, attempt=3)
    assert second.fencing_token > first.fencing_token and second.run_id != first.run_id
    decoded = messages.lease_responses.decode(messages.encode(messages.LeaseResponse([second])))
    assert decoded.leases[0].attempt == 3 and bytes(decoded.leases[0].payload) == b'{"x":1}'
