"""Rows of `workers`."""

from __future__ import annotations

import json

import asyncpg

from horarium.store import workers

ROW = workers.WorkerRow("w1", "default", "node-1", "1.0", "host", 7, '[{"name":"default"}]', '["work"]', 10, 3)


async def test_a_worker_is_written_as_it_is_now(connection: asyncpg.Connection) -> None:
    await workers.upsert(connection, [ROW, ROW._replace(id="w2", handlers=None)])
    changed = ROW._replace(node_id="node-2", version="2.0", handlers=None, queues="[]", slots=11, running=0)
    await workers.upsert(connection, [changed])
    rows = {row["id"]: row for row in await connection.fetch("SELECT * FROM workers")}
    assert set(rows) == {"w1", "w2"}
    row = rows["w1"]
    names = ("node_id", "version", "handlers", "slots", "running")
    assert [row[name] for name in names] == ["node-2", "2.0", None, 11, 0]
    assert json.loads(row["queues"]) == []
    assert row["last_seen_at"] > row["started_at"]


async def test_workers_that_said_goodbye_or_fell_silent_are_forgotten(connection: asyncpg.Connection) -> None:
    await workers.upsert(connection, [ROW._replace(id=name) for name in ("a", "b", "c")])
    await workers.remove(connection, ["a", "nobody"])
    await connection.execute("UPDATE workers SET last_seen_at = now() - interval '61 minutes' WHERE id = 'b'")
    await workers.prune(connection)
    assert [row["id"] for row in await connection.fetch("SELECT id FROM workers")] == ["c"]


async def test_nobody_to_write_costs_nothing(connection: asyncpg.Connection) -> None:
    await connection.close()
    await workers.upsert(connection, [])
