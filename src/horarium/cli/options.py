"""Options that many commands share, and the `Invocation` in which their values are kept.

They may stand before or after the command's name: `horarium --url U jobs list` and `horarium jobs list --url U`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from horarium import durations

FORMATS = ("table", "json", "jsonl", "yaml", "name")

AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any])


@dataclass(slots=True)
class Invocation:
    """What the shared options of this call of `horarium` say; None and False where they were not given."""

    url: str | None = None
    api_key_file: Path | None = None
    profile: Path | None = None
    output: str = "table"
    quiet: bool = False


pass_invocation = click.make_pass_decorator(Invocation, ensure=True)


def connection(*, hidden: bool = True) -> Callable[[AnyCommand], AnyCommand]:
    """`--url`, `--api-key-file` and `--profile`: which server, and as whom."""
    file = click.Path(path_type=Path, dir_okay=False)
    return _all(
        _shared("--url", metavar="URL", hidden=hidden, help="Address of the server (else HORARIUM_URL, the profile)."),
        _shared("--api-key-file", type=file, hidden=hidden, help="File that holds the API key."),
        _shared("--profile", type=file, hidden=hidden, help="Profile to take address and key from."),
    )


def output() -> Callable[[AnyCommand], AnyCommand]:
    """`-o` and `-q`, with the connection options beside them: what each command has that asks a server."""
    return _all(
        _shared("-o", "--output", type=click.Choice(FORMATS), help="How to print the answer.  [default: table]"),
        _shared("-q", "--quiet", is_flag=True, default=None, help="Print names or ids only."),
        connection(),
    )


def dry_run(explanation: str = "Say what would be done, and do nothing.") -> Callable[[AnyCommand], AnyCommand]:
    """`--dry-run`."""
    return click.option("--dry-run", is_flag=True, help=explanation)


def duration(text: str) -> timedelta:
    """For `type=`: a duration such as `15s` or `2h`."""
    try:
        return durations.parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def json_text(text: str) -> str:
    """For `type=`: JSON, digit for digit as it was written; `@file` reads a file and `@-` standard input."""
    try:
        content = read_text(text[1:]) if text.startswith("@") else text
        json.loads(content)
    except ValueError as error:
        raise click.BadParameter(f"not valid JSON: {error}") from None
    return content


def read_text(file: str) -> str:
    """The text of a file, `-` for standard input; a usage error when it cannot be read."""
    try:
        with click.open_file(file, encoding="utf-8") as stream:
            return str(stream.read())
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{file} cannot be read: {error}") from None


def _shared(*names: str, **settings: Any) -> Callable[[AnyCommand], AnyCommand]:
    """An option whose value goes into the `Invocation`; one that is not given changes nothing there."""
    return click.option(*names, expose_value=False, callback=_keep, **settings)


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    invocation = ctx.ensure_object(Invocation)
    if value is not None and param.name is not None:
        setattr(invocation, param.name, value)


def _all(*decorators: Callable[[AnyCommand], AnyCommand]) -> Callable[[AnyCommand], AnyCommand]:
    def decorate(command: AnyCommand) -> AnyCommand:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate
