"""`horarium shards`: where shards live, who leads them, and moving them."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from horarium.cli import job_view, options, output, session, settings, times


@click.group()
def shards() -> None:
    """Look after the shards: the parts into which all jobs are divided."""


@shards.command("list")
@options.output()
@options.pass_invocation
def list_(invocation: options.Invocation) -> None:
    """List the shards: where each lives, which node leads it, and since which term. Takes an admin's key.

    \b
    horarium shards list
    """
    found = list(session.open_client(invocation).pages("/v1/shards"))
    output.show_list(invocation, found, columns(times.now()), "shard")


def columns(now: datetime) -> list[output.Column]:
    """The columns of the list."""
    return [
        output.Column("SHARD", lambda shard: str(shard["shard"])),
        output.Column("DATABASE", lambda shard: shard["database"]),
        output.Column("LEADER", lambda shard: shard["leader"] or job_view.DASH),
        output.Column("URL", lambda shard: shard["leader_url"] or job_view.DASH),
        output.Column("TERM", lambda shard: str(shard["term"])),
        output.Column("LEASE", lambda shard: _lease(shard, now)),
    ]


def _lease(shard: Mapping[str, Any], now: datetime) -> str:
    if shard["leader"] is None or shard["lease_expires_at"] is None:
        return job_view.DASH
    return times.relative(times.parse(shard["lease_expires_at"]), now)


@shards.command()
@click.argument("shard", type=click.IntRange(0, 4095))
@click.option("--to", required=True, metavar="DATABASE", help="Name of the database, as `horarium db status` shows it.")
@settings.database_option
@options.dry_run()
def move(shard: int, to: str, database_url: str | None, dry_run: bool) -> None:
    """Move a shard to another database. Its jobs pause for seconds; nothing is lost or doubled.

    Works on the databases themselves, so it needs their addresses. A move that was cut off is finished by the same call; the
    nodes see to it that the jobs work again meanwhile.

    \b
    horarium db status
    horarium shards move 3 --to b
    """
    loaded = settings.load(database_url=database_url).settings
    asyncio.run(_move(loaded.databases, loaded.statement_cache, shard, to, dry_run))


async def _move(addresses: Sequence[tuple[str, str]], statement_cache: int, shard: int, to: str, dry_run: bool) -> None:
    from horarium.services import mover
    from horarium.store.databases import Databases

    databases = Databases.at(addresses, pool_size=4, statement_cache=statement_cache)
    await databases.open()
    try:
        await databases.load()
        way = mover.route(databases, shard, to)
        if way is None:
            click.echo(f"Shard {shard} lives in database {to} already.")
            return
        source, target = way
        if dry_run:
            click.echo(f"Would move shard {shard} from {databases.names[source]} to {to}.")
            return
        await mover.Mover(databases, shard, source, target, _mover_id(), _tell).run()
        click.echo(f"Moved shard {shard} from {databases.names[source]} to {to}.")
    finally:
        await databases.close()


def _mover_id() -> str:
    return f"mover:{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def _tell(step: str, detail: str) -> None:
    click.echo(f"{step}{': ' if detail else ''}{detail}", err=True)
