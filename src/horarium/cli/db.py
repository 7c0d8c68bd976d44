"""`horarium db`: the schema in the database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from horarium import errors
from horarium.cli import options, output, settings

if TYPE_CHECKING:
    import asyncpg

    from horarium.store import migrator

Result = TypeVar("Result")


@click.group()
def db() -> None:
    """Make, change and check the schema in the database."""


@db.command()
@click.option("--shards", type=click.IntRange(1, 4096), help="Number of shards, fixed from now on.  [default: 16]")
@settings.database_option
@options.dry_run()
def init(database_url: str | None, shards: int | None, dry_run: bool) -> None:
    """Make the schema in an empty database.

    The number of shards limits how many nodes can share the work; it cannot be changed later.

    \b
    horarium db init --database-url postgresql://horarium@db.example/horarium
    horarium db init --shards 64
    """
    loaded = settings.load(database_url=database_url, shards=shards).settings

    async def run(connection: asyncpg.Connection) -> list[migrator.Migration]:
        from horarium.store import migrator

        status = await migrator.status(connection)
        if status.applied:
            raise errors.ConflictError(
                "The database has the schema already; `horarium db migrate` brings it up to date."
            )
        return list(status.pending) if dry_run else await migrator.migrate(connection, shards=loaded.shards)

    applied = _with_database(loaded.database_url, run)
    _tell(applied, dry_run)
    click.echo(f"{'Would make' if dry_run else 'Made'} {loaded.shards} shards.")


@db.command()
@settings.database_option
@options.dry_run()
def migrate(database_url: str | None, dry_run: bool) -> None:
    """Bring the schema up to date. Safe while nodes run: steps that take something away come a version later.

    \b
    horarium db migrate
    horarium db migrate --dry-run
    """
    loaded = settings.load(database_url=database_url).settings

    async def run(connection: asyncpg.Connection) -> list[migrator.Migration]:
        from horarium.store import migrator

        if dry_run:
            return list((await migrator.status(connection)).pending)
        return await migrator.migrate(connection, shards=loaded.shards)

    _tell(_with_database(loaded.database_url, run), dry_run)


@db.command()
@settings.database_option
@click.pass_context
def status(ctx: click.Context, database_url: str | None) -> None:
    """Show which migrations are applied; exit 2 if some are pending.

    \b
    horarium db status
    """
    from horarium.store import migrator

    found = _with_database(settings.load(database_url=database_url).settings.database_url, migrator.status)
    rows = [
        (f"{step.version:04}", step.name, step.phase, "applied" if step.version in found.applied else "pending")
        for step in migrator.migrations()
    ]
    output.table(["VERSION", "NAME", "PHASE", "STATE"], rows)
    ctx.exit(2 if found.pending else 0)


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
    """Check that the database fits this version: reachable, up to date, unaltered migrations. Exit 2 if not.

    \b
    horarium db check
    """
    from horarium.store import migrator

    found = _with_database(settings.load(database_url=database_url).settings.database_url, migrator.status)
    if found.pending:
        names = ", ".join(f"{step.version:04} {step.name}" for step in found.pending)
        click.echo(f"Pending: {names}. Run `horarium db migrate`.", err=True)
        ctx.exit(2)
    click.echo(f"The schema is up to date (version {max(found.applied)}).")


def _with_database(url: str, work: Callable[[asyncpg.Connection], Awaitable[Result]]) -> Result:
    """Do something with one connection, outside of any transaction."""
    from horarium.store.database import Database

    async def run() -> Result:
        database = Database(url, pool_size=1)
        await database.open()
        try:
            async with database.connection() as connection:
                return await work(connection)
        finally:
            await database.close()

    return asyncio.run(run())


def _tell(applied: list[migrator.Migration], dry_run: bool) -> None:
    if not applied:
        click.echo("Nothing to do: the schema is up to date.")
    for step in applied:
        click.echo(f"{'Would apply' if dry_run else 'Applied'} {step.version:04} {step.name} ({step.phase})")
