"""Idempotency keys: one holder at a time, an answer kept for a day, nothing from a late holder."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from horarium.store import idempotency
from horarium.store.database import Database


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, pool_size=2)
    await database.open()
    yield database
    await database.close()


async def age(database: Database, key: str, interval: str) -> None:
    async with database.connection() as connection:
        await connection.execute(
            "UPDATE idempotency_keys SET created_at = created_at - $2::text::interval WHERE key = $1", key, interval
        )


async def test_a_key_is_taken_once(database: Database) -> None:
    async with database.connection() as connection:
        assert await idempotency.take(connection, "acme", "k", b"hash", "{}") is not None
        assert await idempotency.take(connection, "acme", "k", b"hash", "{}") is None
        assert await idempotency.take(connection, "other", "k", b"hash", "{}") is not None
        known = await idempotency.read(connection, "acme", "k")
    assert known is not None
    assert (known.request_hash, known.status, known.body) == (b"hash", None, None)
    assert 0 <= known.age_s < 60


async def test_an_answer_is_kept_byte_for_byte(database: Database) -> None:
    async with database.connection() as connection:
        term = await idempotency.take(connection, "acme", "k", b"hash", "{}")
        assert term is not None
        await idempotency.keep(connection, "acme", "k", term, status=201, headers='{"etag": "x"}', body=b"\xff\x00{}")
        known = await idempotency.read(connection, "acme", "k")
    assert known is not None
    assert (known.status, known.headers, known.body) == (201, '{"etag": "x"}', b"\xff\x00{}")


async def test_after_a_day_a_key_is_free_again(database: Database) -> None:
    async with database.connection() as connection:
        await idempotency.take(connection, "acme", "k", b"old", "{}")
    await age(database, "k", "23 hours 59 minutes")
    async with database.connection() as connection:
        assert await idempotency.take(connection, "acme", "k", b"new", "{}") is None
    await age(database, "k", "2 minutes")
    async with database.connection() as connection:
        assert await idempotency.take(connection, "acme", "k", b"new", "{}") is not None


async def test_a_key_is_taken_over_by_one(database: Database) -> None:
    async with database.connection() as connection:
        term = await idempotency.take(connection, "acme", "k", b"hash", '{"by": 1}')
        assert term is not None
    await age(database, "k", "2 minutes")
    async with database.connection() as connection:
        known = await idempotency.read(connection, "acme", "k")
        assert known is not None
        assert await idempotency.retake(connection, "acme", "k", known.created_at, '{"by": 2}') is not None
        assert await idempotency.retake(connection, "acme", "k", known.created_at, '{"by": 3}') is None


async def test_a_late_holder_changes_nothing(database: Database) -> None:
    async with database.connection() as connection:
        term = await idempotency.take(connection, "acme", "k", b"hash", "{}")
        assert term is not None
    await age(database, "k", "2 minutes")
    async with database.connection() as connection:
        await idempotency.keep(connection, "acme", "k", term, status=201, headers="{}", body=b"late")
        await idempotency.free(connection, "acme", "k", term)
        known = await idempotency.read(connection, "acme", "k")
    assert known is not None
    assert known.status is None


async def test_a_freed_key_can_be_taken(database: Database) -> None:
    async with database.connection() as connection:
        term = await idempotency.take(connection, "acme", "k", b"hash", "{}")
        assert term is not None
        await idempotency.free(connection, "acme", "k", term)
        assert await idempotency.read(connection, "acme", "k") is None
