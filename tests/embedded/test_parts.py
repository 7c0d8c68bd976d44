"""The small parts of the launcher that need no server."""

from __future__ import annotations

import pytest

from horarium.embedded import postmaster_file, progress, settings

PID_FILE = "4711\n/data\n1796063303\n54999\n.\n127.0.0.1\n 10035357         5\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("\n", None),
        ("47", postmaster_file.PostmasterFile(47, "")),
        (PID_FILE, postmaster_file.PostmasterFile(4711, "")),
        (PID_FILE + "starting\n", postmaster_file.PostmasterFile(4711, "starting")),
        (PID_FILE + "ready   \n", postmaster_file.PostmasterFile(4711, "ready")),
        ("-4711\n/data\n", postmaster_file.PostmasterFile(4711, "")),
    ],
)
def test_postmaster_pid_is_read_at_every_stage(text: str, expected: postmaster_file.PostmasterFile | None) -> None:
    assert postmaster_file.parse(text) == expected


def test_given_settings_win_over_tuned_ones_but_not_over_the_address() -> None:
    effective = settings.effective({"jit": "on", "port": "1"}, port=5432, durable=True)
    assert effective["jit"] == "on"
    assert effective["port"] == "5432"
    assert effective["fsync"] == effective["synchronous_commit"] == effective["full_page_writes"] == "on"
    assert settings.effective({}, port=5432, durable=False)["fsync"] == "off"
    assert settings.arguments({"jit": "on", "port": "1"}) == ["-c", "jit=on", "-c", "port=1"]


def test_progress_is_told_every_interval_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    instants = iter([100.0, 102.9, 103.0, 103.1, 105.9, 106.0])
    monkeypatch.setattr("horarium.embedded.progress.time.monotonic", lambda: next(instants))
    heard: list[str] = []
    reporter = progress.Reporter(heard.append)
    for _ in range(5):
        reporter.tick(lambda: "redo in progress")
    assert heard == ["redo in progress (3 s)", "redo in progress (6 s)"]
