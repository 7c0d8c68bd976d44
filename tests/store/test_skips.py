"""Rows of `skips`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from horarium.store import skips

AT = datetime(2026, 3, 1, tzinfo=UTC)
JOB, OTHER, RUN = UUID(int=1), UUID(int=2), UUID(int=3)
ROW = skips.SkipRow(JOB, "default", 3, AT, AT + timedelta(hours=1), 60, False, "misfire", RUN)


async def test_the_skips_of_a_job_come_newest_first_page_by_page(connection: asyncpg.Connection) -> None:
    await skips.insert(connection, [ROW._replace(count=count) for count in (1, 2, 3)])
    await skips.insert(connection, [ROW._replace(job_id=OTHER)])
    first = await skips.of_job(connection, JOB, None, 2)
    rest = await skips.of_job(connection, JOB, first[-1]["id"], 2)
    assert [[row["count"] for row in page] for page in (first, rest)] == [[3, 2], [1]]


async def test_a_stretch_is_kept_as_it_was_told(connection: asyncpg.Connection) -> None:
    await skips.insert(connection, [ROW])
    (row,) = await skips.of_job(connection, JOB, None, 10)
    kept = (row["first"], row["last"], row["count"], row["exact"], row["reason"], row["coalesced_into"])
    assert kept == (ROW.first, ROW.last, 60, False, "misfire", RUN)


@pytest.mark.parametrize("wrong", [{"reason": "mood"}, {"count": 0}])
async def test_a_stretch_has_ticks_and_a_known_reason(connection: asyncpg.Connection, wrong: dict[str, object]) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await skips.insert(connection, [ROW._replace(**wrong)])  # type: ignore[arg-type]  # wrong on purpose


async def test_old_skips_go_in_bites(connection: asyncpg.Connection) -> None:
    await skips.insert(connection, [ROW] * 5)
    await connection.execute("UPDATE skips SET recorded_at = $1 WHERE id IN (SELECT id FROM skips LIMIT 3)", AT)
    before = AT + timedelta(seconds=1)
    assert await skips.prune(connection, AT, 10) == 0
    assert [await skips.prune(connection, before, 2) for _ in range(3)] == [2, 1, 0]
    assert len(await skips.of_job(connection, JOB, None, 10)) == 2


async def test_nothing_to_write_costs_nothing(connection: asyncpg.Connection) -> None:
    await connection.close()
    await skips.insert(connection, [])
