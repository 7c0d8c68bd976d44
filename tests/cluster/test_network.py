"""The network is bad under load: answers to workers are lost or asked for twice, nodes are cut off from each other or all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.cluster import load, nodes, processes, waiting
from tests.cluster.bad_line import BadLine
from tests.cluster.nodes import Nodes
from tests.gate import Gate

JOBS = 30


@pytest.mark.cluster
async def test_one_answer_in_ten_is_lost_and_one_request_in_ten_arrives_twice(
    database_url: str, tmp_path: Path
) -> None:
    async with (
        processes.installation(tmp_path, database_url, lease="3s") as here,
        BadLine.before(here.url) as line,
    ):
        here.worker_urls = line.url
        async with load.under_load(here, JOBS) as client, here.database() as rows:

            async def often() -> bool:
                return min(line.lost, line.repeated) >= 10

            await waiting.until(often, "answers are lost and requests repeated")
            await load.balanced(here, client)
            print(f"{line.lost} answers were lost, {line.repeated} requests were repeated")
            other, again = await rows.fetchrow(
                "SELECT count(*) FILTER (WHERE state <> 'succeeded'), count(*) FILTER (WHERE attempt > 1) FROM history"
            )
            print(f"{again} runs needed another attempt, {other} used all of them up")
            assert other == await rows.fetchval("SELECT count(*) FROM dead_letters")


@asynccontextmanager
async def gated(folder: Path, database_url: str) -> AsyncIterator[tuple[Nodes, list[Gate], Gate]]:
    """Three nodes: the gates between them, and one between the third and its database."""
    async with AsyncExitStack() as stack:
        to_database = await stack.enter_async_context(Gate.before(database_url))
        made = Nodes(folder, [database_url, database_url, to_database.url])
        stack.push_async_callback(made.close)
        gates = [await stack.enter_async_context(Gate.before(each.url)) for each in made.here]
        for each, gate in zip(made.here, gates, strict=True):
            each.environment["HORARIUM_NODE_URL"] = gate.url
        await made.start()
        async with made.here[0].database() as rows:
            await nodes.shared_by(rows, 3)
        yield made, gates, to_database


async def faults_of(here: processes.Installation) -> list[str]:
    """What a node says of itself: what keeps it from its work, and what only worries it."""
    answer = await here.call("GET", "/readyz")
    return [*answer["faults"], *answer["warnings"]]


async def complains(here: processes.Installation, of: str) -> None:
    async def look() -> bool:
        return any(of in fault for fault in await faults_of(here))

    await waiting.until(look, f"a node says: {of}")


async def is_content(here: processes.Installation) -> None:
    async def look() -> bool:
        return await faults_of(here) == []

    await waiting.until(look, "a node has nothing to complain of")


@pytest.mark.cluster
async def test_nodes_that_cannot_reach_each_other_go_on_each_with_its_workers(
    database_url: str, tmp_path: Path
) -> None:
    async with gated(tmp_path, database_url) as (three, gates, _):
        first, *others = three.here
        for each in three.here:
            each.worker_urls = each.url
        async with load.under_load(first, JOBS) as client:
            for each in others:
                await each.start_worker()
            for gate in gates:
                await gate.shut()
            await complains(first, "cannot be reached")
            await client.acknowledges(100)
            for gate in gates:
                await gate.open()
            await is_content(first)
            await load.balanced(first, client)


@pytest.mark.cluster
async def test_a_node_that_is_cut_off_from_all_is_replaced_and_comes_back(database_url: str, tmp_path: Path) -> None:
    """Its workers reach it all the same: what they had at work is reported, or runs again elsewhere."""
    async with gated(tmp_path, database_url) as (three, gates, to_database):
        first, _, third = three.here
        async with load.under_load(first, JOBS) as client, first.database() as rows:
            await third.start_worker(HORARIUM_URL=f"{third.url},{first.url}")
            await gates[2].shut()
            await to_database.shut()
            await nodes.shared_by(rows, 2)
            await complains(third, "database")
            await client.acknowledges(100)
            await to_database.open()
            await gates[2].open()
            await nodes.shared_by(rows, 3)
            await load.balanced(first, client)
            lost = [line["reason"] for line in three.told(2) if line["event"] == "shards_lost"]
            assert lost[-1] in {"the database could not be asked", "another node took them"}
