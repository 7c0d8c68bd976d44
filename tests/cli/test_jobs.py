from __future__ import annotations

from collections.abc import Callable

import yaml
from click.testing import Result

from tests.cli.story import read

Cli = Callable[..., Result]


def test_a_jobs_life(cli: Cli, ok: Callable[..., str], name: str) -> None:
    nightly = ("--schedule", "0 2 * * *", "--tz", "Asia/Kolkata", "--handler", "greet", "--tag", "life")
    made = cli("jobs", "create", name, *nightly)
    assert made.exit_code == 0
    assert "At 02:00" in made.stdout
    assert "+05:30" in made.stdout

    assert cli("jobs", "create", name, *nightly).exit_code == 4
    ok("jobs", "create", name, *nightly, "--priority", "7", "--upsert")
    assert read(ok("jobs", "get", name, "-o", "json"))["priority"] == 7
    assert yaml.safe_load(ok("jobs", "get", name, "-o", "yaml"))["name"] == name

    listed = ok("jobs", "list", "--tag", "life").splitlines()
    assert listed[0].split() == ["NAME", "SCHEDULE", "TIMEZONE", "NEXT", "STATUS", "LAST"]
    assert name in listed[1]
    assert "At 02:00" in listed[1]
    assert "(in " in listed[1]
    assert ok("jobs", "list", "--tag", "life", "-q") == f"{name}\n"
    assert read(ok("jobs", "list", "--tag", "life", "-o", "jsonl"))["timezone"] == "Asia/Kolkata"

    assert "0 3 * * *" in ok("jobs", "update", name, "--schedule", "0 3 * * *", "--dry-run")
    assert read(ok("jobs", "get", name, "-o", "json"))["schedule"] == "0 2 * * *"
    ok("jobs", "update", name, "--schedule", "0 3 * * *")
    fires = ok("jobs", "next", name, "--count", "2", "-q").split()
    assert [fire[11:] for fire in fires] == ["21:30:00Z", "21:30:00Z"]
    assert cli("jobs", "update", name, "--priority", "1", "--if-version", "1").exit_code == 4

    ok("jobs", "pause", name, "--reason", "bank holiday", "--for", "2h")
    paused = ok("jobs", "get", name)
    assert "paused" in paused
    assert "bank holiday" in paused
    ok("jobs", "resume", name)
    assert "active" in ok("jobs", "get", name)
    assert ok("jobs", "skips", name, "-q") == ""

    assert "Would delete" in cli("jobs", "delete", name, "--dry-run").stderr
    ok("jobs", "delete", name)
    assert cli("jobs", "get", name).exit_code == 3
