from __future__ import annotations

from collections.abc import Callable, Iterator

import click
import pytest
from click.testing import Result

from horarium.cli import main


def commands(group: click.Group, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*prefix, name))
        else:
            yield (*prefix, name), command


ALL = dict(commands(main.cli))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_with_an_example(path: tuple[str, ...], cli: Callable[..., Result]) -> None:
    result = cli(*path, "--help")
    assert result.exit_code == 0
    assert f"  horarium {' '.join(path)}" in result.output or f"| horarium {' '.join(path)}" in result.output
    for parameter in ALL[path].params:
        if isinstance(parameter, click.Option) and not parameter.hidden and parameter.name != "help":
            assert parameter.help or parameter.show_default, f"{parameter.name} has no help"


def test_the_commands_are_these() -> None:
    assert {" ".join(path) for path in ALL} == {
        *("dev", "serve", "worker", "doctor", "version"),
        *(
            f"jobs {verb}"
            for verb in ["list", "get", "create", "update", "delete", "pause", "resume", "run", "next", "runs", "skips"]
        ),
        *(f"runs {verb}" for verb in ["list", "get", "cancel", "rerun", "logs", "wait"]),
        *("dlq list", "dlq retry", "dlq discard", "queues list", "workers list"),
        *("keys list", "keys create", "keys revoke", "cron explain", "cron next", "import crontab", "config show"),
        *("nodes list", "shards list", "shards move"),
        *(f"db {verb}" for verb in ["init", "migrate", "status", "sql", "check"]),
    }


def test_an_unknown_command_is_invalid(cli: Callable[..., Result]) -> None:
    assert cli("job").exit_code == 2
    assert cli("jobs", "make").exit_code == 2


def test_completion_is_told_of(cli: Callable[..., Result]) -> None:
    assert "_HORARIUM_COMPLETE=bash_source horarium" in cli("--help").output
