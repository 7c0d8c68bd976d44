"""What the gateway refuses, and how: one node for all of these, since a refusal leaves nothing behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from horarium.domain import roles
from horarium.protocol import messages
from tests import builders
from tests.gateway import wire as wires
from tests.gateway.wire import Wire, is_problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATHS = [messages.LEASE_PATH, messages.HEARTBEAT_PATH, messages.REPORT_PATH, messages.STOP_PATH]
ASKS: dict[str, Any] = {"worker": {"id": "w1"}, "queues": [{"name": "default"}], "slots": 1}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_wire(shared_url: str) -> AsyncIterator[Wire]:
    """One node for the tests of this file."""
    await builders.empty(shared_url)
    async with wires.open_wire(shared_url) as running:
        yield running


@pytest.mark.parametrize("path", PATHS)
async def test_without_a_key_nobody_is_let_in(shared_wire: Wire, path: str) -> None:
    answer = await shared_wire.send(path, b"{}", token=None)
    assert is_problem(answer, 401)
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="horarium"'


async def test_a_wrong_key_is_refused(shared_wire: Wire) -> None:
    token = await shared_wire.token()
    for wrong in ("nonsense", token[:-1] + ("a" if token[-1] != "a" else "b"), token.upper()):
        assert is_problem(await shared_wire.send(messages.STOP_PATH, b"{}", token=wrong), 401)


@pytest.mark.parametrize("role", [roles.Role.VIEWER, roles.Role.OPERATOR, roles.Role.EDITOR])
async def test_a_key_that_does_not_work_is_forbidden(shared_wire: Wire, role: str) -> None:
    token = await shared_wire.token(role=role)
    answer = await shared_wire.send(messages.LEASE_PATH, messages.encode(ASKS), token=token)
    assert is_problem(answer, 403)
    assert role in answer.body["detail"]


@pytest.mark.parametrize("role", [roles.Role.WORKER, roles.Role.ADMIN])
async def test_a_key_that_works_is_let_in(shared_wire: Wire, role: str) -> None:
    answer = await shared_wire.send(
        messages.LEASE_PATH, messages.encode(ASKS), token=await shared_wire.token(role=role)
    )
    assert (answer.status, answer.body) == (200, {"leases": []})
    assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (messages.LEASE_PATH, b"{"),
        (messages.LEASE_PATH, b"\xff"),
        (messages.LEASE_PATH, messages.encode(ASKS | {"slots": "many"})),
        (messages.LEASE_PATH, messages.encode(ASKS | {"slots": 0})),
        (messages.LEASE_PATH, messages.encode(ASKS | {"slots": messages.MAX_SLOTS + 1})),
        (messages.LEASE_PATH, messages.encode(ASKS | {"queues": []})),
        (messages.LEASE_PATH, messages.encode(ASKS | {"wait_s": -1})),
        (messages.LEASE_PATH, messages.encode(ASKS | {"wait_s": messages.MAX_WAIT_S + 1})),
        (messages.LEASE_PATH, messages.encode(ASKS | {"queues": [{"name": "default", "weight": 0}]})),
        (messages.HEARTBEAT_PATH, b'{"worker": {"id": "w1"}}'),
        (messages.HEARTBEAT_PATH, b'{"worker": {"id": "w1"}, "runs": [{"run_id": "no-id", "fencing_token": 1}]}'),
        (messages.REPORT_PATH, b'{"worker": {"id": "w1"}, "results": [{"run_id": "x"}]}'),
        (messages.REPORT_PATH, b'{"worker": {"id": "w1"}, "results": {}}'),
        (messages.STOP_PATH, b'{"worker": "w1"}'),
    ],
)
async def test_a_malformed_message_is_told_its_fault(shared_wire: Wire, path: str, body: bytes) -> None:
    answer = await shared_wire.send(path, body, token=await shared_wire.token())
    assert is_problem(answer, 422)
    assert [fault["code"] for fault in answer.body["errors"]] == ["malformed_message"]


@pytest.mark.parametrize("name", ["w\x001", "w\n1", "w\x1b[2J", "w\u202e1"])
async def test_a_worker_whose_name_cannot_be_shown_is_refused(shared_wire: Wire, name: str) -> None:
    body = messages.encode(ASKS | {"worker": {"id": name}})
    answer = await shared_wire.send(messages.LEASE_PATH, body, token=await shared_wire.token())
    assert is_problem(answer, 422)
    assert [fault["pointer"] for fault in answer.body["errors"]] == ["/worker/id"]
    assert name not in shared_wire.plane.registry.workers


async def test_all_names_that_cannot_be_kept_are_told_at_once(shared_wire: Wire) -> None:
    body = messages.encode(
        ASKS
        | {
            "worker": {"id": "w1", "host": "h\x00", "version": "1\t", "pid": 2**31},
            "queues": [{"name": "good"}, {"name": "b\x00d"}],
            "handlers": ["good", "b\x7fd"],
        }
    )
    answer = await shared_wire.send(messages.LEASE_PATH, body, token=await shared_wire.token())
    assert is_problem(answer, 422)
    pointers = {fault["pointer"] for fault in answer.body["errors"]}
    assert pointers == {"/worker/host", "/worker/version", "/worker/pid", "/queues/1/name", "/handlers/1"}


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_only_post_is_taken(shared_wire: Wire, method: str) -> None:
    answer = await shared_wire.send(messages.LEASE_PATH, b"", token=await shared_wire.token(), method=method)
    assert is_problem(answer, 405)
    assert answer.headers["Allow"] == "POST"


@pytest.mark.parametrize("path", ["/v1/worker/", "/v1/worker/leases", "/v1/worker/lease/", "/v1/jobs"])
async def test_other_paths_are_not_found(shared_wire: Wire, path: str) -> None:
    assert is_problem(await shared_wire.send(path, b"{}", token=await shared_wire.token()), 404)
