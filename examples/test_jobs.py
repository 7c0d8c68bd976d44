"""How an application tests its handlers: no server, no waiting.

cd examples && pytest test_jobs.py
"""

from __future__ import annotations

import asyncio

from app.jobs import h, welcome

from horarium.testing import InlineWorker, Outbox


def test_welcome() -> None:
    run = InlineWorker(h).run("email.welcome", {"user_id": 7, "language": "hi"}).check()
    assert run.value == "welcome-7-hi"
    assert run.logs == ["sent"]


def test_an_unknown_user_is_not_tried_again() -> None:
    assert InlineWorker(h).run("email.welcome", {"user_id": 0}).outcome == "discard"


def test_signals() -> None:
    worker = InlineWorker(h)
    assert worker.run("payment.poll", {"order": "o-1"}).value == "paid"
    assert worker.run("payment.poll", {"order": "o-2"}).outcome == "snooze"
    assert worker.run("payment.poll", {"order": "o-3"}).retry_in_s == 300


def test_what_is_enqueued() -> None:
    with Outbox(h) as outbox:
        asyncio.run(welcome.enqueue_in("2h", user_id=7))
    assert outbox.arguments("email.welcome") == [{"user_id": 7}]
