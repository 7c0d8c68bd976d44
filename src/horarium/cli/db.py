"""`horarium db`: the schema in the database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from horarium.cli import db_status, options, output, settings

if TYPE_CHECKING:
    from horarium import config
    from horarium.store import databases, founding

Result = TypeVar("Result")


@click.group()
def db() -> None:
    """Make, change and check the schema in the database."""


@db.command()
@click.option("--shards", type=click.IntRange(1, 4096), help="Number of shards, fixed from now on.  [default: 16]")
@settings.database_option
@options.dry_run()
def init(database_url: str | None, shards: int | None, dry_run: bool) -> None:
    """Make the schema in an empty database, or in several: then the shards are spread over them.

    The number of shards limits how many nodes can share the work; it cannot be changed later. With a longer list of addresses
    than before the new databases are added; they hold no shard until one is moved to them.

    \b
    horarium db init --database-url postgresql://horarium@db.example/horarium
    horarium db init --shards 64
    horarium db init --database-url postgresql://db1.example/horarium,postgresql://db2.example/horarium
    """
    from horarium.store import founding

    loaded = settings.load(database_url=database_url, shards=shards).settings
    made = _with_databases(loaded, lambda known: founding.found(known, loaded.shards, dry_run=dry_run))
    _tell(made, dry_run, named=len(loaded.databases) > 1)
    click.echo(f"{'Would make' if dry_run else 'Made'} {sum(each.shards for each in made)} shards.")


@db.command()
@settings.database_option
@options.dry_run()
def migrate(database_url: str | None, dry_run: bool) -> None:
    """Bring the schema up to date. Safe while nodes run: steps that take something away come a version later.

    \b
    horarium db migrate
    horarium db migrate --dry-run
    """
    from horarium.store import founding

    loaded = settings.load(database_url=database_url).settings
    made = _with_databases(loaded, lambda known: founding.migrate(known, loaded.shards, dry_run=dry_run))
    _tell(made, dry_run, named=len(loaded.databases) > 1)


@db.command()
@settings.database_option
@click.pass_context
def status(ctx: click.Context, database_url: str | None) -> None:
    """Show which migrations are applied, and where shards live; exit 2 if some are pending, 5 if a database is silent.

    \b
    horarium db status
    """
    from horarium.store import migrator

    loaded = settings.load(database_url=database_url).settings
    looks = _with_databases(loaded, db_status.look)
    if len(looks) > 1:
        output.table(db_status.HEADINGS, [db_status.row(each) for each in looks])
        click.echo()
    known = [each.status for each in looks if each.status is not None]
    rows = [
        (f"{step.version:04}", step.name, step.phase, db_status.applied(step, looks)) for step in migrator.migrations()
    ]
    output.table(["VERSION", "NAME", "PHASE", "STATE"], rows)
    if len(known) < len(looks):
        ctx.exit(5)
    ctx.exit(2 if any(each.pending for each in known) else 0)


@db.command()
@click.option("--from", "first", type=int, default=1, show_default=True, help="First version to print.")
def sql(first: int) -> None:
    """Print the SQL of the migrations, for reading and review; needs no database.

    Apply them with `horarium db migrate`, which also keeps the record of what was applied.

    \b
    horarium db sql > schema.sql
    horarium db sql --from 2
    """
    from horarium.store import migrator

    for migration in migrator.migrations():
        if migration.version >= first:
            click.echo(f"-- migration {migration.version:04} {migration.name} (sha256 {migration.checksum})")
            click.echo(migration.text.rstrip() + "\n")


@db.command()
@settings.database_option
@click.pass_context
def check(ctx: click.Context, database_url: str | None) -> None:
    """Check that the databases fit this version and each other: reachable, up to date, unaltered migrations. Exit 2 if not.

    \b
    horarium db check
    """
    from horarium.store import founding

    loaded = settings.load(database_url=database_url).settings
    known = _with_databases(loaded, founding.statuses)
    pending = {name: found.pending for name, found in known.items() if found.pending}
    for name, steps in pending.items():
        names = ", ".join(f"{step.version:04} {step.name}" for step in steps)
        click.echo(f"Pending{f' in {name}' if len(known) > 1 else ''}: {names}. Run `horarium db migrate`.", err=True)
    if pending:
        ctx.exit(2)
    _with_databases(loaded, lambda opened: opened.load())
    click.echo(f"The schema is up to date (version {max(max(found.applied) for found in known.values())}).")
    if len(known) > 1:
        click.echo(f"The {len(known)} databases are one installation; each shard lives in one of them.")


def _with_databases(loaded: config.Settings, work: Callable[[databases.Databases], Awaitable[Result]]) -> Result:
    """Do something with one connection to each database, outside of any transaction."""
    from horarium.store.databases import Databases

    async def run() -> Result:
        known = Databases.at(loaded.databases, pool_size=1, statement_cache=loaded.statement_cache)
        await known.open()
        try:
            return await work(known)
        finally:
            await known.close()

    return asyncio.run(run())


def _tell(made: list[founding.Made], dry_run: bool, *, named: bool) -> None:
    if not any(each.migrations for each in made):
        click.echo("Nothing to do: the schema is up to date.")
    for each in made:
        where = f" in {each.name}" if named else ""
        for step in each.migrations:
            click.echo(f"{'Would apply' if dry_run else 'Applied'} {step.version:04} {step.name} ({step.phase}){where}")
