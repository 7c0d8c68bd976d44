"""`horarium keys`: API keys."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from horarium.cli import client, job_view, options, output, secret_file, session, settings, times

ROLES = ("viewer", "worker", "operator", "editor", "admin")


@click.group()
def keys() -> None:
    """Make, list and revoke API keys."""


@keys.command("list")
@options.output()
@options.pass_invocation
def list_(invocation: options.Invocation) -> None:
    """List the API keys; the secrets are not kept.

    \b
    horarium keys list
    """
    found = list(session.open_client(invocation).pages("/v1/api-keys"))
    now = times.now()
    columns = [
        output.Column("ID", lambda key: key["id"]),
        output.Column("NAME", lambda key: key.get("name") or job_view.DASH),
        output.Column("ROLE", lambda key: key["role"]),
        output.Column("CREATED", lambda key: times.both(key.get("created_at"), now)),
        output.Column("EXPIRES", lambda key: times.both(key.get("expires_at"), now)),
        output.Column("REVOKED", lambda key: times.both(key.get("revoked_at"), now)),
    ]
    output.show_list(invocation, found, columns, "id")


@keys.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True, help="What the key may do.")
@click.option("--expires-in", type=options.duration, help="When it ends by itself, such as 90d.")
@click.option("--to-file", type=click.Path(path_type=Path, dir_okay=False), help="Write the key here (mode 600).")
@settings.database_option
@options.output()
@options.pass_invocation
def create(
    invocation: options.Invocation,
    name: str,
    role: str,
    expires_in: timedelta | None,
    to_file: Path | None,
    database_url: str | None,
) -> None:
    """Make an API key. It is shown this once, on stdout alone, so that it can go straight into a secret store.

    With --database-url it is made in the database itself: for the first key, or when the last one was lost.

    \b
    horarium keys create ci --role editor --expires-in 90d
    horarium keys create worker-1 --role worker --to-file /etc/horarium/worker.key
    horarium keys create admin --role admin --database-url postgresql://horarium@db.example/horarium
    """
    expires_at = times.now() + expires_in if expires_in else None
    if database_url:
        made = _create_in_database(database_url, name, role, expires_at)
    else:
        body = {"name": name, "role": role, **({"expires_at": times.rfc3339(expires_at)} if expires_at else {})}
        made = session.open_client(invocation).post("/v1/api-keys", body)
    if to_file:
        secret_file.write(to_file, made["token"])
        output.say(invocation, f"Wrote key {made['id']} ({role}) to {to_file}")
    elif invocation.output == "table" or invocation.quiet:
        output.say(invocation, f"Key {made['id']} ({role}); it is not shown again:")
        click.echo(made["token"])
    else:
        output.show_one(invocation, made, [], "id")


@keys.command()
@click.argument("ids", nargs=-1, required=True)
@options.dry_run()
@options.output()
@options.pass_invocation
def revoke(invocation: options.Invocation, ids: tuple[str, ...], dry_run: bool) -> None:
    """Revoke API keys: within seconds they open nothing any more.

    \b
    horarium keys revoke 7KQ2M9XH
    """
    server = session.open_client(invocation)
    for key in ids:
        if not dry_run:
            server.request("DELETE", f"/v1/api-keys/{client.segment(key)}")
        output.say(invocation, f"{'Would revoke' if dry_run else 'Revoked'} {key}")


def _create_in_database(database_url: str, name: str, role: str, expires_at: datetime | None) -> dict[str, Any]:
    import asyncio

    from horarium.cli import first_key
    from horarium.domain import job
    from horarium.services import keys as service

    loaded = settings.load(database_url=database_url).settings
    wanted = service.Wanted(service.DEFAULT_TENANT, role, name, expires_at, loaded.env)
    who = job.Actor(service.DEFAULT_TENANT, "horarium keys create", "admin")
    issued = asyncio.run(first_key.with_keys(loaded, lambda keys: keys.issue(who, wanted)))
    return {"id": issued.row.id, "name": name, "role": role, "token": issued.token}
