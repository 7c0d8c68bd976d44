from __future__ import annotations

import asyncpg

from horarium.store import diagnosis
from horarium.store.database import Database


async def test_a_healthy_database(database_url: str) -> None:
    database = Database(database_url)
    await database.open()
    async with database.connection() as connection:
        room = await diagnosis.room(connection)
        assert 0 < room.used <= room.most
        assert room.version_num >= 150_000
        assert {table.table for table in await diagnosis.dead_rows(connection)} >= {"runs", "timers"}
        leadership = await diagnosis.leadership(connection)
        assert (leadership.leaderless, leadership.shards) == (16, 16)
    await database.close()


async def test_somebody_holds_an_old_snapshot(database_url: str) -> None:
    holder = await asyncpg.connect(database_url, server_settings={"application_name": "forgetful"})
    await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await holder.execute("SELECT 1")
    database = Database(database_url)
    await database.open()
    async with database.connection() as connection:
        found = [await diagnosis.oldest_snapshot(connection)]
    await database.close()
    await holder.close()
    assert found[0] is not None
    assert found[0].age_s >= 0
    assert found[0].pid > 0
