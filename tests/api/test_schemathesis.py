"""Whatever the OpenAPI document allows, and much that it does not: no request breaks the server, no answer breaks the document.

The same requests each time. Keys are used once for each role that can change most: the admin's.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from horarium.api import app, openapi
from tests.api.conftest import node

EXAMPLES = 12
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]

schema = schemathesis.openapi.from_dict(openapi.document(app.routes()))


@dataclass(frozen=True, slots=True)
class Served:
    """A node that serves from a thread of its own: schemathesis asks from this one."""

    url: str
    token: str


@pytest.fixture(scope="module")
def served(shared_url: str) -> Iterator[Served]:
    started: list[Served] = []
    is_up, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        async with node(shared_url) as api:
            started.append(Served(api.url, await api.services.keys.create("fuzzed", "admin")))
            is_up.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert is_up.wait(30)
    yield started[0]
    stop.set()
    thread.join(30)


@schema.parametrize()
@hypothesis.settings(
    max_examples=EXAMPLES,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)
def test_no_request_breaks_the_server_or_the_document(case: schemathesis.Case[Any], served: Served) -> None:
    if case.path.endswith("/logs"):
        case.query.pop("follow", None)
    case.call_and_validate(
        base_url=served.url, headers={"Authorization": f"Bearer {served.token}"}, checks=CHECKS, timeout=30
    )
