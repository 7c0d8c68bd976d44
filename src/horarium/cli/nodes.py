"""`horarium nodes`: which nodes there are."""

from __future__ import annotations

from datetime import datetime

import click

from horarium.cli import job_view, options, output, session, times


@click.group()
def nodes() -> None:
    """Look at the nodes of the cluster."""


@nodes.command("list")
@options.output()
@options.pass_invocation
def list_(invocation: options.Invocation) -> None:
    """List the nodes that were seen in the last hour, and what they lead. Takes an admin's key.

    \b
    horarium nodes list
    """
    found = list(session.open_client(invocation).pages("/v1/nodes"))
    output.show_list(invocation, found, columns(times.now()), "id")


def columns(now: datetime) -> list[output.Column]:
    """The columns of the list."""
    return [
        output.Column("NODE", lambda node: node["id"]),
        output.Column("STATE", lambda node: node["state"]),
        output.Column("URL", lambda node: node["url"] or job_view.DASH),
        output.Column("VERSION", lambda node: node["version"]),
        output.Column("SEEN", lambda node: times.relative(times.parse(node["last_seen_at"]), now)),
        output.Column("SHARDS", lambda node: " ".join(map(str, node["shards"])) or job_view.DASH),
    ]
