"""The audit's rows: one change, many changes, pages and filters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from horarium.domain import job
from horarium.store import audit
from horarium.store.database import Database

ANN = job.Actor("acme", "ann", "admin", "192.0.2.1", "req-1")
BOB = job.Actor("other", "bob", "editor")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, pool_size=2)
    await database.open()
    yield database
    await database.close()


async def test_an_entry_is_kept_as_it_was_written(database: Database) -> None:
    before, after = '{"n": 12345678901234567890, "a":1}', '{"b" : [1.0]}'
    async with database.transaction() as connection:
        await audit.record(connection, ANN, "update", "job", "j1", before, after)
        (entry,) = await audit.page(connection, "acme", audit.Filter(), None, 10)
    assert (entry.actor, entry.action, entry.object_type, entry.object_id) == ("ann", "update", "job", "j1")
    assert (entry.before, entry.after) == (before, after)
    assert (entry.remote, entry.request_id) == ("192.0.2.1", "req-1")


async def test_many_changes_are_written_at_once(database: Database) -> None:
    changes = [audit.Change(f"j{n}", None, f'{{"n":{n}}}') for n in range(3)]
    async with database.transaction() as connection:
        await audit.record_many(connection, BOB, "create", "job", changes)
        entries = await audit.page(connection, "other", audit.Filter(), None, 10)
    assert [entry.object_id for entry in entries] == ["j2", "j1", "j0"]
    assert {entry.remote for entry in entries} == {None}


async def test_an_entry_goes_with_its_transaction(database: Database) -> None:
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await audit.record(connection, ANN, "update", "job", "j1")
        await transaction.rollback()
        assert await audit.page(connection, "acme", audit.Filter(), None, 10) == []


async def test_filters_and_pages(database: Database) -> None:
    now = await database.now()
    async with database.transaction() as connection:
        await audit.record(connection, ANN, "create", "job", "j1")
        await audit.record(connection, ANN, "pause", "job", "j1")
        await audit.record(connection, ANN, "create", "api_key", "k1")
        await audit.record(connection, BOB, "create", "job", "j1")

        async def found(**members: object) -> list[tuple[str, str]]:
            entries = await audit.page(connection, "acme", audit.Filter(**members), None, 10)  # type: ignore[arg-type]
            return [(entry.action, entry.object_id) for entry in entries]

        assert await found() == [("create", "k1"), ("pause", "j1"), ("create", "j1")]
        assert await found(object_id="j1") == [("pause", "j1"), ("create", "j1")]
        assert await found(object_type="api_key") == [("create", "k1")]
        assert await found(action="pause", actor="ann") == [("pause", "j1")]
        assert await found(actor="bob") == []
        assert await found(since=now + timedelta(hours=1)) == []
        first = await audit.page(connection, "acme", audit.Filter(), None, 2)
        rest = await audit.page(connection, "acme", audit.Filter(), first[-1].id, 2)
        assert [entry.action for entry in rest] == ["create"]


async def test_what_a_request_touched(database: Database) -> None:
    since = await database.now() - timedelta(minutes=1)
    async with database.transaction() as connection:
        await audit.record(connection, ANN, "create", "job", "j1")
        assert await audit.touched_by(connection, "acme", "req-1", since) == [audit.Touched("job", "j1", "create")]
        assert await audit.touched_by(connection, "acme", "req-2", since) == []
        assert await audit.touched_by(connection, "other", "req-1", since) == []
