"""`horarium queues`: what waits where, and who serves it."""

from __future__ import annotations

import click

from horarium.cli import job_view, options, output, session

COLUMNS = [
    output.Column("QUEUE", lambda queue: queue["name"]),
    output.Column("SCHEDULED", lambda queue: queue.get("scheduled", 0)),
    output.Column("QUEUED", lambda queue: queue.get("queued", 0)),
    output.Column("RUNNING", lambda queue: queue.get("running", 0)),
    output.Column("OLDEST DUE", lambda queue: _seconds(queue.get("oldest_due_s"))),
    output.Column("WORKERS", lambda queue: queue.get("workers", 0)),
    output.Column("SLOTS", lambda queue: queue.get("slots", 0)),
]


@click.group()
def queues() -> None:
    """Look at queues."""


@queues.command("list")
@options.output()
@options.pass_invocation
def list_(invocation: options.Invocation) -> None:
    """List queues: what is scheduled, queued and running, and who serves them.

    \b
    horarium queues list
    """
    found = list(session.open_client(invocation).pages("/v1/queues"))
    output.show_list(invocation, found, COLUMNS, "name")


def _seconds(value: float | None) -> str:
    return job_view.DASH if value is None else f"{value:.1f} s ago"
