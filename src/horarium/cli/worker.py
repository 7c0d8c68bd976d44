"""`horarium worker`: take runs and carry them out."""

from __future__ import annotations

import os
from datetime import timedelta

import click

from horarium.cli import options


@click.command()
@click.argument("app", required=False)
@click.option("--queues", metavar="LIST", help="By weight: critical=6,default=3. In strict order: critical,default.")
@click.option("--slots", type=click.IntRange(1), default=20, show_default=True, help="Most runs at the same time.")
@click.option("--processes", type=click.IntRange(1), default=1, show_default=True, help="Processes, each with --slots.")
@click.option(
    "--grace", type=options.duration, default="25s", show_default=True, help="What running handlers get on SIGTERM."
)
@click.option("--reload", is_flag=True, help="Start anew when a Python file below this directory changes.")
@click.option("--http", is_flag=True, help="Carry out HTTP targets, too.")
@click.option("--commands", is_flag=True, help="Carry out command targets, too, as this user.")
@click.option("--prune", is_flag=True, help="Delete schedules that the application declared once and no longer does.")
@options.connection()
@options.pass_invocation
@click.pass_context
def worker(
    ctx: click.Context,
    invocation: options.Invocation,
    app: str | None,
    queues: str | None,
    slots: int,
    processes: int,
    grace: timedelta,
    reload: bool,
    http: bool,
    commands: bool,
    prune: bool,
) -> None:
    """Run the handlers of APP, such as app.jobs:h, or the built-in targets. SIGTERM lets running handlers finish.

    \b
    horarium worker app.jobs:h --queues critical=6,default=3 --slots 50
    horarium worker app.jobs:h --reload
    horarium worker --http
    horarium worker --commands --queues batch
    """
    from horarium.sdk import main as sdk
    from horarium.sdk import profile

    if not (app or http or commands):
        raise click.UsageError("Name an application (app.jobs:h), or give --http or --commands.")
    if invocation.profile:
        os.environ["HORARIUM_PROFILE"] = str(invocation.profile)
    named = invocation.url or invocation.api_key_file
    chosen = profile.resolve(invocation.url, api_key_file=invocation.api_key_file) if named else None
    status = sdk.run_worker(
        app,
        queues=queues,
        slots=slots,
        grace_s=grace.total_seconds(),
        reload=reload,
        http=http,
        commands=commands,
        processes=processes,
        url=",".join(chosen.urls) if chosen else None,
        api_key=chosen.api_key if chosen else None,
        prune=prune,
    )
    ctx.exit(status)
