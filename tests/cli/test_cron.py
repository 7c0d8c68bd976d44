from __future__ import annotations

import json
from collections.abc import Callable

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
