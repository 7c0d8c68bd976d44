from __future__ import annotations

from collections.abc import Callable

from horarium.cli import times, workers
from tests.cli.story import read, shown_within


def test_workers_are_listed_with_what_they_do(ok: Callable[..., str]) -> None:
    (worker,) = shown_within(20, lambda: read(ok("workers", "list", "-o", "json")))
    assert worker["state"] == "alive"
    assert worker["id"] in ok("workers", "list")


def test_queues_are_told_as_they_were_given() -> None:
    columns = {column.heading: column for column in workers.columns(times.now())}
    worker = {
        "id": "w",
        "queues": [{"name": "critical", "weight": 6}, "default"],
        "last_seen_at": "2026-12-01T00:00:00Z",
    }
    assert columns["QUEUES"].text(worker) == "critical=6, default"
