from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result

from horarium import errors
from horarium.cli import main

Cli = Callable[..., Result]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidError([]), 2),
        (errors.InvalidScheduleError("minute", "x"), 2),
        (errors.ConfigurationError("x"), 2),
        (errors.NotFoundError("x"), 3),
        (errors.ConflictError("x"), 4),
        (errors.UnreachableError("x"), 5),
        (errors.UnavailableError("x"), 5),
        (errors.EmbeddedPostgresError("x"), 1),
        *(
            (errors.RequestError(status, {}), code)
            for status, code in [(422, 2), (404, 3), (409, 4), (412, 4), (503, 5)]
        ),
        *((errors.RequestError(status, {}), 1) for status in (401, 403, 429, 500)),
    ],
)
def test_exit_codes(error: errors.HorariumError, code: int) -> None:
    assert main.exit_code(error) == code
    assert main.describe(error)


def test_every_fault_is_described() -> None:
    error = errors.InvalidError([errors.Fault("/a", "x"), errors.Fault("/b", "y")])
    assert main.describe(error) == "The input is not valid\n  /a: x\n  /b: y"


def test_no_server_named_or_none_answering(cli: Cli) -> None:
    assert cli("jobs", "list").exit_code == 2
    result = cli("--url", "http://127.0.0.1:1", "jobs", "list")
    assert result.exit_code == 5
    assert "connection refused" in result.stderr
    assert "horarium dev" in result.stderr
