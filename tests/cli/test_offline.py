from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

Cli = Callable[..., Result]


def test_next_fires_of_an_expression(cli: Cli) -> None:
    arguments = ("cron", "next", "30 2 * * *", "--tz", "America/New_York", "--after", "2026-03-07T12:00:00Z")
    result = cli(*arguments, "--count", "2", "-o", "json")
    assert json.loads(result.stdout) == [
        {"at": "2026-03-08T07:00:00Z", "local": "2026-03-08T03:00:00-04:00"},
        {"at": "2026-03-09T06:30:00Z", "local": "2026-03-09T02:30:00-04:00"},
    ]
    table = cli(*arguments, "--count", "1").stdout.splitlines()
    assert table[0].split() == ["LOCAL", "UTC", "IN"]
    assert table[1].startswith("2026-03-08 03:00 -04:00  2026-03-08 07:00Z")
    assert cli(*arguments, "--count", "2", "-q").stdout == "2026-03-08T07:00:00Z\n2026-03-09T06:30:00Z\n"


def test_an_expression_in_words(cli: Cli) -> None:
    result = cli("cron", "explain", "30 2 * * *", "--tz", "America/New_York", "-o", "yaml")
    answer = yaml.safe_load(result.stdout)
    assert answer["schedule_text"].startswith("At 02:30")
    assert len(answer["next_runs"]) == 5
    assert answer["warnings"]
    assert "At 02:30" in cli("cron", "explain", "30 2 * * *").stdout


@pytest.mark.parametrize(
    ("expression", "zone", "told"),
    [
        ("*/90 * * * *", "UTC", "interval_s: 5400"),
        ("0 0 30 2 *", "UTC", "never fires"),
        ("0 2 * * *", "Mars/Olympus", "Mars/Olympus"),
        ("0 2 * *", "UTC", "/schedule"),
    ],
)
def test_what_is_refused_is_told_on_stderr_with_exit_code_2(cli: Cli, expression: str, zone: str, told: str) -> None:
    for verb in ("explain", "next"):
        result = cli("cron", verb, expression, "--tz", zone)
        assert (result.exit_code, result.stdout) == (2, "")
        assert told in result.stderr
    assert cli("cron", "next", "0 2 * * *", "--after", "soon").exit_code == 2


def test_a_job_from_flags_can_be_looked_at_first(cli: Cli) -> None:
    result = cli(
        *("jobs", "create", "billing.nightly", "--schedule", "0 2 * * *", "--tz", "Asia/Kolkata"),
        *("--handler", "billing.run", "--queue", "billing", "--timeout", "10m", "--jitter", "30s", "--tag", "finance"),
        *("--max-attempts", "5", "--retry", '{"base_s": 3}', "--expect-within", "1h", "--payload", '{"a": 1}'),
        "--dry-run",
    )
    assert json.loads(result.stdout) == {
        "name": "billing.nightly",
        "queue": "billing",
        "schedule": "0 2 * * *",
        "timezone": "Asia/Kolkata",
        "jitter_s": 30,
        "timeout_s": 600,
        "target": {"handler": "billing.run"},
        "retry": {"base_s": 3, "max_attempts": 5},
        "tags": ["finance"],
        "expect": {"within_s": 3600},
        "payload": {"a": 1},
    }


@pytest.mark.parametrize(
    ("flags", "body"),
    [
        (["--every", "2h", "--handler", "h"], {"interval_s": 7200, "target": {"handler": "h"}}),
        (["--in", "90s", "--handler", "h"], {"run_in_s": 90.0, "target": {"handler": "h"}}),
        (["--at", "now", "--handler", "h"], {"run_at": "now", "target": {"handler": "h"}}),
        (
            ["--http", "https://x.example/a", "--method", "PUT", "--header", "X-A: b: c"],
            {"target": {"http": {"url": "https://x.example/a", "method": "PUT", "headers": {"X-A": "b: c"}}}},
        ),
        (
            ["--command", "tar", "--arg", "-xf", "--arg", "a b.tar", "--env", "A=b=c", "--cwd", "/srv"],
            {"target": {"command": {"argv": ["tar", "-xf", "a b.tar"], "env": {"A": "b=c"}, "cwd": "/srv"}}},
        ),
        (["--jitter", "0s"], {"jitter_s": 0}),
    ],
)
def test_flags_and_the_body_they_make(cli: Cli, flags: list[str], body: dict[str, object]) -> None:
    assert json.loads(cli("jobs", "create", "--dry-run", *flags).stdout) == body


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "Say what it is"),
        (["--handler", "a", "--http", "http://x"], "a job has one target"),
        (["--handler", "a", "--arg", "x"], "--arg needs --command"),
        (["--http", "http://x", "--header", "nonsense"], "NAME:VALUE"),
        (["--every", "1500ms"], "whole number of seconds"),
        (["--every", "15"], "write 15s"),
        (["--payload", "{"], "not valid JSON"),
        (["--payload", "@missing.json"], "cannot be read"),
        (["--handler", "a", "-f", "x.json"], "not both"),
        (["-f", "missing.json"], "cannot be read"),
    ],
)
def test_flags_that_make_no_sense(cli: Cli, flags: list[str], told: str) -> None:
    result = cli("jobs", "create", "--dry-run", *flags)
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


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


