"""The watch: a snapshot that is held for too long is told of once, with who holds it."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import asyncpg

from horarium.events import Name
from horarium.services.watch import Watch
from tests.builders import Core
from tests.lives import planes

AT_ONCE = timedelta(microseconds=1)


async def forgetful(url: str) -> asyncpg.Connection:
    """Somebody who has begun a transaction, and forgot about it."""
    opened = await asyncpg.connect(url, server_settings={"application_name": "forgetful"})
    await opened.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await opened.execute("SELECT 1")
    return opened


async def test_a_snapshot_that_is_held_too_long_is_told_once_for_each_time(core: Core, emptied_url: str) -> None:
    watch = Watch(core.database, core.leader, core.events, AT_ONCE)
    await watch.run_once()
    assert list(core.told.named(Name.SNAPSHOT_HELD)) == []
    assert watch.warnings() == []
    for times in (1, 2):
        holder = await forgetful(emptied_url)
        await watch.run_once()
        await watch.run_once()
        assert watch.oldest_snapshot_s > 0
        told = list(core.told.named(Name.SNAPSHOT_HELD))
        assert len(told) == times
        assert told[-1].fields["pid"] == holder.get_server_pid()
        assert "(forgetful), idle in transaction" in told[-1].fields["holder"]
        assert "(forgetful), idle in transaction has held a snapshot for 0 min" in watch.warnings()[0]
        await holder.close()
        while watch.oldest_snapshot_s:  # the server takes a moment to notice that the session is gone
            await watch.run_once()
        assert watch.warnings() == []


async def test_a_node_tells_of_it_and_serves_all_the_same(emptied_url: str) -> None:
    holder = await forgetful(emptied_url)
    async with planes.node(emptied_url, timing=dataclasses.replace(planes.QUICK, snapshot_alarm=AT_ONCE)) as here:
        await here.told.wait_for(Name.SNAPSHOT_HELD)
        assert "(forgetful)" in here.plane.warnings()[0]
        assert here.plane.unready() == []
        assert here.told.total(Name.SNAPSHOT_HELD) == 1
    await holder.close()


async def test_a_young_snapshot_is_a_figure_and_no_alarm(core: Core, emptied_url: str) -> None:
    watch = Watch(core.database, core.leader, core.events, timedelta(minutes=10))
    holder = await forgetful(emptied_url)
    await watch.run_once()
    await holder.close()
    assert 0 < watch.oldest_snapshot_s < 600
    assert list(core.told.named(Name.SNAPSHOT_HELD)) == []
    assert watch.warnings() == []
