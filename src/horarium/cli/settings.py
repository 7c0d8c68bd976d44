"""Settings of the server for the commands that need them: flags first, then environment and file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from horarium import config

AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any])

database_option = click.option(
    "--database-url", metavar="URL", help="Address of the database (else HORARIUM_DATABASE_URL, the file)."
)


def load(**flags: Any) -> config.Loaded:
    """The settings, with a remark on stderr for each variable that looks like one and is none."""
    from horarium import config

    loaded = config.load(flags)
    for warning in loaded.warnings:
        click.echo(f"Warning: {warning}", err=True)
    return loaded