def test_a_crontab_becomes_yaml_and_a_report(cli: Cli) -> None:
    Path("deploy.txt").write_text("MAILTO=me\n@reboot a\n0 2 * * * /bin/backup\n", encoding="utf-8")
    result = cli("import", "crontab", "deploy.txt", "--tz", "Asia/Kolkata")
    assert result.exit_code == 2, "a line was refused"
    manifest = yaml.safe_load(result.stdout)
    assert manifest["manifest"] == "crontab-deploy"
    assert [job["name"] for job in manifest["jobs"]] == ["deploy.backup"]
    assert "line 2    refused   @reboot" in result.stderr
    assert "deploy.txt: 1 noted, 1 refused, 1 imported" in result.stderr

    again = cli(
        "import", "crontab", "-", "--tz", "Asia/Kolkata", "--name", "ops", "--output", "o.yaml", stdin="@daily a"
    )
    assert (again.exit_code, again.stdout) == (0, "")
    assert yaml.safe_load(Path("o.yaml").read_text(encoding="utf-8"))["jobs"][0]["name"] == "ops.a"


def test_a_crontab_without_a_zone_is_read_in_that_of_this_machine(cli: Cli) -> None:
    result = cli("import", "crontab", "-", stdin="@daily a")
    assert "the zone of this machine; --tz names another" in result.stderr
    assert cli("import", "crontab", "-", "--tz", "Nowhere", stdin="@daily a").exit_code == 2
    assert cli("import", "crontab", "missing").exit_code == 1


def test_the_version(cli: Cli) -> None:
    assert cli("version").stdout.startswith("horarium 0.")


def test_settings_and_where_they_come_from(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("horarium.toml").write_text('lease = "20s"', encoding="utf-8")
    monkeypatch.setenv("HORARIUM_PORT", "9000")
    url = "postgresql://me:secret@db/x?password=secret&sslmode=require"
    result = cli("config", "show", "--origin", "--database-url", url)
    rows = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}
    assert rows["lease"] == ["20s", "horarium.toml"]
    assert rows["port"] == ["9000", "HORARIUM_PORT"]
    assert rows["pool_size"] == ["10", "default"]
    assert rows["database_url"] == ["postgresql://me:***@db/x?password=***&sslmode=require", "flag"]
    assert "secret" not in result.output
    assert "ORIGIN" not in cli("config", "show", "--database-url", url).stdout
    assert cli("config", "show").exit_code == 2


def test_the_sql_of_the_migrations_needs_no_database(cli: Cli) -> None:
    printed = cli("db", "sql").stdout
    assert printed.startswith("-- migration 0001 initial (sha256 ")
    assert "CREATE TABLE jobs" in printed
    assert "CREATE TABLE jobs" not in cli("db", "sql", "--from", "2").stdout


def test_no_server_named_or_none_answering(cli: Cli) -> None:
    assert cli("jobs", "list").exit_code == 2
    result = cli("--url", "http://127.0.0.1:1", "jobs", "list")
    assert result.exit_code == 5
    assert "connection refused" in result.stderr
    assert "horarium dev" in result.stderr


def test_a_worker_needs_something_to_do(cli: Cli) -> None:
    result = cli("worker", "--url", "http://127.0.0.1:1")
    assert result.exit_code == 2
    assert "--http or --commands" in result.stderr
