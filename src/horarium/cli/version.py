"""`horarium version`: what is installed here."""

from __future__ import annotations

import platform
from importlib import metadata

import click

from horarium.protocol.version import PROTOCOL_VERSION


@click.command()
def version() -> None:
    """Print the versions of Horarium, Python and the worker protocol.

    \b
    horarium version
    """
    click.echo(f"horarium {installed()}  (worker protocol {PROTOCOL_VERSION}, Python {platform.python_version()})")


def installed() -> str:
    """The version of the installed package."""
    return metadata.version("horarium")
