"""Three nodes on one database under load: a leader is killed, frozen, deposed; nodes are replaced. The books balance."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from tests.cluster import load, nodes, waiting
from tests.cluster.nodes import Nodes

JOBS = 64
TAKEN_OVER_WITHIN = timedelta(seconds=5)


@pytest.fixture
async def three(database_url: str, tmp_path: Path) -> AsyncIterator[Nodes]:
    async with nodes.started(tmp_path, [database_url] * 3) as made:
        yield made


@pytest.fixture
async def two(database_url: str, tmp_path: Path) -> AsyncIterator[Nodes]:
    async with nodes.started(tmp_path, [database_url] * 2) as made:
        yield made


@pytest.mark.cluster
async def test_a_worker_of_one_node_gets_the_runs_of_all_and_a_killed_leader_is_replaced(three: Nodes) -> None:
    first = three.here[0]
    first.worker_urls = first.url
    async with first.database() as rows, load.under_load(first, JOBS) as client:
        led = await nodes.shared_by(rows, 3)
        killed = three.servers[2]
        since = await rows.fetchval("SELECT now()")
        await killed.kill()
        await nodes.shared_by(rows, 2)
        await load.balanced(first, client)
        silence = await nodes.longest_silence(rows, led[killed.pid], since)
        assert silence < TAKEN_OVER_WITHIN + timedelta(seconds=1), "a job's starts are a second apart at other times"


@pytest.mark.cluster
async def test_a_leader_is_frozen_past_its_lease_and_what_it_does_when_it_wakes_changes_nothing(three: Nodes) -> None:
    first = three.here[0]
    async with first.database() as rows, load.under_load(first, JOBS) as client:
        frozen = three.servers[2]
        frozen.send(signal.SIGSTOP)
        await nodes.shared_by(rows, 2)
        await client.acknowledges(50)
        frozen.send(signal.SIGCONT)
        await nodes.shared_by(rows, 3)
        assert [line["reason"] for line in three.told(2) if line["event"] == "shards_lost"][
            -1
        ] == "another node took them"
        await load.balanced(first, client)


@pytest.mark.cluster
async def test_two_leaders_at_once_make_nothing_twice(two: Nodes) -> None:
    """A leader's shards are given to another one behind its back, again and again: until it looks, both lead them."""
    first = two.here[0]
    async with first.database() as rows, load.under_load(first, JOBS) as client:
        overlaps = 0
        while overlaps < 3:
            since = await nodes.depose(rows, two.servers[1].pid)
            overlaps += await both_led(two, since)
            await nodes.shared_by(rows, 2)
        await load.balanced(first, client)


async def both_led(two: Nodes, since: datetime) -> bool:
    """Whether the first node took the shards of the second, deposed at an instant, before that one looked."""

    async def lost() -> datetime | None:
        return told_at(two, 1, "shards_lost", since)

    until = await waiting.until(lost, "the deposed leader looks")
    taken = told_at(two, 0, "shards_taken", since)
    return taken is not None and taken < until


def told_at(several: Nodes, number: int, event: str, since: datetime) -> datetime | None:
    """When a node first told an event after an instant."""
    times = [datetime.fromisoformat(line["timestamp"]) for line in several.told(number) if line["event"] == event]
    return next((at for at in times if at > since), None)


@pytest.mark.cluster
async def test_nodes_are_replaced_one_after_the_other_and_no_attempt_fails(three: Nodes) -> None:
    """SIGTERM at full load, one node at a time; nobody waits long."""
    first = three.here[0]
    async with first.database() as rows, load.under_load(first, JOBS) as client:
        since = await rows.fetchval("SELECT now()")
        for place, server in enumerate(three.servers):
            assert await server.stop() == 0
            await three.here[place].start_server()
            await nodes.shared_by(rows, 3)
        await load.balanced(first, client)
        await no_attempt_failed(rows, since)


async def no_attempt_failed(rows: asyncpg.Connection, since: datetime) -> None:
    repeated, lag = await nodes.start_lags(rows, since)
    print(f"start lag p99 {lag.total_seconds():.2f} s")
    assert repeated == 0
    assert lag < timedelta(seconds=5)


@pytest.mark.cluster
async def test_all_nodes_stop_at_full_load_and_start_again(two: Nodes) -> None:
    first = two.here[0]
    async with first.database() as rows, load.under_load(first, JOBS) as client:
        assert await asyncio.gather(*(server.stop() for server in two.servers)) == [0, 0]
        assert await rows.fetchval("SELECT count(*) FROM shards WHERE leader IS NOT NULL") == 0
        await asyncio.gather(*(each.start_server() for each in two.here))
        await load.balanced(first, client)
        assert await rows.fetchval("SELECT count(*) FROM history WHERE attempt > 1") == 0
