"""`horarium dev`: a whole Horarium on this machine, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from horarium.cli import dev_stack

_WITH_SAMPLES = ("horarium jobs list", "horarium jobs run sample.every_minute --wait", "horarium dlq list")
_WITHOUT_SAMPLES = (
    "horarium jobs create hello --every 1m --http https://example.com/hello",
    "horarium jobs list",
    "horarium runs list",
)


@click.command()
@click.argument("app", required=False)
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes a free one.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".horarium"),
    show_default=True,
    help="Where PostgreSQL's data, the key and the logs are kept.",
)
@click.option("--no-samples", is_flag=True, help="Without the sample jobs.")
def dev(app: str | None, port: int, data_dir: Path, no_samples: bool) -> None:
    """Run everything here: embedded PostgreSQL, server, HTTP worker, sample jobs, and a worker for APP.

    APP names your application, such as app.jobs:h; its worker starts anew when a file changes. Ctrl-C stops everything
    in order; the data stay in the data directory.

    \b
    horarium dev
    horarium dev app.jobs:h --port 9000
    """
    import uvloop

    from horarium.cli import dev_stack

    wanted = dev_stack.Wanted(data_dir, port, app, samples=not no_samples)
    uvloop.run(dev_stack.run(wanted, lambda running: _announce(wanted, running), _say))


def _announce(wanted: dev_stack.Wanted, running: dev_stack.Running) -> None:
    click.echo(f"Horarium answers at {running.url}; the API key is in {wanted.key_file}.")
    if running.profile is None:
        click.echo("Your profile was left as it is. For the commands below, first:")
        click.echo(f"  export HORARIUM_URL={running.url} HORARIUM_API_KEY_FILE={wanted.key_file}")
    click.echo("Try, in another terminal:")
    for command in _WITH_SAMPLES if wanted.samples else _WITHOUT_SAMPLES:
        click.echo(f"  {command}")
    click.echo(f"HORARIUM READY url={running.url} key_file={wanted.key_file}")


def _say(message: str) -> None:
    click.echo(message, err=True)
