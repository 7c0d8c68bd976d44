"""Delays are drawn from the job and its nominal time alone, and spread evenly below their bound."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from horarium.domain import jitter

JOB = UUID("0190f5fe-7c00-8000-8000-000000000001")
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.uuids(), st.integers(0, 10**9), st.timedeltas(timedelta(microseconds=1), timedelta(days=2)))
def test_a_delay_lies_below_its_bound(job_id: UUID, seconds: int, bound: timedelta) -> None:
    scheduled_for = NOON + timedelta(seconds=seconds)
    delay = jitter.delay(job_id, scheduled_for, bound)
    assert timedelta(0) <= delay < bound
    assert jitter.delay(job_id, scheduled_for, bound) == delay


def test_no_room_means_no_delay() -> None:
    assert jitter.delay(JOB, NOON, timedelta(0)) == timedelta(0)
    assert jitter.delay(JOB, NOON, timedelta(seconds=-1)) == timedelta(0)


def test_another_process_draws_the_same() -> None:
    """Node and restart do not matter, so nothing may depend on Python's seeded hashes."""
    program = (
        "from datetime import *; from uuid import UUID; from horarium.domain import jitter;"
        f"print(jitter.delay(UUID('{JOB}'), datetime(2026, 5, 1, 12, tzinfo=UTC), timedelta(minutes=1)))"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert answers == {str(jitter.delay(JOB, NOON, MINUTE))}


def test_an_instant_is_the_same_in_any_zone() -> None:
    local = NOON.astimezone(tz=None)
    assert jitter.delay(JOB, local, MINUTE) == jitter.delay(JOB, NOON, MINUTE)


def test_delays_are_spread_evenly() -> None:
    delays = [jitter.delay(JOB, NOON + n * MINUTE, MINUTE) for n in range(4000)]
    tenths = [int(delay / MINUTE * 10) for delay in delays]
    assert all(320 < tenths.count(tenth) < 480 for tenth in range(10))
    others = [jitter.delay(UUID(int=n), NOON, MINUTE) for n in range(4000)]
    assert len(set(others)) > 3990
