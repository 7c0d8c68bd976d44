from __future__ import annotations

from collections.abc import Callable

from click.testing import Result

Cli = Callable[..., Result]


def test_the_version(cli: Cli) -> None:
    assert cli("version").stdout.startswith("horarium 0.")
