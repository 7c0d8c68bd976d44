"""What follows from a definition."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from horarium.domain import firing, job, misfire, schedule
from horarium.domain.overlap import Overlap

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
PLAIN = job.JobSpec(target={"handler": "h"}, name="n", schedule="0 2 * * *")


@pytest.mark.parametrize(
    ("target", "key"),
    [({"handler": "billing.run"}, "billing.run"), ({"http": {"url": "x"}}, "@http"), ({"command": {"argv": ["x"]}}, "@command")],
)  # fmt: skip
def test_the_key_of_a_target_says_who_can_run_it(target: dict[str, object], key: str) -> None:
    assert job.target_key(target) == key


def test_the_schedule_has_its_bounds_and_its_jitter() -> None:
    bounded = replace(PLAIN, timezone="Asia/Kolkata", start_at=NOW, end_at=NOW + timedelta(days=9), jitter_s=30)
    assert job.schedule_of(bounded, NOW) == schedule.Schedule(
        schedule.Cron("0 2 * * *", "Asia/Kolkata"), NOW, NOW + timedelta(days=9), timedelta(seconds=30)
    )
    every = replace(PLAIN, schedule=None, interval_s=90)
    assert job.timing_of(every, NOW) == schedule.Every(timedelta(seconds=90), NOW)
    once = replace(PLAIN, schedule=None, run_at=NOW, run_at_local="2026-12-01T12:00:00", run_at_fold="first")
    assert job.timing_of(once, NOW) == schedule.Once(NOW, "2026-12-01T12:00:00", "UTC", "first")
    assert job.is_one_off(once)
    assert not job.is_one_off(PLAIN)


def test_the_usual_policies_are_an_empty_key_and_others_decode_to_themselves() -> None:
    assert job.policy_key_of(PLAIN) == ""
    unusual = replace(
        PLAIN,
        misfire=misfire.Misfire.RUN_ALL,
        misfire_grace_s=5,
        catch_up_window_s=7,
        max_catch_up=9,
        overlap=Overlap.SKIP,
    )
    assert firing.decode_policy(job.policy_key_of(unusual)) == firing.FiringPolicy(
        job.misfire_policy_of(unusual), Overlap.SKIP
    )
    assert firing.decode_policy("") == firing.FiringPolicy(job.misfire_policy_of(PLAIN), Overlap.ALLOW)


def test_an_interval_counts_from_its_start_or_from_now() -> None:
    assert job.anchor_of(PLAIN, NOW) == NOW
    assert job.anchor_of(replace(PLAIN, start_at=NOW - timedelta(days=1)), NOW) == NOW - timedelta(days=1)


def test_jitter_and_payload_are_no_timing() -> None:
    assert not job.timing_changed(PLAIN, replace(PLAIN, jitter_s=5, payload="[]", priority=9))
    for name, value in (("timezone", "Asia/Kolkata"), ("schedule", "@daily"), ("end_at", NOW)):
        assert job.timing_changed(PLAIN, replace(PLAIN, **{name: value}))
