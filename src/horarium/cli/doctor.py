"""`horarium doctor`: is everything as it should be, and what to do if not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from horarium import errors
from horarium.cli import auditing, client, diagnosis, options, output, session, settings, times
from horarium.cli.diagnosis import Check, Level


@click.command()
@click.option("--audit", is_flag=True, help="Check in the database that each tick is a run or a recorded skip.")
@click.option(
    "--since", metavar="TIME", help="With --audit: judge ticks since 24h, or an RFC 3339 time.  [default: 24h]"
)
@click.option(
    "--repair", is_flag=True, help="With --audit: mend what can be mended safely, and write that to the audit."
)
@settings.database_option
@options.output()
@options.pass_invocation
@click.pass_context
def doctor(
    ctx: click.Context,
    invocation: options.Invocation,
    database_url: str | None,
    audit: bool,
    since: str | None,
    repair: bool,
) -> None:
    """Check server, key and, where its address is known, the database. Exit 1 if something is wrong.

    \b
    horarium doctor
    horarium doctor --database-url postgresql://horarium@db.example/horarium
    horarium doctor --audit --since 7d
    horarium doctor --audit --repair
    """
    if audit:
        known = settings.load(database_url=database_url).settings.databases
        asked = auditing.Asked(auditing.since(since or "24h"), repair)
        ctx.exit(auditing.run(invocation, known, asked))
    if since or repair:
        raise click.UsageError("--since and --repair belong to --audit")
    found = [*_server_checks(invocation), *_database_checks(database_url)]
    rows = [{"check": c.name, "result": str(c.level), "text": c.text, "advice": c.advice} for c in found]
    columns = [
        output.Column("CHECK", lambda row: row["check"]),
        output.Column("RESULT", lambda row: row["result"]),
        output.Column("WHAT", lambda row: row["text"]),
        output.Column("WHAT TO DO", lambda row: row["advice"]),
    ]
    output.show_list(invocation, rows, columns, "check")
    ctx.exit(1 if any(check.level is Level.FAIL for check in found) else 0)


def _server_checks(invocation: options.Invocation) -> Iterator[Check]:
    try:
        server = session.open_client(invocation)
        server.get("/healthz")
    except errors.HorariumError as error:
        yield Check("server", Level.FAIL, str(error).partition(" Start one")[0], "start one: `horarium dev` or `serve`")
        return
    yield Check("server", Level.OK, f"{server.url} answers")
    yield from _readiness(server)
    yield from _key_checks(server)


def _readiness(server: client.Client) -> Iterator[Check]:
    try:
        said = server.get("/readyz")
    except errors.RequestError as error:
        faults = "; ".join(error.problem.get("faults") or [str(error)])
        yield Check("readiness", Level.FAIL, faults, "look at the server's log")
        return
    yield Check("readiness", Level.OK, "the node serves")
    for fault in said.get("faults", []):
        yield Check("readiness", Level.WARN, fault, "look at the server's log")
    for warning in said.get("warnings", []):
        yield Check("node", Level.WARN, warning, "see docs/guides/operations.md: peers, and old snapshots")


def _key_checks(server: client.Client) -> Iterator[Check]:
    try:
        workers: list[dict[str, Any]] = list(server.pages("/v1/workers"))
        queues: list[dict[str, Any]] = list(server.pages("/v1/queues"))
    except errors.RequestError as error:
        advice = "make one: `horarium keys create NAME --role viewer --database-url …`"
        yield Check("key", Level.FAIL, str(error), advice if error.status == 401 else "")
        return
    yield Check("key", Level.OK, "the API key is accepted")
    alive = sum(worker.get("state") == "alive" for worker in workers)
    unserved = [queue["name"] for queue in queues if queue.get("queued") and not queue.get("workers")]
    if unserved:
        text = f"runs wait in queues that no worker serves: {', '.join(unserved)}"
        yield Check("workers", Level.WARN, text, f"start one: `horarium worker … --queues {','.join(unserved)}`")
    else:
        yield Check("workers", Level.OK, f"{alive} alive")


def _database_checks(database_url: str | None) -> list[Check]:
    """Nothing when no address of a database is known here: a client's machine has none."""
    from horarium import config

    if database_url is None and "database_url" not in config.collect():
        return [Check("database", Level.OK, "not looked at: its address is not known here (--database-url)")]
    try:
        known = settings.load(database_url=database_url).settings.databases
    except errors.ConfigurationError as error:
        return [Check("database", Level.FAIL, str(error), "see `horarium config show --origin`")]
    if len(known) == 1:
        return _checks_of(known[0].url)
    return [replace(check, name=f"{check.name} ({name})") for name, url in known for check in _checks_of(url)]


def _checks_of(url: str) -> list[Check]:
    try:
        return asyncio.run(_look_at_database(url))
    except errors.ConfigurationError as error:
        return [Check("database", Level.FAIL, str(error), "see `horarium config show --origin`")]
    except errors.UnavailableError as error:
        return [Check("database", Level.FAIL, str(error), "is PostgreSQL up, and are address and password right?")]


async def _look_at_database(url: str) -> list[Check]:
    from horarium.store import diagnosis as store
    from horarium.store import migrator
    from horarium.store.database import Database

    database = Database(url, pool_size=1)
    await database.open()
    try:
        before = times.now()
        clock = diagnosis.clock(await database.now(), before, times.now())
        async with database.connection() as connection:
            schema = diagnosis.schema(await migrator.status(connection))
            found = [diagnosis.postgresql(await store.room(connection)), schema, clock]
            found += diagnosis.snapshots(await store.holders(connection))
            found += diagnosis.upkeep(await store.upkeep(connection))
            if schema.level is Level.OK:
                found += diagnosis.tables(await store.tables(connection), times.now())
                found.append(diagnosis.leadership(await store.leadership(connection)))
            return found
    finally:
        await database.close()
