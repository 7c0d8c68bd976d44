"""A row as the driver gives it, and what a table fills into a new one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Fields = dict[str, Any]


class Row:
    """Reached by name and by number, as `asyncpg.Record` is."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Fields) -> None:
        self._fields = fields

    def __getitem__(self, key: str | int) -> Any:
        return self._fields[key] if isinstance(key, str) else [*self._fields.values()][key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._fields.values())

    def __len__(self) -> int:
        return len(self._fields)

    def keys(self) -> Any:
        return self._fields.keys()

    def __repr__(self) -> str:
        return f"Row({self._fields})"


def only(fields: Fields, *names: str) -> Fields:
    """Some columns of a row, in this order."""
    return {name: fields[name] for name in names}


NEW_RUN: Fields = {
    "id": None,
    "job_id": None,
    "scheduled_for": None,
    "ready_at": None,
    "started_at": None,
    "lease_expires_at": None,
    "fencing_token": 0,
    "job_version": None,
    "shard": None,
    "priority": None,
    "attempt": 0,
    "snoozes": 0,
    "state": "waiting",
    "trigger": "schedule",
    "tenant_id": None,
    "queue": None,
    "target_key": None,
    "worker_id": None,
    "rerun_of": None,
    "timeout_s": None,
    "payload": None,
    "target": None,
    "retry": None,
    "failures": None,
    "cancel_requested_at": None,
    "cancel_requested_by": None,
}
KEPT_IN_HISTORY = (
    "id", "job_id", "scheduled_for", "ready_at", "started_at", "fencing_token", "job_version", "shard", "priority", "attempt",
    "trigger", "tenant_id", "queue", "target_key", "worker_id", "rerun_of", "timeout_s", "payload", "target", "retry", "failures",
)  # fmt: skip
TIMER = (
    "job_id", "shard", "scheduled_for", "due_at", "last_scheduled_for", "priority", "job_version", "tenant_id", "queue",
    "target_key", "schedule_key", "policy_key", "zone_version",
)  # fmt: skip
NEW_JOB: Fields = {
    "id": None,
    "shard": None,
    "tenant_id": "default",
    "created_at": None,
    "created_by": "",
    "updated_at": None,
    "updated_by": "",
    "anchor_at": None,
    "name": None,
    "payload": "{}",
    "run_at": None,
    "description": "",
    "owner": None,
    "tags": [],
    "managed_by": None,
    "target": None,
    "queue": "default",
    "priority": 5,
    "schedule": None,
    "interval_s": None,
    "run_at_local": None,
    "run_at_fold": None,
    "timezone": "UTC",
    "start_at": None,
    "end_at": None,
    "jitter_s": 0,
    "misfire": "run_once",
    "misfire_grace_s": 60,
    "catch_up_window_s": 86_400,
    "max_catch_up": 100,
    "overlap": "allow",
    "retry": "{}",
    "timeout_s": 300,
    "expect": None,
    "status": "active",
    "status_reason": None,
    "pause": None,
    "version": 1,
    "deleted_at": None,
}
