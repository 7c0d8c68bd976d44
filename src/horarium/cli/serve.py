"""`horarium serve`: one node, or several on one machine."""

from __future__ import annotations

from pathlib import Path

import click

from horarium.cli import settings


@click.command()
@settings.database_option
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 takes a free one.  [default: 8080]")
@click.option("--node-url", metavar="URL", help="Address at which other nodes and workers reach this one.")
@click.option("--base-path", metavar="PATH", help="Path under which a proxy serves this node.")
@click.option("--pool-size", type=int, help="Most connections to the database.  [default: 10]")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="Least line to log.  [default: info]"
)
@click.option("--log-format", type=click.Choice(["json", "console"]), help="For programs or people.  [default: json]")
@click.option(
    "--first-key-file", type=click.Path(path_type=Path, dir_okay=False), help="Where to write the first API key."
)
@click.option(
    "--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Nodes that share the port."
)
@click.pass_context
def serve(ctx: click.Context, /, first_key_file: Path | None, processes: int, **flags: object) -> None:
    """Run a node: API, scheduler and the workers' gateway. Stops in order on SIGTERM.

    The database must have the schema (`horarium db init`). Where no API key exists yet, --first-key-file makes an admin's
    and writes it, readable by its owner only; `horarium keys create --database-url` makes one at any time.

    \b
    horarium serve --host 0.0.0.0 --port 8080
    HORARIUM_DATABASE_URL=postgresql://horarium@db.example/horarium horarium serve
    horarium serve --processes 4
    """
    import uvloop

    from horarium import server
    from horarium.cli import first_key, node_processes

    loaded = settings.load(**flags).settings
    if first_key_file:
        uvloop.run(first_key.write_if_none(loaded, first_key_file))
    if processes > 1:
        ctx.exit(node_processes.serve(loaded, flags, processes, _announce))
    uvloop.run(server.serve(loaded, ready=lambda info: _announce(info.url)))


def _announce(url: str) -> None:
    click.echo(f"HORARIUM READY url={url}", err=True)
