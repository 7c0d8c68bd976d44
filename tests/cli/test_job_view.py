from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from horarium.cli import job_view

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)

JOB: dict[str, Any] = {
    "id": "01a2",
    "name": "billing.nightly",
    "status": "active",
    "schedule": "0 2 * * *",
    "schedule_text": "At 02:00 every day, Asia/Kolkata time",
    "timezone": "Asia/Kolkata",
    "next_run_at": "2026-12-01T20:30:00Z",
    "next_runs": ["2026-12-01T20:30:00Z"],
    "next_runs_local": ["2026-12-02T02:00:00+05:30"],
    "target": {"handler": "billing.run"},
    "last_run": {"run_id": "r", "state": "dead"},
}
RUN: dict[str, Any] = {
    "id": "r",
    "job_id": "01a2",
    "state": "dead",
    "attempt": 2,
    "max_attempts": 2,
    "started_at": "2026-12-01T01:00:00Z",
    "finished_at": "2026-12-01T01:00:01.5Z",
    "error": "E: first line\nsecond line",
    "attempts": [
        {"attempt": 1, "outcome": "lost", "worker_id": "w1", "error": None},
        {"attempt": 2, "outcome": "failed", "worker_id": None, "error": {"class": "E", "message": "boom"}},
    ],
}


def cells(columns: list[Any], item: dict[str, Any]) -> list[str]:
    return [str(column.text(item)) for column in columns]


def test_a_job_in_a_list() -> None:
    assert cells(job_view.job_columns(NOW), JOB) == [
        "billing.nightly",
        "At 02:00 every day, Asia/Kolkata time",
        "Asia/Kolkata",
        "2026-12-02 02:00 +05:30 (in 18 h)",
        "active",
        "dead",
    ]
    bare = {"id": "01a2", "name": None, "status": "paused", "interval_s": 60}
    assert cells(job_view.job_columns(NOW), bare) == ["01a2", "every 60 s", "–", "–", "paused", "–"]
    assert job_view.schedule_words({"schedule": "@daily"}) == "@daily"
    assert job_view.schedule_words({}) == "once"


def test_a_job_in_full() -> None:
    lines = dict(
        job_view.job_lines({**JOB, "target": {"http": {"url": "https://x"}}, "pause": {"reason": "holiday"}}, NOW)
    )
    assert lines["target"] == '{"http": {"url": "https://x"}}'
    assert lines["reason"] == "holiday"
    assert lines["next"] == "2026-12-02 02:00 +05:30 (in 18 h)"
    assert dict(job_view.job_lines(JOB, NOW))["target"] == "handler billing.run"


def test_a_run() -> None:
    row = dict(
        zip(
            (column.heading for column in job_view.run_columns(NOW)), cells(job_view.run_columns(NOW), RUN), strict=True
        )
    )
    assert (row["JOB"], row["DURATION"], row["ATTEMPT"], row["ERROR"]) == ("01a2", "1.50 s", "2/2", "E: first line")
    lines = dict(job_view.run_lines(RUN, NOW))
    assert lines["attempts"] == "1: lost on w1\n2: failed on –: E: boom"
    assert job_view.duration({"started_at": None}) == "–"


def test_errors_are_one_short_line_in_a_table() -> None:
    assert job_view.first_line(None) == "–"
    assert job_view.first_line({"class": "E", "message": "m\nn"}) == "E: m"
    assert len(job_view.first_line("x" * 200)) == 80
