"""A definition as a document."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from horarium.domain import job, job_document, job_parsing
from horarium.domain.retry import RetryPolicy

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
SPEC = job.JobSpec(
    name="n",
    target={"http": {"url": "https://example.com", "secret": "s3cret"}},
    payload='{"id":9007199254740993}',
    run_at=NOW,
    retry=RetryPolicy(max_attempts=2),
)


def test_what_is_shown_has_every_member_and_no_secret() -> None:
    shown = job_document.members_of(SPEC)
    not_shown = {"run_in_s"}  # a way of writing run_at
    assert set(shown) == set(job_parsing._READERS) - not_shown
    assert shown["target"]["http"]["secret"] == "***"
    assert shown["run_at"] == "2026-12-01T12:00:00Z"
    assert shown["retry"]["max_attempts"] == 2
    assert shown["retry"]["backoff"] == "exponential"


def test_the_text_for_the_audit_keeps_digits_and_no_secret() -> None:
    text = job_document.to_json(SPEC)
    assert '"payload":{"id":9007199254740993}' in text
    assert "s3cret" not in text
    assert json.loads(text)["name"] == "n"


def test_a_local_one_off_is_shown_as_it_was_written() -> None:
    local = job.JobSpec(
        target={"handler": "h"},
        run_at=NOW,
        run_at_local="2026-12-01T14:00:00",
        timezone="Europe/Riga",
        run_at_fold="first",
    )
    shown = job_document.members_of(local)
    assert (shown["run_at"], shown["fold"], shown["timezone"]) == ("2026-12-01T14:00:00", "first", "Europe/Riga")
