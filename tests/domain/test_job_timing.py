"""When a job runs: what is looked at together."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from horarium.domain import job, job_timing
from horarium.domain.job_fields import Faults

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("instant", "text"),
    [(NOW, "2026-12-01T12:00:00Z"), (NOW.replace(microsecond=5), "2026-12-01T12:00:00.000005Z")],
)
def test_moments_are_written_with_a_z(instant: datetime, text: str) -> None:
    assert job_timing.moment_text(instant) == text


def test_the_moment_that_is_held_stands_only_while_nothing_about_it_changes() -> None:
    at = datetime(2026, 11, 1, 8, 0, tzinfo=UTC)
    held = job.JobSpec(
        target={}, run_at=at, run_at_local="2026-11-01T10:00:00", timezone="Europe/Riga", run_at_fold=None
    )
    same = {"run_at": "2026-11-01T10:00:00", "timezone": "Europe/Riga"}
    faults = Faults()
    assert job_timing.resolve(same, NOW, faults, held)["run_at"] == at
    assert len(faults) == 0
    for other in ({**same, "timezone": "UTC"}, {**same, "run_at": "2026-11-01T10:00:01"}, {**same, "fold": "first"}):
        faults = Faults()
        job_timing.resolve(other, NOW, faults, held)
        assert len(faults) == 1


def test_a_faulty_way_is_not_told_twice() -> None:
    faults = Faults()
    given = {"run_in_s": job_timing.READERS["run_in_s"](-1, "/run_in_s", faults)}
    job_timing.resolve(given, NOW, faults)
    assert len(faults) == 1
