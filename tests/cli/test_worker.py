from __future__ import annotations

from collections.abc import Callable

from click.testing import Result

Cli = Callable[..., Result]


def test_a_worker_needs_something_to_do(cli: Cli) -> None:
    result = cli("worker", "--url", "http://127.0.0.1:1")
    assert result.exit_code == 2
    assert "--http or --commands" in result.stderr
