"""How jobs and their runs look: the columns of lists and the lines of one job."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from horarium.cli import output, times

DASH = "–"


def job_columns(now: datetime) -> list[output.Column]:
    """Name, schedule in words, zone, next fire, status, and how the last run ended."""
    return [
        output.Column("NAME", _name),
        output.Column("SCHEDULE", schedule_words),
        output.Column("TIMEZONE", lambda job: job.get("timezone") or DASH),
        output.Column("NEXT", lambda job: next_fire(job, now)),
        output.Column("STATUS", lambda job: job["status"]),
        output.Column("LAST", last_outcome),
    ]


def job_lines(job: output.Item, now: datetime) -> list[tuple[str, object]]:
    """One job in full, for people."""
    pause = job.get("pause") or {}
    return [
        ("name", _name(job)),
        ("id", job["id"]),
        ("status", job["status"]),
        ("reason", job.get("status_reason") or pause.get("reason")),
        ("description", job.get("description")),
        ("schedule", schedule_words(job)),
        ("expression", job.get("schedule")),
        ("timezone", job.get("timezone")),
        ("next", "\n".join(_next_fires(job, now))),
        ("target", _target(job.get("target"))),
        ("payload", compact(job.get("payload"))),
        ("queue", job.get("queue")),
        ("priority", job.get("priority")),
        ("timeout", f"{job['timeout_s']} s" if job.get("timeout_s") else None),
        ("retry", compact(job.get("retry"))),
        ("misfire", job.get("misfire")),
        ("overlap", job.get("overlap")),
        ("owner", job.get("owner")),
        ("tags", ", ".join(job.get("tags") or [])),
        ("managed by", job.get("managed_by")),
        ("last run", last_outcome(job)),
        ("version", job.get("version")),
        ("warnings", "\n".join(job.get("warnings") or [])),
    ]


def run_columns(now: datetime) -> list[output.Column]:
    """The columns of a list of runs."""
    return [
        output.Column("RUN", lambda run: run["id"]),
        output.Column("JOB", lambda run: run.get("job_name") or run["job_id"]),
        output.Column("STATE", lambda run: run["state"]),
        output.Column("SCHEDULED", lambda run: times.both(run.get("scheduled_for"), now)),
        output.Column("DURATION", duration),
        output.Column("ATTEMPT", lambda run: f"{run.get('attempt', 0)}/{run.get('max_attempts') or DASH}"),
        output.Column("ERROR", lambda run: first_line(run.get("error"))),
    ]


def run_lines(run: output.Item, now: datetime) -> list[tuple[str, object]]:
    """One run in full, for people."""
    return [
        ("run", run["id"]),
        ("job", run.get("job_name") or run["job_id"]),
        ("state", run["state"]),
        ("trigger", run.get("trigger")),
        ("rerun of", run.get("rerun_of")),
        ("queue", run.get("queue")),
        ("scheduled for", times.both(run.get("scheduled_for"), now)),
        ("started", times.both(run.get("started_at"), now)),
        ("finished", times.both(run.get("finished_at"), now)),
        ("duration", duration(run)),
        ("attempt", f"{run.get('attempt', 0)} of {run.get('max_attempts') or DASH}"),
        ("worker", run.get("worker_id")),
        ("payload", compact(run.get("payload"))),
        ("progress", compact(run.get("progress"))),
        ("result", compact(run.get("result"))),
        ("error", error_text(run.get("error"))),
        ("attempts", "\n".join(_attempt(attempt) for attempt in run.get("attempts") or [])),
    ]


def schedule_words(job: output.Item) -> str:
    """The schedule as the server puts it into words; the bare facts where it gives none."""
    if job.get("schedule_text"):
        return str(job["schedule_text"])
    if job.get("schedule"):
        return str(job["schedule"])
    if job.get("interval_s"):
        return f"every {job['interval_s']} s"
    return "once"


def next_fire(job: output.Item, now: datetime) -> str:
    """The next fire in the job's own zone when the server tells it so, else in UTC."""
    local = job.get("next_runs_local") or []
    return times.both(local[0] if local else job.get("next_run_at"), now)


def last_outcome(job: output.Item) -> str:
    """The state of the last run, or a dash."""
    last = job.get("last_run") or {}
    return str(last.get("state") or DASH)


def duration(run: output.Item) -> str:
    """How long the last attempt took, of a run that has ended."""
    if not run.get("started_at") or not run.get("finished_at"):
        return DASH
    took = times.parse(run["finished_at"]) - times.parse(run["started_at"])
    return f"{took.total_seconds():.2f} s"


def error_text(error: Any) -> str:
    """An error, which may be text or `{class, message, traceback}`."""
    if isinstance(error, dict):
        return ": ".join(str(part) for part in (error.get("class"), error.get("message")) if part)
    return str(error or "")


def first_line(error: Any) -> str:
    """The first line of an error, short enough for a table."""
    lines = error_text(error).splitlines() or [DASH]
    return lines[0] if len(lines[0]) <= 80 else lines[0][:79] + "…"


def compact(value: object) -> str | None:
    """A value as one line of JSON; None for what is empty."""
    return json.dumps(value, ensure_ascii=False) if value not in (None, {}, []) else None


def _name(job: output.Item) -> str:
    return str(job.get("name") or job["id"])


def _next_fires(job: output.Item, now: datetime) -> Sequence[str]:
    fires = job.get("next_runs_local") or job.get("next_runs") or []
    return [times.both(fire, now) for fire in fires]


def _target(target: Any) -> str | None:
    if not isinstance(target, dict):
        return None
    if "handler" in target:
        return f"handler {target['handler']}"
    return compact(target)


def _attempt(attempt: output.Item) -> str:
    text = f"{attempt.get('attempt')}: {attempt.get('outcome')} on {attempt.get('worker_id') or DASH}"
    error = error_text(attempt.get("error"))
    return f"{text}: {error}" if error else text
