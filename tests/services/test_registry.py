"""Who is there: workers as they describe themselves, and the node."""

from __future__ import annotations

from typing import Any

import pytest

from horarium import errors
from horarium.protocol import messages
from horarium.services.registry import FORGET_AFTER_S, WRITE_EVERY_S, Node, Registry
from tests.builders import Core

NODE = Node("node-1", "http://127.0.0.1:1", "1.2.3", "host", 42)


@pytest.fixture
def registry(core: Core) -> Registry:
    return Registry(core.database, core.leader, NODE)


def asking(worker_id: str = "w1", slots: int = 4, **info: Any) -> messages.LeaseRequest:
    queues = [messages.QueueWeight("mail", 3), messages.QueueWeight("default")]
    return messages.LeaseRequest(
        messages.WorkerInfo(worker_id, **info), queues, slots, handlers=["a", "b"] if worker_id == "w1" else None
    )


async def workers(core: Core) -> dict[str, dict[str, Any]]:
    return {row["id"]: dict(row) for row in await core.fetch("SELECT * FROM workers")}


async def test_a_worker_is_written_down_as_it_describes_itself(core: Core, registry: Registry) -> None:
    registry.asked("acme", asking(version="9", host="box", pid=7))
    assert await registry.run_once() == WRITE_EVERY_S
    (row,) = (await workers(core)).values()
    assert (row["tenant_id"], row["node_id"], row["version"], row["host"], row["pid"]) == (
        "acme",
        "node-1",
        "9",
        "box",
        7,
    )
    assert row["queues"] == '[{"name": "mail", "weight": 3}, {"name": "default", "weight": 1}]'
    assert (row["handlers"], row["slots"], row["running"]) == ('["a", "b"]', 4, 0)


async def test_slots_are_the_free_ones_and_those_in_use(core: Core, registry: Registry) -> None:
    registry.asked("default", asking(slots=10))
    await core.started(worker_id="w1")
    registry.asked("default", asking(slots=9))
    await registry.run_once()
    row = (await workers(core))["w1"]
    assert (row["slots"], row["running"]) == (10, 1)


async def test_runs_of_other_leaders_count_while_heartbeats_list_them(core: Core, registry: Registry) -> None:
    registry.asked("default", asking(slots=10))
    registry.beat("w1", 7)
    registry.asked("default", asking(slots=3))
    await registry.run_once()
    assert (await workers(core))["w1"]["running"] == 7
    core.clock.advance(core.leader.ready.leases.lease_s)
    registry.beat("w1")
    await registry.run_once()
    assert (await workers(core))["w1"]["running"] == 0


async def test_a_silent_worker_is_forgotten(core: Core, registry: Registry) -> None:
    registry.asked("default", asking("w1"))
    registry.asked("default", asking("w2"))
    core.clock.advance(FORGET_AFTER_S - 1)
    registry.beat("w2")
    registry.beat("unknown")
    core.clock.advance(1)
    await registry.run_once()
    assert set(registry.workers) == {"w2"}


async def test_a_worker_that_says_goodbye_is_taken_away(core: Core, registry: Registry) -> None:
    registry.asked("default", asking("w1"))
    await registry.run_once()
    registry.stopped("w1", "other")
    assert "w1" in registry.workers
    registry.stopped("w1", "default")
    registry.stopped("never heard of", "default")
    await registry.run_once()
    assert await workers(core) == {}


async def test_a_goodbye_is_remembered_until_it_is_written(core: Core, registry: Registry) -> None:
    registry.asked("default", asking("w1"))
    await registry.run_once()
    registry.stopped("w1", "default")
    await core.database.close()
    with pytest.raises(errors.UnavailableError):
        await registry.run_once()
    await core.database.open()
    await registry.run_once()
    assert await workers(core) == {}


async def test_a_worker_that_comes_back_after_its_goodbye_is_there(core: Core, registry: Registry) -> None:
    registry.asked("default", asking("w1"))
    registry.stopped("w1", "default")
    registry.asked("default", asking("w1"))
    await registry.run_once()
    assert set(await workers(core)) == {"w1"}


async def test_a_worker_that_changes_its_queues_is_written_anew(core: Core, registry: Registry) -> None:
    registry.asked("default", asking("w1"))
    registry.asked("default", messages.LeaseRequest(messages.WorkerInfo("w1"), [messages.QueueWeight("new")], 2))
    await registry.run_once()
    row = (await workers(core))["w1"]
    assert (row["queues"], row["handlers"]) == ('[{"name": "new", "weight": 1}]', None)


async def test_another_tenants_worker_of_the_same_name_changes_nothing(core: Core, registry: Registry) -> None:
    registry.asked("acme", asking("w1"))
    registry.asked("other", asking("w1", version="evil"))
    await registry.run_once()
    row = (await workers(core))["w1"]
    assert (row["tenant_id"], row["version"]) == ("acme", "")
