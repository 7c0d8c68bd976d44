"""Rows of `dead_letters`."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from horarium.store import dead_letters

ROW = dead_letters.DeadLetter(UUID(int=1), UUID(int=2), "default", "q", 3, "mark", "E: boo", 4)


async def test_a_letter_is_opened_once(connection: asyncpg.Connection) -> None:
    await dead_letters.insert(connection, [ROW])
    await dead_letters.insert(connection, [ROW._replace(error="another")])
    (row,) = await connection.fetch("SELECT * FROM dead_letters")
    assert (row["run_id"], row["job_id"], row["fingerprint"], row["error"]) == (
        ROW.run_id,
        ROW.job_id,
        "mark",
        "E: boo",
    )
    assert (row["attempts"], row["shard"], row["since"] is not None) == (4, 3, True)


async def test_open_letters_are_counted_by_tenant_and_queue(connection: asyncpg.Connection) -> None:
    assert await dead_letters.count(connection) == {}
    rows = [
        ROW._replace(run_id=UUID(int=number), tenant_id=tenant, queue=queue)
        for number, (tenant, queue) in enumerate([("a", "q"), ("a", "q"), ("a", "r"), ("b", "q")])
    ]
    await dead_letters.insert(connection, rows)
    assert await dead_letters.count(connection) == {("a", "q"): 2, ("a", "r"): 1, ("b", "q"): 1}


async def test_nothing_to_write_costs_nothing(connection: asyncpg.Connection) -> None:
    await connection.close()
    await dead_letters.insert(connection, [])
