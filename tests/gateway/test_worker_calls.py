"""What a worker says and is told: lease, heartbeat, report, stop."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from horarium.domain import ids
from horarium.events import Name
from horarium.gateway import worker_calls
from horarium.protocol import messages
from horarium.store import runs
from tests import builders
from tests.gateway.wire import Held, Wire, is_problem

NOBODYS = UUID("01890000-0000-8003-8000-000000000001")


async def test_who_waits_gets_the_run_at_its_instant(wire: Wire) -> None:
    asked = asyncio.create_task(wire.lease())
    await wire.waiting()
    row = await wire.make(ready_in=timedelta(milliseconds=300), payload='{"n": 1.10}', name="daily")
    (lease,) = (await asked)["leases"]
    starts_at = wire.plane.clock.time() + lease.get("start_in_s", 0)
    late = starts_at - row.ready_at.timestamp()
    assert -0.02 <= late < 2, late
    assert (lease["run_id"], lease["job_name"], lease["payload"]) == (str(row.id), "daily", {"n": 1.1})
    assert (lease["attempt"], lease["target"]) == (1, {"handler": "work"})


async def test_a_wait_without_work_ends_empty(wire: Wire) -> None:
    loop = asyncio.get_running_loop()
    asked_at = loop.time()
    answer = await wire.lease(wait_s=0.2)
    assert answer == {"leases": []}
    assert loop.time() - asked_at >= 0.19


async def test_a_worker_that_asks_is_known(wire: Wire) -> None:
    await wire.started()
    await wire.lease(wait_s=0, worker="w2", slots=5)
    known = wire.plane.registry.workers
    assert {name: (worker.tenant_id, worker.slots) for name, worker in known.items()} == {
        "w1": ("default", 1),
        "w2": ("default", 5),
    }


async def test_only_what_a_worker_can_run_is_handed_to_it(wire: Wire) -> None:
    await wire.make(handler="work")
    assert (await wire.lease(wait_s=0, handlers=["other"]))["leases"] == []
    assert (await wire.lease(wait_s=0, queues=[{"name": "elsewhere"}]))["leases"] == []
    assert len((await wire.lease(handlers=["other", "work"]))["leases"]) == 1


async def test_a_life_of_a_run_over_the_wire(wire: Wire) -> None:
    held = await wire.started()
    before = wire.plane.leader.ready.leases.get(held.id)
    assert before is not None
    lease_until = before.lease_until
    assert await wire.heartbeat(held) == {"lease_s": 15.0}
    assert before.lease_until > lease_until
    assert await wire.report(held, result={"rows": 3}) == {"accepted": [held.run_id]}
    ended = await wire.ended(held.id)
    assert (ended["state"], json.loads(ended["result"]), ended["worker_id"]) == ("succeeded", {"rows": 3}, "w1")
    assert await wire.row(held.id) is None
    assert wire.plane.leader.ready.leases.get(held.id) is None
    assert await wire.report(held, result={"rows": 3}) == {"accepted": [held.run_id]}  # its answer may have been lost


async def test_a_failed_attempt_waits_for_the_next_one(wire: Wire) -> None:
    held = await wire.started(retry={"max_attempts": 2, "base_s": 60})
    error = {"class": "ValueError", "message": "boo", "traceback": "line 1"}
    assert await wire.report(held, "failed", error=error) == {"accepted": [held.run_id]}
    row = await wire.row(held.id)
    (failure,) = json.loads(row["failures"])
    assert (row["state"], row["attempt"], failure["outcome"], failure["error"]) == ("waiting", 1, "failed", error)


async def test_a_worker_may_say_when_to_try_again(wire: Wire) -> None:
    held = await wire.started()
    await wire.report(held, "snooze", retry_in_s=1e12)
    row = await wire.row(held.id)
    waits = row["ready_at"] - await wire.plane.database.now()
    assert timedelta(days=365) < waits <= timedelta(days=366)  # a longer wait is cut to a year
    assert (row["attempt"], row["snoozes"]) == (0, 1)


async def test_an_interrupted_run_comes_again_as_the_same_attempt(wire: Wire) -> None:
    held = await wire.started()
    await wire.report(held, "interrupted")
    (again,) = (await wire.lease("w2"))["leases"]
    assert (again["run_id"], again["attempt"]) == (held.run_id, 1)
    assert again["fencing_token"] > held.token


async def test_a_discarded_run_is_dead_at_once(wire: Wire) -> None:
    held = await wire.started(retry={"max_attempts": 9})
    await wire.report(held, "discard", error={"class": "Bad", "message": "never"})
    assert (await wire.ended(held.id))["state"] == "dead"


@pytest.mark.parametrize("token", [-1, 0, 2**63, 2**200])
async def test_a_token_that_was_never_given_out_ends_nothing(wire: Wire, token: int) -> None:
    held = await wire.started()
    wrong = held._replace(token=token)
    assert await wire.report(wrong) == {"accepted": [], "lost": [held.run_id]}
    assert await wire.heartbeat(wrong) == {"lease_s": 15.0, "lost": [held.run_id]}
    assert (await wire.row(held.id))["state"] == "running"


async def test_the_token_of_an_earlier_attempt_is_lost(wire: Wire) -> None:
    old = await wire.started()
    await wire.report(old, "interrupted")
    (lease,) = (await wire.lease("w2"))["leases"]
    assert await wire.report(old, "failed") == {"accepted": [], "lost": [old.run_id]}
    new = old._replace(token=lease["fencing_token"])
    assert await wire.heartbeat(new, worker="w2") == {"lease_s": 15.0}
    assert await wire.report(new, worker="w2") == {"accepted": [old.run_id]}


async def test_another_tenants_worker_neither_gets_extends_nor_ends_a_run(wire: Wire) -> None:
    held = await wire.started()
    waiting = await wire.make()
    assert (await wire.lease(wait_s=0, tenant="other"))["leases"] == []
    leased = wire.plane.leader.ready.leases.get(held.id)
    assert leased is not None
    lease_until = leased.lease_until
    said = {"fraction": 0.5}
    line = {"seq": 1, "ago_s": 0, "message": "not mine"}
    for _ in range(3):
        answer = await wire.heartbeat(held, tenant="other", progress=said, logs=[line])
        assert answer == {"lease_s": 15.0, "lost": [held.run_id]}
    assert await wire.report(held, tenant="other", logs=[line]) == {"accepted": [], "lost": [held.run_id]}
    assert leased.lease_until == lease_until
    assert wire.plane.leader.progress == {}
    assert await wire.logs(held.id) == []
    assert await wire.heartbeat(held) == {"lease_s": 15.0}
    assert (await wire.row(waiting.id))["state"] == "waiting"
    assert await wire.report(held) == {"accepted": [held.run_id]}


async def test_a_worker_of_all_tenants_serves_each(wire: Wire) -> None:
    row = await wire.make(tenant_id="other")
    (lease,) = (await wire.lease(tenant="*"))["leases"]
    held = Held(lease["run_id"], lease["fencing_token"], None)  # type: ignore[arg-type]  # the job plays no part
    assert held.id == row.id
    assert await wire.heartbeat(held, tenant="*") == {"lease_s": 15.0}
    assert await wire.report(held, tenant="*") == {"accepted": [held.run_id]}


async def test_a_run_that_nobody_knows_is_lost(wire: Wire) -> None:
    nobodys = Held(str(NOBODYS), 5, None)  # type: ignore[arg-type]  # there is no job
    assert ids.shard_of(NOBODYS) == builders.SHARD
    assert await wire.heartbeat(nobodys) == {"lease_s": 15.0, "lost": [str(NOBODYS)]}
    assert await wire.report(nobodys) == {"accepted": [], "lost": [str(NOBODYS)]}


async def test_a_run_of_another_nodes_shard_is_not_called_lost(wire: Wire) -> None:
    elsewhere = Held("01890000-0000-8fff-8000-000000000001", 5, None)  # type: ignore[arg-type]  # there is no job
    assert await wire.heartbeat(elsewhere) == {"lease_s": 15.0, "unsure": [elsewhere.run_id]}


async def test_during_a_take_over_nothing_is_called_lost(taking_over: Wire) -> None:
    wire = taking_over
    now = await wire.plane.database.now()
    async with wire.plane.database.connection() as connection:
        job = await builders.insert_job(connection, builders.once(now))
        row = job.by_hand(now)
        await runs.insert(connection, [row])
        terms = wire.plane.leader.named_terms()
        (claimed,) = await runs.claim(connection, [row.id], ["w1"], timedelta(seconds=15), terms)
    held = Held(str(row.id), claimed[1], job)
    nobodys = Held(str(NOBODYS), 5, job)
    assert await wire.heartbeat(held, nobodys) == {"lease_s": 15.0, "unsure": [held.run_id, str(NOBODYS)]}
    await wire.plane.owner.load_once()
    assert await wire.heartbeat(held, nobodys) == {"lease_s": 15.0, "lost": [str(NOBODYS)]}
    assert await wire.report(held) == {"accepted": [held.run_id]}


async def test_what_should_stop_is_told_with_the_heartbeat(wire: Wire) -> None:
    held, other = await wire.started(), await wire.started()
    async with wire.plane.database.connection() as connection:
        assert await runs.request_cancel(connection, [held.id], "ann") == [held.id]
    wire.plane.leader.cancel_requested([held.id])
    assert await wire.heartbeat(held, other) == {"lease_s": 15.0, "cancel": [held.run_id]}
    assert await wire.report(held, "failed") == {"accepted": [held.run_id]}
    ended = await wire.ended(held.id)
    assert (ended["state"], ended["error"]) == ("cancelled", "cancelled by ann")


async def test_leases_whose_answer_was_lost_come_again(wire: Wire) -> None:
    """Two heartbeats in a row that do not list a run: its worker never heard of it."""
    held = await wire.started()
    await wire.heartbeat()
    assert wire.plane.leader.ready.leases.get(held.id) is not None
    await wire.heartbeat()
    (again,) = (await wire.lease("w1"))["leases"]
    assert (again["run_id"], again["attempt"]) == (held.run_id, 1)
    assert await wire.report(held) == {"accepted": [], "lost": [held.run_id]}


async def test_progress_is_kept_with_the_run(wire: Wire) -> None:
    held = await wire.started()
    await wire.heartbeat(held, progress={"fraction": 0.5, "message": "half"})
    assert json.loads(wire.plane.leader.progress[held.id]) == {"fraction": 0.5, "message": "half"}
    await wire.report(held, progress={"fraction": 1, "message": "all"})
    assert json.loads((await wire.ended(held.id))["progress"]) == {"fraction": 1.0, "message": "all"}
    assert wire.plane.leader.progress == {}


async def test_lines_are_kept_with_their_attempt(wire: Wire) -> None:
    held = await wire.started()
    fields = {"n": 1}
    await wire.heartbeat(held, logs=[{"seq": 1, "ago_s": 60, "message": "one", "level": "warning", "fields": fields}])
    await wire.report(held, logs=[{"seq": 2, "ago_s": 0, "message": "two"}])
    now = await wire.plane.database.now()
    first, second = await wire.logs(held.id)
    assert (first["message"], first["level"], first["attempt"], json.loads(first["fields"])) == (
        "one",
        "warning",
        1,
        fields,
    )
    assert timedelta(seconds=59) < now - first["at"] < timedelta(seconds=90)
    assert (second["message"], second["level"], second["attempt"], second["fields"]) == ("two", "info", 1, None)


async def test_lines_of_a_report_that_is_repeated_are_kept_once(wire: Wire) -> None:
    held = await wire.started()
    line = {"seq": 1, "ago_s": 0, "message": "once"}
    for _ in range(2):
        assert await wire.report(held, logs=[line]) == {"accepted": [held.run_id]}
    (kept,) = await wire.logs(held.id)
    assert kept["attempt"] == 1


async def test_only_who_holds_a_run_writes_to_its_log(wire: Wire) -> None:
    held = await wire.started()
    line = {"seq": 1, "ago_s": 0, "message": "not mine"}
    await wire.heartbeat(held._replace(token=held.token - 1), logs=[line])
    await wire.report(held)
    await wire.heartbeat(held, tenant="other", logs=[line])
    await wire.report(held._replace(token=held.token - 1), tenant="other", logs=[line])
    assert await wire.logs(held.id) == []


async def test_lines_that_cannot_be_kept_as_they_are_are_kept_as_they_can(wire: Wire) -> None:
    held = await wire.started()
    odd: list[dict[str, Any]] = [
        {"seq": -5, "ago_s": 1e15, "message": "a\x00b", "fields": {"k": "\x00"}},
        {"seq": 2**40, "ago_s": 0, "message": "x" * 20_000, "fields": {"k": "y" * worker_calls.MAX_RESULT_BYTES}},
    ]
    await wire.heartbeat(held, logs=odd)
    first, last = await wire.logs(held.id)
    assert (first["seq"], first["message"]) == (0, "a\ufffdb")
    assert json.loads(first["fields"]) == {"$refused": "holds a NUL character"}
    assert (last["seq"], len(last["message"])) == (2**31 - 1, worker_calls.MAX_MESSAGE_CHARS)
    assert json.loads(last["fields"])["$bytes"] > worker_calls.MAX_RESULT_BYTES


async def test_a_nul_in_what_a_handler_gives_back_ends_the_run_all_the_same(wire: Wire) -> None:
    held = await wire.started()
    assert await wire.report(held, result={"a": "\x00"}) == {"accepted": [held.run_id]}
    assert json.loads((await wire.ended(held.id))["result"]) == {"$refused": "holds a NUL character"}


async def test_a_nul_in_an_error_is_replaced(wire: Wire) -> None:
    held = await wire.started(retry={"max_attempts": 1})
    error = {"class": "E\x00", "message": "m\x00", "traceback": "t\x00"}
    progress = {"fraction": 0.1, "message": "p\x00"}
    assert await wire.report(held, "failed", error=error, progress=progress) == {"accepted": [held.run_id]}
    ended = await wire.ended(held.id)
    (failure,) = json.loads(ended["failures"])
    assert failure["error"] == {"class": "E\ufffd", "message": "m\ufffd", "traceback": "t\ufffd"}
    assert json.loads(ended["progress"]) == {"$refused": "holds a NUL character"}


@pytest.mark.parametrize("spare", [0, 1])
async def test_a_result_that_is_too_large_is_replaced_by_a_note(wire: Wire, spare: int) -> None:
    held = await wire.started()
    result = "x" * (worker_calls.MAX_RESULT_BYTES - 2 + spare)
    assert await wire.report(held, result=result) == {"accepted": [held.run_id]}
    kept = json.loads((await wire.ended(held.id))["result"])
    if spare:
        assert kept == {"$refused": "larger than 65536 bytes", "$bytes": worker_calls.MAX_RESULT_BYTES + 1}
    else:
        assert kept == result


async def test_a_result_is_kept_digit_for_digit(wire: Wire) -> None:
    held = await wire.started()
    text = b'{"big":123456789012345678901234567890,"n": 1.10}'
    result = f'{{"run_id":"{held.run_id}","fencing_token":{held.token},"outcome":"succeeded","result":'.encode()
    body = b'{"worker":{"id":"w1"},"results":[' + result + text + b"}]}"
    answer = await wire.send(messages.REPORT_PATH, body, token=await wire.token())
    assert answer.body == {"accepted": [held.run_id]}
    assert (await wire.ended(held.id))["result"] == text.decode()


async def test_one_message_may_end_many_runs_and_each_is_told(wire: Wire) -> None:
    good, bad = await wire.started(), await wire.started()
    results = [
        {"run_id": good.run_id, "fencing_token": good.token, "outcome": "succeeded"},
        {"run_id": good.run_id, "fencing_token": good.token, "outcome": "failed"},
        {"run_id": bad.run_id, "fencing_token": bad.token + 1000, "outcome": "succeeded"},
    ]
    answer = await wire.call(messages.REPORT_PATH, {"worker": {"id": "w1"}, "results": results})
    assert set(answer["accepted"]) == {good.run_id}
    assert answer["lost"] == [bad.run_id]
    assert (await wire.ended(good.id))["state"] == "succeeded"
    assert wire.told.total(Name.REPORTS_REFUSED) == 1


def _columns(*held: Held) -> dict[str, Any]:
    return {"run_ids": [each.run_id for each in held], "fencing_tokens": [each.token for each in held]}


async def test_plain_successes_may_come_as_columns(wire: Wire) -> None:
    first, second, third = await wire.started(), await wire.started(), await wire.started()
    body = {"worker": {"id": "w1"}, "succeeded": _columns(first, second)}
    for _ in range(2):  # and be repeated
        assert await wire.call(messages.REPORT_PATH, body) == {"accepted": [], "all_accepted": True}
    assert [(await wire.ended(held.id))["state"] for held in (first, second)] == ["succeeded"] * 2
    late = third._replace(token=third.token + 1000)
    failed = {"run_id": third.run_id, "fencing_token": third.token, "outcome": "discard"}
    answer = await wire.call(messages.REPORT_PATH, body | {"succeeded": _columns(first, late), "results": [failed]})
    assert answer["accepted"].count(first.run_id) == 1 and third.run_id in answer["lost"]
    assert "all_accepted" not in answer
    assert (await wire.ended(third.id))["state"] == "dead"


async def test_columns_of_another_tenant_end_nothing(wire: Wire) -> None:
    held = await wire.started()
    body = {"worker": {"id": "w1"}, "succeeded": _columns(held)}
    assert await wire.call(messages.REPORT_PATH, body, tenant="other") == {"accepted": [], "lost": [held.run_id]}
    assert (await wire.row(held.id))["state"] == "running"


@pytest.mark.parametrize(
    ("columns", "where"),
    [
        ({"run_ids": ["019ae0c1-5a00-8003-9c1e-5f0a3c4d2e1b"], "fencing_tokens": []}, "/succeeded"),
        ({"run_ids": ["no id"], "fencing_tokens": [1]}, "/run_id"),
    ],
)
async def test_columns_that_do_not_fit_are_refused(wire: Wire, columns: dict[str, Any], where: str) -> None:
    body = messages.encode({"worker": {"id": "w1"}, "succeeded": columns})
    answer = await wire.send(messages.REPORT_PATH, body, token=await wire.token())
    assert is_problem(answer, 422)
    assert [fault["pointer"] for fault in answer.body["errors"]] == [where]


async def test_a_worker_that_says_goodbye_is_forgotten(wire: Wire) -> None:
    await wire.lease(wait_s=0)
    assert "w1" in wire.plane.registry.workers
    assert await wire.call(messages.STOP_PATH, {"worker": {"id": "w1"}}, tenant="other") == {}
    assert "w1" in wire.plane.registry.workers
    assert await wire.call(messages.STOP_PATH, {"worker": {"id": "w1"}}) == {}
    assert wire.plane.registry.workers == {}


async def test_a_node_that_goes_away_sends_its_workers_on(wire: Wire) -> None:
    held = await wire.started()
    waiting = asyncio.create_task(wire.lease())
    await wire.waiting()
    await wire.plane.drain()
    assert await waiting == {"leases": [], "drain": True}
    await wire.make()
    assert await wire.lease() == {"leases": [], "drain": True}
    assert await wire.heartbeat(held) == {"lease_s": 15.0, "unsure": [held.run_id]}
    assert await wire.report(held) == {"accepted": [held.run_id]}
