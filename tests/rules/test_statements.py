"""SQL stands in `store/sql/*.sql`: each statement introduced, used under its name, and good on the real schema."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import asyncpg
import pytest

from horarium.store import statements
from tests.rules import tree

FILES = sorted(path.stem for path in tree.SQL.glob("*.sql") if path.stem != "schema")
STATEMENTS = [(source, name) for source in FILES for name in statements.load(source).names()]

PLANNABLE = re.compile(r"^\s*(WITH|SELECT|INSERT|UPDATE|DELETE|MERGE)\b", re.MULTILINE)
SQL_TEXT = re.compile(
    r"\b(SELECT\s[\s\S]+?\sFROM\s|INSERT\s+INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s|TRUNCATE\s+\w"
    r"|(CREATE|ALTER|DROP)\s+(TABLE|INDEX|ROLE|USER|DATABASE|SCHEMA|FUNCTION|SEQUENCE)\s)"
)

# Python files that hold SQL, and why.
SQL_IN_PYTHON = {
    "src/horarium/embedded/initdb.py": "typed into a single-user PostgreSQL that has no database of ours yet",
}


@cache
def names_used() -> frozenset[tuple[str, str]]:
    """(file, statement) for each `SQL.statement` of the sources."""
    return frozenset(used for path in tree.source_files() for used in _used_in(path))


def _used_in(path: Path) -> Iterator[tuple[str, str]]:
    loaded = dict(_loaded(path))
    for node in tree.nodes(path):
        if isinstance(node, ast.Attribute) and (source := loaded.get(tree.dotted(node.value))):
            yield source, node.attr


def _loaded(path: Path) -> Iterator[tuple[str, str]]:
    """The names under which a module reaches statements: its own `SQL = load("runs")`, or another module's SQL."""
    for node in tree.nodes(path):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Attribute(attr="load"), args=[ast.Constant(value=str(source))]),
            ):
                yield name, source
            case ast.ImportFrom(module=str(home), names=names) if home.startswith("horarium.store."):
                for alias in names:
                    if alias.name == "SQL":
                        yield alias.asname or alias.name, home.rpartition(".")[2]


def test_the_files_are_found() -> None:
    assert {"runs", "timers", "shards"} <= set(FILES)


@pytest.mark.parametrize(("source", "name"), STATEMENTS)
def test_a_statement_is_introduced_and_used(source: str, name: str) -> None:
    lines = getattr(statements.load(source), name).splitlines()
    assert re.fullmatch(r"-- \S.{9,}", lines[1]), f"{source}.{name}: say below its name what it is for"
    assert (source, name) in names_used(), f"{source}.{name} is used nowhere"


def test_a_name_that_is_used_is_there() -> None:
    assert names_used() - set(STATEMENTS) - {(source, "names") for source in FILES} == set()


def test_nothing_stands_before_the_first_name() -> None:
    for source in FILES:
        head = (tree.SQL / f"{source}.sql").read_text("utf-8").partition("-- name: ")[0]
        assert not [line for line in head.splitlines() if line and not line.startswith("--")], source


async def test_every_statement_can_be_planned(database_url: str) -> None:
    connection = await asyncpg.connect(database_url, statement_cache_size=0)
    try:
        faults = [fault for source, name in STATEMENTS if (fault := await _fault(connection, source, name))]
    finally:
        await connection.close()
    assert faults == []


async def _fault(connection: asyncpg.Connection, source: str, name: str) -> str | None:
    text = getattr(statements.load(source), name)
    try:
        await connection.prepare(text)
        if PLANNABLE.search(text.split("\n", 2)[-1]) and connection.get_server_version().major >= 16:
            await connection.execute(f"EXPLAIN (GENERIC_PLAN) {text}")
    except asyncpg.PostgresError as error:
        return f"{source}.{name}: {error}"
    return None


def test_no_sql_in_python() -> None:
    found = {
        f"{tree.shown(path)}:{line}": text
        for path in tree.source_files()
        for line, text in tree.strings(path)
        if SQL_TEXT.search(text) and tree.shown(path) not in SQL_IN_PYTHON
    }
    assert found == {}


def test_the_exceptions_are_still_needed() -> None:
    for name in SQL_IN_PYTHON:
        assert any(SQL_TEXT.search(text) for _, text in tree.strings(tree.ROOT / name)), name
