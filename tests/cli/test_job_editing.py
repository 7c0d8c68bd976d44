from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from click.testing import Result

from tests.cli import node as nodes
from tests.cli.story import read

Cli = Callable[..., Result]


def test_a_payload_may_stand_in_a_file_or_on_standard_input(cli: Cli) -> None:
    Path("p.json").write_text('{"a": 2}', encoding="utf-8")
    for result in (
        cli("jobs", "create", "--dry-run", "--payload", "@p.json"),
        cli("jobs", "create", "--dry-run", "--payload", "@-", stdin='{"a": 2}'),
        cli("jobs", "create", "--dry-run", "-f", "-", stdin='payload: {"a": 2}'),
    ):
        assert json.loads(result.stdout) == {"payload": {"a": 2}}


def test_faults_of_a_file_are_told_with_their_place(cli: Cli) -> None:
    Path("jobs.yaml").write_text("apiVersion: horarium/v1\nmanifest: m\njobs: [{schedule: x}]", encoding="utf-8")
    result = cli("jobs", "create", "-f", "jobs.yaml")
    assert result.exit_code == 2
    assert "/jobs/0/name: a job of a manifest needs a name" in result.stderr


def test_a_one_off_waits_and_is_cancelled(cli: Cli, ok: Callable[..., str]) -> None:
    made = read(ok("jobs", "create", "--in", "1h", "--handler", "greet", "-o", "json"))
    ahead = datetime.fromisoformat(made["next_run_at"]) - datetime.now(UTC)
    assert timedelta(minutes=59) < ahead < timedelta(minutes=61)
    at_once = read(ok("jobs", "create", "--at", "now", "--handler", "nobody.has.this", "-o", "json"))
    (waiting,) = ok("jobs", "runs", at_once["id"], "-q").split()
    assert "Would cancel" in cli("runs", "cancel", waiting, "--dry-run").stderr
    ok("runs", "cancel", waiting)
    assert cli("runs", "wait", waiting).exit_code == 1
    assert read(ok("runs", "get", waiting, "-o", "json"))["state"] == "cancelled"
    timed_out = cli("runs", "wait", read(ok("jobs", "run", made["id"], "-o", "json"))["id"], "--timeout", "30s")
    assert timed_out.exit_code == 0


def test_the_yaml_of_an_import_can_be_created_later(cli: Cli, ok: Callable[..., str]) -> None:
    cli(
        "import",
        "crontab",
        "-",
        "--name",
        "later",
        "--tz",
        "UTC",
        "--output",
        "later.yaml",
        stdin="@daily a\n@hourly b",
    )
    assert sorted(ok("jobs", "create", "-f", "later.yaml", "--upsert", "-q").split()) == ["later.a", "later.b"]


def test_faults_are_shown_with_their_places(cli: Cli, connected: nodes.Node, name: str) -> None:
    result = cli("jobs", "create", name, "--schedule", "*/90 * * * *", "--tz", "Mars/Olympus", "--handler", "greet")
    assert result.exit_code == 2
    assert "/schedule" in result.stderr
    assert "/timezone" in result.stderr
    assert cli("runs", "get", "00000000-0000-7000-8000-000000000000").exit_code == 3
