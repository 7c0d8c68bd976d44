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
        assert {table.name for table in await diagnosis.tables(connection)} >= {"runs", "timers", "jobs", "shards"}
        upkeep = await diagnosis.upkeep(connection)
        assert (upkeep.autovacuum, upkeep.counts) == (True, True)
        assert 0 < upkeep.frozen_age < upkeep.freeze_at
        leadership = await diagnosis.leadership(connection)
        assert (leadership.leaderless, leadership.shards) == (16, 16)
    await database.close()


async def test_somebody_holds_an_old_snapshot(database_url: str) -> None:
    holder = await asyncpg.connect(database_url, server_settings={"application_name": "forgetful"})
    await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await holder.execute("SELECT 1")
    pid = holder.get_server_pid()
    (found,) = [each for each in await held(database_url) if each.pid == pid]
    await holder.close()
    assert (found.kind, found.pid, found.application) == ("session", pid, "forgetful")
    assert found.state == "idle in transaction"
    assert found.age_s is not None
    assert found.query_s is not None
    assert found.age_s >= found.query_s >= 0
    assert str(found).endswith(" (forgetful), idle in transaction")


async def test_somebody_has_written_and_not_committed(database_url: str) -> None:
    """Between its statements such a session has no snapshot, and holds vacuum back all the same."""
    holder = await asyncpg.connect(database_url)
    await holder.execute("BEGIN")
    await holder.execute("UPDATE cluster SET value = value")
    (found,) = await held(database_url)
    await holder.close()
    assert found.kind == "session"


async def test_other_databases_are_left_out(admin_url: str, database_url: str) -> None:
    """A session there holds nothing here."""
    other = await asyncpg.connect(admin_url)
    await other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await other.execute("SELECT 1")
    assert await held(database_url) == []
    await other.close()


async def test_how_much_of_a_table_is_dead(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("ALTER TABLE timers SET (autovacuum_enabled = off)")
    await connection.execute(
        "INSERT INTO timers SELECT gen_random_uuid(), now(), now(), NULL, 1, 5, 1, 't', 'q', 'k', 's', '', ''"
        " FROM generate_series(1, 4000)"
    )
    await connection.execute("SELECT pg_stat_force_next_flush()")
    await connection.execute("ANALYZE timers")
    await connection.execute("DELETE FROM timers WHERE random() < 0.5")
    await connection.execute("SELECT pg_stat_force_next_flush()")
    timers = next(table for table in await diagnosis.tables(connection) if table.name == "timers")
    await connection.close()
    assert timers.live + timers.dead == 4000
    assert 1000 < timers.dead < 3000
    assert not timers.is_vacuumed
    assert timers.needed is not None
    assert 0.3 * timers.bytes < timers.needed < 0.7 * timers.bytes


async def held(url: str) -> list[diagnosis.Holder]:
    """Who holds vacuum back, as another session sees it."""
    database = Database(url)
    await database.open()
    async with database.connection() as connection:
        found = await diagnosis.holders(connection)
    await database.close()
    return found
