"""How PostgreSQL carries out a statement: its plan with real parameters, and what the plan did."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import asyncpg

Mode = Literal["force_custom_plan", "force_generic_plan"]

_NAME = re.compile(r"-- name: (\w+)")
_PAGE = 8192


@dataclass(frozen=True)
class Node:
    """One step of a plan, as it was carried out."""

    said: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.said["Node Type"])

    @property
    def table(self) -> str | None:
        """The table that is read or written; a partition is named as itself."""
        return self.said.get("Relation Name")

    @property
    def index(self) -> str | None:
        return self.said.get("Index Name")

    @property
    def rows(self) -> float:
        """Rows that came out, over all loops."""
        return float(self.said["Actual Rows"] * self.said["Actual Loops"])

    @property
    def thrown_away(self) -> float:
        """Rows that were fetched or compared in vain, over all loops."""
        removed = sum(value for key, value in self.said.items() if key.startswith("Rows Removed by"))
        return float(removed * self.said["Actual Loops"])

    def walk(self) -> Iterator[Node]:
        """This step and all below it."""
        yield self
        for child in self.said.get("Plans", []):
            yield from Node(child).walk()


@dataclass(frozen=True)
class Explained:
    """The plan of a statement and what it cost."""

    name: str
    top: Node

    def nodes(self) -> list[Node]:
        """All steps."""
        return list(self.top.walk())

    def indexes(self) -> set[str]:
        """The indexes that were read."""
        return {node.index for node in self.nodes() if node.index}

    def scanned(self) -> set[str]:
        """The tables that were read from one end to the other."""
        return {str(node.table) for node in self.nodes() if node.kind == "Seq Scan"}

    def drawn(self) -> str:
        """The plan as text, one line a step, for the message of a test that fails."""
        return f"{self.name}: {self.buffers} pages, {self.wal_bytes} bytes of WAL\n" + "\n".join(_drawn(self.top))

    @property
    def buffers(self) -> int:
        """Pages looked at, whether they were in memory or not."""
        return int(self.top.said["Shared Hit Blocks"] + self.top.said["Shared Read Blocks"])

    @property
    def wal_bytes(self) -> int:
        """Bytes of WAL without the whole pages that follow a checkpoint: at least so many."""
        return max(0, int(self.top.said.get("WAL Bytes", 0) - _PAGE * self.top.said.get("WAL FPI", 0)))


def _drawn(node: Node, depth: int = 1) -> Iterator[str]:
    place = " ".join(name for name in (node.table, node.index) if name)
    yield f"{'  ' * depth}{node.kind} {place}: {node.rows:.0f} rows, {node.thrown_away:.0f} thrown away"
    for child in node.said.get("Plans", []):
        yield from _drawn(Node(child), depth + 1)


class Recording:
    """A connection that remembers what goes through it: so that a plan is asked for as the store asks for the rows."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        async def call(statement: str, *values: Any) -> Any:
            self.calls.append((statement, values))
            return await getattr(self._connection, method)(statement, *values)

        return call


async def explain(
    connection: asyncpg.Connection, work: Callable[[Any], Awaitable[Any]], mode: Mode
) -> dict[str, Explained]:
    """The plans of what a function of the store does, by the names of its statements. Nothing of it stays."""
    recording = Recording(connection)
    attempt = connection.transaction()
    await attempt.start()
    await work(recording)
    await attempt.rollback()
    plans = [await _explain(connection, statement, values, mode) for statement, values in recording.calls]
    return {plan.name: plan for plan in plans}


async def _explain(connection: asyncpg.Connection, statement: str, values: tuple[Any, ...], mode: Mode) -> Explained:
    found = _NAME.match(statement)
    assert found, f"not a named statement: {statement[:60]}"
    attempt = connection.transaction()
    await attempt.start()
    try:
        await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
        await connection.execute(f"PREPARE asked AS {statement}")
        given = await _literals(connection, values)
        said = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, WAL, FORMAT JSON) EXECUTE asked ({given})")
    finally:
        await attempt.rollback()
        await connection.execute("DEALLOCATE ALL")
    return Explained(found[1], Node(json.loads(said)[0]["Plan"]))


async def _literals(connection: asyncpg.Connection, values: tuple[Any, ...]) -> str:
    """The values as PostgreSQL writes them: EXECUTE takes no parameters."""
    kinds: list[str] = await connection.fetchval(
        "SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = 'asked'"
    )
    return ", ".join(
        [
            await connection.fetchval(f"SELECT quote_nullable(($1::{kind})::text)", value)
            for kind, value in zip(kinds, values, strict=True)
        ]
    )
