"""A lease's text is what `messages.Lease` reads, whatever stands in it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium.protocol import messages
from horarium.protocol.lease_text import instant_text, lease_text

RUN, JOB = UUID(int=1), UUID(int=2)
AT = datetime(2026, 3, 1, 2, 30, tzinfo=UTC)


def read(**changed: Any) -> messages.Lease:
    members: dict[str, Any] = {
        "run_id": RUN,
        "job_id": JOB,
        "token": 7,
        "attempt": 1,
        "timeout_s": 300,
        "scheduled_for": AT,
        "trigger": "schedule",
        "job_name": "nightly",
        "target": '{"handler": "h"}',
        "payload": "{}",
        "lease_s": "15",
        "start_in_s": 0.0,
    }
    text = f'{{"leases":[{lease_text(**members | changed)}]}}'
    (lease,) = messages.lease_responses.decode(text.encode()).leases
    return lease


def test_a_lease_is_read_as_it_was_written() -> None:
    lease = read()
    assert (lease.run_id, lease.job_id, lease.fencing_token, lease.attempt) == (str(RUN), str(JOB), 7, 1)
    assert (lease.scheduled_for, lease.timeout_s, lease.lease_s) == ("2026-03-01T02:30:00Z", 300, 15)
    assert (lease.job_name, lease.trigger, lease.start_in_s) == ("nightly", "schedule", 0)


@given(st.none() | st.text())
def test_any_name_survives(name: str | None) -> None:
    assert read(job_name=name).job_name == name


@pytest.mark.parametrize("payload", ['{"big": 12345678901234567890, "b": 1.0}', "null", '"ü \\" \\\\"', "[1, 2]"])
def test_a_payload_is_passed_on_byte_by_byte(payload: str) -> None:
    assert bytes(read(payload=payload).payload).decode() == payload


def test_target_is_passed_on() -> None:
    assert msgspec.json.decode(read(target='{"http":{"url":"http://h"}}').target) == {"http": {"url": "http://h"}}


@pytest.mark.parametrize(("early", "read_as"), [(0.083141, 0.083141), (0.0, 0), (-4.2, 0)])
def test_only_what_lies_ahead_is_waited_for(early: float, read_as: float) -> None:
    assert read(start_in_s=early).start_in_s == read_as


def test_an_instant_keeps_its_microseconds() -> None:
    assert instant_text(AT.replace(microsecond=120)) == "2026-03-01T02:30:00.000120Z"
