from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from horarium.cli import job_body

Cli = Callable[..., Result]


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


def test_a_job_is_named_by_id_or_name() -> None:
    assert job_body.reference("billing.nightly") == "name:billing.nightly"
    assert job_body.reference("name:x") == "name:x"
    assert job_body.reference("01A22DDA-2cdc-7008-9254-ce91f1680aa5") == "01A22DDA-2cdc-7008-9254-ce91f1680aa5"


def test_the_payload_is_sent_digit_for_digit() -> None:
    body = job_body.Body({"name": "ü"}, '{"n": 1.10, "big": 12345678901234567890123}')
    assert body.encode() == '{"name": "ü", "payload": {"n": 1.10, "big": 12345678901234567890123}}'
