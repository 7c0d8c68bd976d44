"""The `horarium` command: the list of commands, and the boundary where errors become messages and exit codes.

Exit codes: 0 ok · 1 error · 2 invalid or changes pending · 3 not found · 4 conflict · 5 unreachable.

A command's module is imported only when it is asked for, and no module of this package imports a heavy library at its
top: `horarium --help` and `horarium jobs list` start in well under 0.3 s.
"""

from __future__ import annotations

import importlib
from typing import Any

import click

from horarium import errors
from horarium.cli import options

# The order is the one people read in `horarium --help`: start it, use it, look after it.
COMMANDS = {
    "dev": "horarium.cli.dev:dev",
    "serve": "horarium.cli.serve:serve",
    "worker": "horarium.cli.worker:worker",
    "jobs": "horarium.cli.jobs:jobs",
    "runs": "horarium.cli.runs:runs",
    "dlq": "horarium.cli.dlq:dlq",
    "queues": "horarium.cli.queues:queues",
    "workers": "horarium.cli.workers:workers",
    "nodes": "horarium.cli.nodes:nodes",
    "cron": "horarium.cli.cron:cron",
    "import": "horarium.cli.importing:import_",
    "keys": "horarium.cli.keys:keys",
    "db": "horarium.cli.db:db",
    "shards": "horarium.cli.shards:shards",
    "config": "horarium.cli.config:config",
    "doctor": "horarium.cli.doctor:doctor",
    "version": "horarium.cli.version:version",
}

_EXIT_CODES: dict[type[errors.HorariumError], int] = {
    errors.InvalidError: 2,
    errors.TooLargeError: 2,
    errors.ConfigurationError: 2,
    errors.NotFoundError: 3,
    errors.ConflictError: 4,
    errors.StaleVersionError: 4,
    errors.UnreachableError: 5,
    errors.UnavailableError: 5,
}
_STATUS_EXIT_CODES = {400: 2, 404: 3, 409: 4, 412: 4, 413: 2, 415: 2, 422: 2, 502: 5, 503: 5, 504: 5}


class Failure(click.ClickException):
    """An error as the command line ends on it: the message goes to stderr, the process ends with the code."""

    def __init__(self, error: errors.HorariumError) -> None:
        super().__init__(describe(error))
        self.exit_code = exit_code(error)  # type: ignore[misc]  # click reads the instance


class Commands(click.Group):
    """Imports a command when it is asked for, and turns every error of ours into a `Failure`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name].split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except errors.HorariumError as error:
            raise Failure(error) from error


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog='Shell completion: eval "$(_HORARIUM_COMPLETE=bash_source horarium)"  (or zsh_source, fish_source)',
)
@options.connection(hidden=False)
def cli() -> None:
    """Horarium: cron for a whole company, plus one-off delayed jobs.

    \b
    horarium dev                                     a whole Horarium on this machine, in one command
    horarium jobs create nightly --schedule "0 2 * * *" --tz Asia/Kolkata --handler billing.run
    horarium jobs list
    horarium cron next "0 2 * * *" --tz Asia/Kolkata

    Exit codes: 0 ok, 1 error, 2 invalid or changes pending, 3 not found, 4 conflict, 5 unreachable.
    """


def main() -> None:
    """The entry point that is installed as `horarium`."""
    cli(prog_name="horarium")


def describe(error: errors.HorariumError) -> str:
    """What a person reads: the fault, or every fault on a line of its own."""
    if isinstance(error, errors.InvalidError):
        return "\n".join([error.title, *(f"  {fault.pointer}: {fault.detail}" for fault in error.faults)])
    if isinstance(error, errors.ConfigurationError):
        return "\n".join([error.title, *(f"  {line}" for line in str(error).splitlines())])
    return str(error) or error.title


def exit_code(error: errors.HorariumError) -> int:
    """0 is never among them; an error without a code of its own ends with 1."""
    if isinstance(error, errors.RequestError):
        return _STATUS_EXIT_CODES.get(error.status, 1)
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), 1)
