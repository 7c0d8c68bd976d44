"""`horarium workers`: who asks for runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from horarium.cli import job_view, options, output, session, times


@click.group()
def workers() -> None:
    """Look at workers."""


@workers.command("list")
@options.output()
@options.pass_invocation
def list_(invocation: options.Invocation) -> None:
    """List the workers that were heard of lately.

    \b
    horarium workers list
    """
    found = list(session.open_client(invocation).pages("/v1/workers"))
    output.show_list(invocation, found, columns(times.now()), "id")


def columns(now: datetime) -> list[output.Column]:
    """The columns of the list."""
    return [
        output.Column("WORKER", lambda worker: worker["id"]),
        output.Column("STATE", lambda worker: worker.get("state", job_view.DASH)),
        output.Column("QUEUES", lambda worker: _queues(worker.get("queues") or [])),
        output.Column("RUNNING", lambda worker: f"{worker.get('running', 0)}/{worker.get('slots', 0)}"),
        output.Column("HOST", lambda worker: worker.get("host") or job_view.DASH),
        output.Column("VERSION", lambda worker: worker.get("version") or job_view.DASH),
        output.Column("SEEN", lambda worker: times.relative(times.parse(worker["last_seen_at"]), now)),
    ]


def _queues(queues: Sequence[Any]) -> str:
    """`critical=6, default=3`, as `horarium worker --queues` takes it."""
    return ", ".join(
        f"{queue['name']}={queue['weight']}" if isinstance(queue, dict) else str(queue) for queue in queues
    )
