from __future__ import annotations

from horarium.cli import sample_jobs
from horarium.testing import InlineWorker

worker = InlineWorker(sample_jobs.h)


def test_the_samples_are_these_and_each_has_a_schedule() -> None:
    names = {"sample.every_second", "sample.every_minute", "sample.flaky", "sample.hopeless"}
    assert set(sample_jobs.h.handlers) == names
    assert all(handler.schedules for handler in sample_jobs.h.handlers.values())


def test_they_end_as_they_say() -> None:
    assert worker.run("sample.every_second").outcome == "succeeded"
    steps = worker.run("sample.every_minute", {"steps": 1})
    assert (steps.value, steps.logs) == ({"steps": 1}, ["step done"])
    assert [worker.run("sample.flaky", attempt=attempt).outcome for attempt in (1, 2, 3)] == [
        "failed",
        "failed",
        "succeeded",
    ]
    assert worker.run("sample.hopeless").outcome == "discard"
