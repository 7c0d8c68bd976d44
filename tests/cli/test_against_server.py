"""The command line against a real node with a real worker: one story a test."""

from __future__ import annotations

import json
import stat
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from tests import databases
from tests.cli import node as nodes

Cli = Callable[..., Result]


@pytest.fixture(scope="module")
def node(databases_of_run: databases.Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[nodes.Node]:
    url = databases_of_run.create_database()
    with nodes.running(url, tmp_path_factory.mktemp("node")) as running:
        yield running
    databases_of_run.drop_database(url)


@pytest.fixture(autouse=True)
def _connected(node: nodes.Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in node.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def ok(cli: Cli) -> Callable[..., str]:
    """Run a command that must succeed; what it prints on stdout."""

    def run(*arguments: str, stdin: str | None = None) -> str:
        result = cli(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    return run


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A job's name that no other test uses."""
    return f"t.{request.node.name}/ü"


def read(text: str) -> Any:
    return json.loads(text)


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


def test_a_run_by_hand_is_waited_for_and_followed(cli: Cli, ok: Callable[..., str], name: str) -> None:
    ok("jobs", "create", name, "--schedule", "@yearly", "--handler", "greet")
    made = cli("jobs", "run", name, "--payload", '{"name": "Ada"}', "--wait", "--timeout", "30s", "-o", "json")
    assert made.exit_code == 0
    run = read(made.stdout)
    assert (run["state"], run["result"]) == ("succeeded", {"hello": "Ada"})

    followed = cli("runs", "logs", "-f", run["id"])
    assert followed.exit_code == 0
    assert "saying hello name=Ada" in followed.stdout
    assert "is succeeded" in followed.stderr
    assert read(ok("runs", "logs", run["id"], "-o", "jsonl"))["message"] == "saying hello"
    assert "succeeded" in ok("runs", "get", run["id"])
    assert run["id"] in ok("jobs", "runs", name)
    assert run["id"] in ok("runs", "list", "--job", name, "--state", "succeeded", "--since", "1h", "-q").split()

    again = read(ok("runs", "rerun", run["id"], "--wait", "-o", "json"))
    assert (again["rerun_of"], again["state"]) == (run["id"], "succeeded")
    assert cli("runs", "wait", again["id"]).exit_code == 0
    assert "succeeded" in ok("jobs", "list", "--name", name)


def test_a_run_that_ends_badly(cli: Cli, ok: Callable[..., str], name: str) -> None:
    ok("jobs", "create", name, "--schedule", "@yearly", "--handler", "doom")
    first, second = (read(cli("jobs", "run", name, "--wait", "-o", "json").stdout) for _ in range(2))
    assert first["state"] == "dead"
    assert cli("runs", "wait", first["id"]).exit_code == 1
    assert cli("runs", "logs", "-f", first["id"]).exit_code == 1

    assert sorted(ok("dlq", "list", "--job", name, "-q").split()) == sorted([first["id"], second["id"]])
    grouped = ok("dlq", "list", "--job", name, "--group").splitlines()
    assert "it was never to be" in grouped[1]
    assert cli("dlq", "retry").exit_code == 2
    assert "Would retry 2" in cli("dlq", "retry", "--all", "--job", name, "--dry-run").stderr
    ok("dlq", "retry", first["id"])
    ok("dlq", "discard", second["id"])
    assert cli("dlq", "discard", "--all", "--job", name, stdin="n\n").exit_code == 1
    assert second["id"] not in ok("dlq", "list", "--job", name, "-q")


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


def test_faults_are_shown_with_their_places(cli: Cli, name: str) -> None:
    result = cli("jobs", "create", name, "--schedule", "*/90 * * * *", "--tz", "Mars/Olympus", "--handler", "greet")
    assert result.exit_code == 2
    assert "/schedule" in result.stderr
    assert "/timezone" in result.stderr
    assert cli("runs", "get", "00000000-0000-7000-8000-000000000000").exit_code == 3


def test_keys(cli: Cli, ok: Callable[..., str], node: nodes.Node, tmp_path: Path) -> None:
    file = tmp_path / "viewer.key"
    ok("keys", "create", "seer", "--role", "viewer", "--expires-in", "1d", "--to-file", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert cli("jobs", "list", "--api-key-file", str(file)).exit_code == 0
    refused = cli("--api-key-file", str(file), "jobs", "create", "x", "--schedule", "@daily", "--handler", "a")
    assert refused.exit_code == 1

    token = ok("keys", "create", "second", "--role", "worker", "-q").strip()
    assert token.startswith("hrm_")
    direct = cli("keys", "create", "root", "--role", "admin", "--database-url", node.database_url, "-o", "json")
    key = read(direct.stdout)
    rows = {line.split()[1]: line.split() for line in ok("keys", "list").splitlines()}
    assert rows["seer"][2] == "viewer"
    assert rows["root"][0] == key["id"]
    assert "Would revoke" in cli("keys", "revoke", key["id"], "--dry-run").stderr
    ok("keys", "revoke", rows["seer"][0])
    assert cli("jobs", "list", "--api-key-file", str(file)).exit_code == 1


def test_a_crontab_goes_live_and_a_second_import_changes_nothing(cli: Cli, ok: Callable[..., str]) -> None:
    Path("ops").write_text("PATH=/usr/bin:/bin\n0 2 * * * echo hi; cat%there\n0 3 * * * /bin/true\n", encoding="utf-8")
    arguments = ("import", "crontab", "ops", "--tz", "Asia/Kolkata", "--apply")
    planned = cli(*arguments, "--dry-run")
    assert planned.exit_code == 2
    assert planned.stderr.count("would be created") == 2
    assert ok("jobs", "list", "--name", "ops.*", "-q") == ""

    assert cli(*arguments).stderr.count("created ") == 2
    again = cli(*arguments, "--dry-run")
    assert (again.exit_code, again.stderr.count("unchanged ops.")) == (0, 2)

    run = cli("jobs", "run", "ops.cat", "--wait", "-q")
    assert run.exit_code == 0
    assert [line.split()[2] for line in ok("runs", "logs", run.stdout.strip()).splitlines()] == ["hi", "there"]

    Path("ops").write_text("PATH=/usr/bin:/bin\n0 4 * * * echo hi; cat%there\n", encoding="utf-8")
    edited = cli(*arguments)
    assert "changed" in edited.stderr
    assert "not here any more: ops.true" in edited.stderr
    assert read(ok("jobs", "get", "ops.cat", "-o", "json"))["schedule"] == "0 4 * * *"

    ok("jobs", "create", "hand.true", "--schedule", "@daily", "--handler", "greet")
    taken = cli("import", "crontab", "-", "--name", "hand", "--tz", "UTC", "--apply", stdin="@daily /bin/true")
    assert taken.exit_code == 4
    assert "made by hand" in taken.stderr


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


def test_the_doctor(cli: Cli, node: nodes.Node, tmp_path: Path) -> None:
    well = cli("doctor", "--database-url", node.database_url, "-o", "json")
    results = {row["check"]: row["result"] for row in read(well.stdout)}
    assert "fail" not in results.values(), well.output
    assert {"server", "readiness", "key", "workers", "postgresql", "schema", "clock", "snapshots", "shards"} <= set(
        results
    )
    assert well.exit_code == 0

    (tmp_path / "bad.key").write_text("hrm_no", encoding="utf-8")
    ill = cli("doctor", "--api-key-file", str(tmp_path / "bad.key"))
    assert ill.exit_code == 1
    assert "horarium keys create" in ill.stdout
    unreachable = cli("doctor", "--url", "http://127.0.0.1:1", "--database-url", "postgresql://127.0.0.1:1/x")
    assert unreachable.exit_code == 1
    assert "is PostgreSQL up" in unreachable.stdout


def test_queues_and_workers(ok: Callable[..., str], name: str) -> None:
    ok("jobs", "create", name, "--at", "now", "--handler", "nobody.has.this", "--queue", "lonely")
    rows = {line.split()[0]: line.split() for line in ok("queues", "list").splitlines()}
    assert rows["lonely"][2] == "1"

    (worker,) = shown_within(20, lambda: read(ok("workers", "list", "-o", "json")))
    assert worker["state"] == "alive"
    assert worker["id"] in ok("workers", "list")


def shown_within(seconds: float, look: Callable[[], list[Any]]) -> list[Any]:
    """What a look shows once it is not empty; nodes write down their workers every few seconds."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline
        threading.Event().wait(0.2)
    return found
