from __future__ import annotations

import re
from collections.abc import Callable

from click.testing import Result

from tests.several import SILENT

Cli = Callable[..., Result]


def test_from_an_empty_database_to_a_checked_one(cli: Cli, empty_database_url: str) -> None:
    at = ("--database-url", empty_database_url)
    assert cli("db", "status", *at).exit_code == 2
    assert cli("db", "check", *at).exit_code == 2
    assert "Would apply 0001" in cli("db", "init", "--dry-run", *at).stdout
    assert "pending" in cli("db", "status", *at).stdout

    made = cli("db", "init", "--shards", "4", *at)
    assert made.exit_code == 0
    assert "Made 4 shards." in made.stdout
    assert cli("db", "init", *at).exit_code == 4
    assert "Nothing to do" in cli("db", "migrate", *at).stdout
    assert "Nothing to do" in cli("db", "migrate", "--dry-run", *at).stdout

    status = cli("db", "status", *at)
    assert status.exit_code == 0
    assert "applied" in status.stdout
    assert cli("db", "check", *at).stdout.startswith("The schema is up to date")


def test_migrate_alone_makes_the_schema_too(cli: Cli, empty_database_url: str) -> None:
    assert "Applied 0001" in cli("db", "migrate", "--database-url", empty_database_url).stdout


def test_a_database_that_does_not_answer(cli: Cli) -> None:
    result = cli("db", "status", "--database-url", "postgresql://127.0.0.1:1/x")
    assert result.exit_code == 5
    assert cli("db", "status", "--database-url", "mysql://x/y").exit_code == 2
    assert cli("db", "status").exit_code == 2


def test_the_sql_of_the_migrations_needs_no_database(cli: Cli) -> None:
    printed = cli("db", "sql").stdout
    assert printed.startswith("-- migration 0001 initial (sha256 ")
    assert "CREATE TABLE jobs" in printed
    assert "CREATE TABLE jobs" not in cli("db", "sql", "--from", "2").stdout


def test_several_databases_are_made_and_shown_together(cli: Cli, empty_database_urls: list[str]) -> None:
    first = ("--database-url", empty_database_urls[0])
    both = ("--database-url", ",".join(empty_database_urls))
    silent = ("--database-url", f"{empty_database_urls[0]},{SILENT}")
    assert cli("db", "migrate", *both).exit_code == 2
    assert "pending in a, b" in cli("db", "status", *both).stdout

    made = cli("db", "init", "--shards", "4", *both)
    assert "Applied 0001 initial (expand) in b" in made.stdout
    assert "Made 4 shards." in made.stdout
    assert "Nothing to do" in cli("db", "migrate", *both).stdout

    status = cli("db", "status", *both)
    assert status.exit_code == 0
    assert re.search(r"^a +\S+ +up to date +2: 0 2", status.stdout, re.MULTILINE)
    assert re.search(r"^b +\S+ +up to date +2: 1 3", status.stdout, re.MULTILINE)
    assert "each shard lives in one of them" in cli("db", "check", *both).stdout
    missing = cli("db", "check", *first)
    assert missing.exit_code == 2
    assert "the address of another one is missing" in missing.stderr

    status = cli("db", "status", *silent)
    assert status.exit_code == 5
    assert "cannot be asked" in status.stdout
    doctor = cli("doctor", *silent)
    assert "schema (a)" in doctor.stdout
    assert "database (b)" in doctor.stdout
