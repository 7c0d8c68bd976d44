"""The same store calls on PostgreSQL and on the model, and whether both said and kept the same.

Tokens, serial numbers and the moments at which things were done differ between the two and are compared by what they stand for: a
token by which of its run's tokens it is, a moment by whether there is one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from tests.simulation.chance import Chance
from tests.simulation.database import Connection, Host, Session
from tests.simulation.model.server import Server
from tests.simulation.weather import Weather

SHARDS = 16
Call = Callable[[Any, "Tokens"], Awaitable[Any]]

_MOMENTS = {"started_at", "lease_expires_at", "finished_at", "cancel_requested_at", "updated_at", "last_seen_at"}
_JSON = {"payload", "target", "retry", "failures", "result", "progress", "pause", "expect"}
_TABLES = ("jobs", "timers", "runs", "history", "skips", "dead_letters", "shards", "nodes", "past_schedules")


@dataclass
class Tokens:
    """The tokens that each run has had on one side, in their order; the first is 0, of a run that was never claimed."""

    known: dict[UUID, list[int]] = field(default_factory=dict)

    def of(self, run_id: UUID, place: int) -> int:
        """The token at a place, the last one for -1."""
        tokens = self.known.get(run_id, [0])
        return tokens[place] if -len(tokens) <= place < len(tokens) else 10**9 + place

    def place(self, run_id: UUID, token: int) -> int:
        """Which of the run's tokens it is."""
        tokens = self.known.setdefault(run_id, [0])
        if token not in tokens:
            tokens.append(token)
        return tokens.index(token)


class Side:
    """One of the two: a connection, and the tokens that it gave."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.tokens = Tokens()

    async def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table."""
        return [dict(row) for row in await self.connection.fetch(f"SELECT * FROM {table}")]

    def plain(self, value: Any, names: tuple[str, ...] = ()) -> Any:
        """A value without what differs between the sides."""
        if isinstance(value, asyncpg.Record) or hasattr(value, "keys"):
            fields = {name: value[name] for name in value.keys()}  # noqa: SIM118 - a record has no other way
            return self._plain_row(fields)
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            return self._plain_row(value._asdict())
        if isinstance(value, list | set | frozenset):
            return sorted((self.plain(each) for each in value), key=repr)
        if isinstance(value, tuple):
            return tuple(self.plain(each) for each in value)
        return UUID(int=value.int) if isinstance(value, UUID) else value

    def _plain_row(self, fields: dict[str, Any]) -> dict[str, Any]:
        token = next((name for name in ("fencing_token", "token") if name in fields), None)
        row = {name: self._plain_field(name, fields[name]) for name in sorted(fields)}
        if token is not None and isinstance(fields.get("id"), UUID):
            row[token] = self.tokens.place(fields["id"], fields[token])
        return row

    def _plain_field(self, name: str, value: Any) -> Any:
        if name in _MOMENTS:
            return value is not None
        if name == "tags":
            return list(value)
        if name in _JSON and isinstance(value, str):
            return json.loads(value)
        return self.plain(value)


class ModelSide(Side):
    """The model. Its rows have fewer columns: what nobody asks for."""

    def __init__(self, seed: int) -> None:
        chance = Chance(seed)
        self.server = Server(chance, SHARDS, asyncio.get_running_loop().time)
        self.host = Host(self.server, chance, Weather())
        self.host.chance.short = lambda: 0.0  # type: ignore[method-assign]
        super().__init__(self.connect())

    def connect(self) -> Any:
        """Another connection."""
        return Connection(Session(self.host))

    async def rows(self, table: str) -> list[dict[str, Any]]:
        return [dict(row) for row in self.server.tables[table].values()]


class Both:
    """Makes each call on both sides. AssertionError when they differ."""

    def __init__(self, postgres: asyncpg.Connection, seed: int) -> None:
        self.real = Side(postgres)
        self.model = ModelSide(seed)
        self.calls = 0

    async def call(self, name: str, call: Call) -> Any:
        """Do it twice; the answer of PostgreSQL without what differs."""
        self.calls += 1
        real, model = [await self._answer(side, call) for side in (self.real, self.model)]
        assert model == real, f"{name}: PostgreSQL says {real}, the model {model}"
        return real

    async def _answer(self, side: Side, call: Call) -> Any:
        try:
            return side.plain(await call(side.connection, side.tokens))
        except asyncpg.PostgresError as error:
            return type(error).__name__

    async def same_rows(self) -> None:
        """Compare every row."""
        for table in _TABLES:
            model, found = await self.model.rows(table), await self.real.rows(table)
            columns = set(model[0]) if model else set()
            assert len(model) == len(found), f"{table}: PostgreSQL has {found}, the model {model}"
            expected = sorted((self.real.plain(_Fields(_some(row, columns))) for row in found), key=repr)
            kept = sorted((self.model.plain(_Fields(row)) for row in model), key=repr)
            for real, ours in zip(expected, kept, strict=True):
                differs = {name: (real[name], ours[name]) for name in real if real[name] != ours[name]}
                assert not differs, f"{table}: PostgreSQL and the model differ in {differs}: {real}"


def _some(row: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in names}


class _Fields:
    """Fields as a row."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def keys(self) -> Any:
        return self._fields.keys()

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]


LEASE = timedelta(hours=1)
BASE = datetime.fromisoformat("2026-03-02T08:00:00+00:00")
