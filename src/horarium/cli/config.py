"""`horarium config`: what a server started here would be told."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import click

from horarium.cli import options, output, settings


@click.group()
def config() -> None:
    """Look at the server's configuration."""


@config.command()
@click.option("--origin", is_flag=True, help="Tell where each value comes from.")
@settings.database_option
@options.output()
@options.pass_invocation
def show(invocation: options.Invocation, origin: bool, database_url: str | None) -> None:
    """Print every setting, with passwords masked; exit 2 and every fault if something is wrong.

    \b
    horarium config show --origin
    horarium config show -o json
    """
    loaded = settings.load(database_url=database_url)
    rows = [
        {"name": name, "value": _shown(name, getattr(loaded.settings, name))}
        | ({"origin": loaded.origins.get(name, "default")} if origin else {})
        for name in type(loaded.settings).model_fields
    ]
    columns = [
        output.Column("SETTING", lambda row: row["name"]),
        output.Column("VALUE", lambda row: _text(row["value"])),
        *([output.Column("ORIGIN", lambda row: row["origin"])] if origin else []),
    ]
    output.show_list(invocation, rows, columns, "name")


def masked(url: str) -> str:
    """An address with the password hidden, wherever it stands."""
    hidden = re.sub(r"(?<=://)([^/@:?#]*):[^/]*@", r"\1:***@", url)
    return re.sub(r"(?i)([?&](?:password|sslpassword)=)[^&]*", r"\1***", hidden)


def _shown(name: str, value: Any) -> Any:
    from horarium import config as configuration
    from horarium import durations

    if name == "database_url":
        return masked(value)
    if name in configuration.SECRETS:
        return value and "***"
    if isinstance(value, timedelta):
        return durations.format_duration(value)
    return [str(part) for part in value] if isinstance(value, tuple) else value


def _text(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else "–" if value is None or value == "" else str(value)
