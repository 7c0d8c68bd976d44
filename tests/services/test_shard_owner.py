"""Who leads a shard: terms rise, a lease that ends is taken over, and who cannot ask the database stops in time."""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from horarium import clock as clocks
from horarium import errors
from horarium.domain.ready_set import ReadySet
from horarium.events import Events, Name
from horarium.services.leader import Leader, live_run
from horarium.services.shard_owner import GIVE_UP_AFTER_S, LEASE, ShardOwner
from horarium.store import shards
from horarium.store.database import Database
from tests import builders
from tests.recording import Recorder

ALL = set(range(16))


class LeapingClock(clocks.DatabaseClock):
    """The real clock, with time that has passed by hand."""

    passed = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.passed

    def time(self) -> float:
        return super().time() + self.passed


@dataclass
class Node:
    """A node's part in leading shards."""

    owner: ShardOwner
    leader: Leader
    clock: LeapingClock
    told: Recorder
    database: Database

    async def look(self) -> None:
        """Renew, take, and load what was taken."""
        await self.owner.run_once()
        await self.owner.load_once()

    @property
    def terms(self) -> dict[int, int]:
        return self.leader.terms


@asynccontextmanager
async def running(url: str, node_id: str) -> AsyncIterator[Node]:
    database = Database(url, pool_size=2)
    await database.open()
    clock, events = LeapingClock(), Events()
    leader = Leader(clock, ReadySet(lease_s=15))
    me = shards.NodeRow(node_id, f"http://{node_id}", "0")
    yield Node(ShardOwner(database, leader, clock, events, me), leader, clock, Recorder(events), database)
    await database.close()


@pytest.fixture
async def first(emptied_url: str) -> AsyncIterator[Node]:
    async with running(emptied_url, "first") as node:
        yield node


@pytest.fixture
async def second(emptied_url: str) -> AsyncIterator[Node]:
    async with running(emptied_url, "second") as node:
        yield node


async def end_leases(node: Node) -> None:
    """As if three seconds had passed without a renewal."""
    async with node.database.connection() as connection:
        await connection.execute("UPDATE shards SET lease_expires_at = now() - interval '1 ms'")


async def test_free_shards_are_taken_and_loaded(first: Node) -> None:
    loaded: list[set[int]] = []

    async def load(taken: set[int]) -> None:
        assert set(first.terms) == taken
        assert first.leader.cursors == {}
        loaded.append(taken)

    first.owner.load = load
    await first.look()
    assert loaded == [ALL]
    assert first.terms == dict.fromkeys(ALL, 1)
    assert set(first.leader.cursors) == ALL
    (event,) = first.told.named(Name.SHARDS_TAKEN)
    assert event.fields["shards"] == sorted(ALL)


async def test_what_is_led_is_renewed_and_not_taken_again(first: Node) -> None:
    await first.look()
    await end_leases(first)
    await first.look()
    assert first.terms == dict.fromkeys(ALL, 1)
    async with first.database.connection() as connection:
        rows = await shards.all_shards(connection, LEASE)
        now = await connection.fetchval("SELECT now()")
    assert {row["leader"] for row in rows} == {"first"}
    assert all(row["alive"] and row["lease_expires_at"] <= now + LEASE for row in rows)


async def test_a_live_lease_is_respected(first: Node, second: Node) -> None:
    await first.look()
    await second.look()
    assert second.terms == {}


async def test_a_lease_that_ended_is_taken_over_under_a_higher_term(first: Node, second: Node) -> None:
    await first.look()
    await end_leases(first)
    await second.look()
    assert second.terms == dict.fromkeys(ALL, 2)
    await first.look()
    assert first.terms == {}
    (event,) = first.told.named(Name.SHARDS_LOST)
    assert event.fields == {"shards": sorted(ALL), "reason": "another node took them"}


async def test_what_memory_held_of_a_lost_shard_is_forgotten(first: Node, second: Node) -> None:
    await first.look()
    async with first.database.connection() as connection:
        made = await builders.insert_job(connection, builders.once(first.clock.now()))
    first.leader.add([live_run(made.by_hand(first.clock.now()))])
    await end_leases(first)
    await second.look()
    await first.look()
    assert len(first.leader.ready) == 0
    assert first.leader.cursors == {}


async def test_terms_rise_with_each_change(first: Node, second: Node) -> None:
    for term in range(1, 6, 2):
        await first.look()
        assert first.terms == dict.fromkeys(ALL, term)
        await first.owner.release()
        await second.look()
        assert second.terms == dict.fromkeys(ALL, term + 1)
        await second.owner.release()


async def test_two_nodes_never_lead_one_shard(first: Node, second: Node) -> None:
    await asyncio.gather(first.look(), second.look())
    assert set(first.terms) | set(second.terms) == ALL
    assert not set(first.terms) & set(second.terms)


async def test_shards_are_given_back_in_order(first: Node, second: Node) -> None:
    await first.look()
    await first.owner.release()
    assert first.terms == {}
    (event,) = first.told.named(Name.SHARDS_LOST)
    assert event.fields["reason"] == "released"
    await second.look()
    assert set(second.terms) == ALL


async def test_a_late_release_takes_nothing_from_the_next_leader(first: Node, second: Node) -> None:
    await first.look()
    await end_leases(first)
    await second.look()
    await first.owner.release()
    async with first.database.connection() as connection:
        assert {row["leader"] for row in await shards.all_shards(connection, LEASE)} == {"second"}


async def test_releasing_nothing_asks_nothing(first: Node) -> None:
    await first.database.close()
    await first.owner.release()


async def test_a_node_that_cannot_ask_stops_leading_after_two_seconds(first: Node) -> None:
    await first.look()
    await first.database.close()
    first.clock.passed += GIVE_UP_AFTER_S - 0.5
    with pytest.raises(errors.UnavailableError):
        await first.owner.run_once()
    assert set(first.terms) == ALL
    first.clock.passed += 0.6
    with pytest.raises(errors.UnavailableError):
        await first.owner.run_once()
    assert first.terms == {}
    (event,) = first.told.named(Name.SHARDS_LOST)
    assert event.fields["reason"] == "the database could not be asked"
    assert timedelta(seconds=GIVE_UP_AFTER_S) < LEASE
    await first.database.open()


async def test_a_load_that_fails_is_made_again(first: Node) -> None:
    calls: list[set[int]] = []

    async def load(taken: set[int]) -> None:
        calls.append(taken)
        if len(calls) == 1:
            raise errors.UnavailableError("cut")

    first.owner.load = load
    await first.owner.run_once()
    with pytest.raises(errors.UnavailableError):
        await first.owner.load_once()
    assert first.leader.cursors == {}
    await first.look()
    assert calls == [ALL, ALL]
    assert set(first.leader.cursors) == ALL


async def test_leases_are_renewed_while_a_load_takes_its_time(first: Node, second: Node) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def load(taken: set[int]) -> None:
        begun.set()
        await go_on.wait()

    first.owner.load = load
    await first.owner.run_once()
    loading = asyncio.create_task(first.owner.load_once())
    await begun.wait()
    await end_leases(first)
    await first.owner.run_once()
    await second.look()
    assert second.terms == {}
    go_on.set()
    await loading
    assert set(first.leader.cursors) == ALL


async def test_a_shard_that_is_lost_and_taken_again_during_a_load_is_loaded_again(first: Node, second: Node) -> None:
    """The load under way filled a memory that was forgotten meanwhile."""
    loads: list[set[int]] = []

    async def load(taken: set[int]) -> None:
        loads.append(taken)
        if len(loads) == 1:
            await end_leases(first)
            await second.look()
            await first.owner.run_once()
            await second.owner.release()
            await first.owner.run_once()

    first.owner.load = load
    await first.owner.run_once()
    await first.owner.load_once()
    assert first.terms == dict.fromkeys(ALL, 3)
    await first.owner.load_once()
    assert loads == [ALL, ALL]


async def test_what_waits_is_taken_up_after_what_has_begun_until_that_succeeds(first: Node) -> None:
    calls: list[set[int]] = []

    async def fill(loaded: set[int]) -> None:
        calls.append(loaded)
        if len(calls) == 1:
            raise errors.UnavailableError("cut")

    first.owner.fill = fill
    await first.owner.run_once()
    await first.owner.fill_once()
    assert calls == [], "nothing is loaded yet"
    await first.owner.load_once()
    with pytest.raises(errors.UnavailableError):
        await first.owner.fill_once()
    assert first.leader.ready.incomplete == ALL
    await first.owner.fill_once()
    assert first.leader.ready.incomplete == set()
    await first.owner.fill_once()
    assert calls == [ALL, ALL]


async def test_a_shard_that_is_lost_and_taken_again_while_it_is_filled_is_filled_again(
    first: Node, second: Node
) -> None:
    fills: list[set[int]] = []

    async def fill(loaded: set[int]) -> None:
        fills.append(loaded)
        if len(fills) == 1:
            await end_leases(first)
            await second.look()
            await first.owner.run_once()
            await second.owner.release()
            await first.look()

    first.owner.fill = fill
    await first.look()
    await first.owner.fill_once()
    assert first.leader.ready.incomplete == ALL
    await first.owner.fill_once()
    assert (fills, first.leader.ready.incomplete) == ([ALL, ALL], set())


async def test_a_node_that_joins_is_given_its_share(first: Node, second: Node) -> None:
    await first.look()
    await second.look()
    await first.look()
    assert (len(first.terms), len(second.terms)) == (16, 0), "seen once it does not count yet"
    await second.look()
    await first.look()
    assert len(first.terms) == 8
    await second.look()
    assert second.terms == {}, "the rows are not free before the writes under way have ended"
    await first.owner.hand_over_once()
    await second.look()
    assert second.terms == dict.fromkeys(ALL - set(first.terms), 2)
    for _ in range(3):
        await first.look()
        await second.look()
        await first.owner.hand_over_once()
    assert (len(first.terms), len(second.terms)) == (8, 8), "and there it rests"
    (event,) = first.told.named(Name.SHARDS_LOST)
    assert event.fields["reason"] == "handed over"


async def test_a_hand_over_waits_for_what_is_being_written(first: Node, second: Node) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def settle() -> None:
        begun.set()
        await ended.wait()

    first.owner.settle = settle
    await first.look()
    for _ in range(2):
        await second.look()
    await first.look()
    handing_over = asyncio.create_task(first.owner.hand_over_once())
    await begun.wait()
    await second.look()
    assert second.terms == {}
    await first.look()
    assert len(first.terms) == 8, "what is being handed over is not handed over twice"
    ended.set()
    await handing_over
    await second.look()
    assert len(second.terms) == 8


async def test_rather_what_is_not_loaded_yet_is_handed_over(first: Node, second: Node) -> None:
    await first.look()
    for _ in range(2):
        await second.look()
    first.leader.unloaded.update(range(8))
    await first.owner.run_once()
    assert set(first.terms) == set(range(8, 16))


async def test_a_row_that_cannot_be_freed_ends_with_its_lease(first: Node, second: Node) -> None:
    await first.look()
    for _ in range(2):
        await second.look()
    await first.owner.run_once()
    await first.database.close()
    with pytest.raises(errors.UnavailableError):
        await first.owner.hand_over_once()
    await first.database.open()
    assert await first.owner.hand_over_once()
    await second.look()
    assert second.terms == {}
    await end_leases(first)
    await first.look()
    await second.look()
    assert len(second.terms) == 8


async def test_the_shards_of_a_node_that_fell_silent_are_shared(first: Node, second: Node, emptied_url: str) -> None:
    async with running(emptied_url, "third") as third:
        for _ in range(3):
            for node in (first, second, third):
                await node.look()
                await node.owner.hand_over_once()
        assert sorted(len(node.terms) for node in (first, second, third)) == [5, 5, 6]
        async with first.database.connection() as connection:
            await connection.execute("UPDATE shards SET lease_expires_at = now() WHERE leader = 'third'")
            await connection.execute("UPDATE nodes SET last_seen_at = now() - interval '3 s' WHERE id = 'third'")
        await first.look()
        await second.look()
        assert (len(first.terms), len(second.terms)) == (8, 8)
        await third.look()
        assert third.terms == {}


async def test_who_leads_what_is_known_after_each_look(first: Node, second: Node) -> None:
    looks: list[int] = []
    first.owner.on_looked = lambda: looks.append(len(first.owner.division.leaders))
    await first.look()
    assert first.owner.division.leader_of(3) == shards.NodeRow("first", "http://first", "0")
    await second.look()
    assert second.owner.division.leader_of(3) == shards.NodeRow("first", "http://first", "0")
    assert second.owner.division.leader_of(99) is None
    await end_leases(first)
    await second.look()
    assert second.owner.division.leaders[3] == "second"
    assert looks == [16]


async def test_a_node_that_leaves_is_gone_at_once_and_takes_nothing_more(first: Node, second: Node) -> None:
    await first.look()
    for _ in range(2):
        await second.look()
    await first.owner.leave()
    assert first.terms == {}
    await first.look()
    assert first.terms == {}
    await second.look()
    assert len(second.terms) == 16
    assert set(second.owner.division.nodes) == {"second"}


async def test_the_renewal_measures_the_databases_clock(first: Node) -> None:
    await first.look()
    assert abs((first.clock.now() - await first.database.now()).total_seconds()) < 1
    assert list(first.told.named(Name.CLOCK_STEPPED)) == []


async def test_a_step_of_the_databases_clock_is_told(first: Node) -> None:
    stepped: list[float] = []
    first.owner.on_step = stepped.append
    await first.look()
    first.clock.observe(
        await first.database.now() + timedelta(hours=1), first.clock.monotonic(), first.clock.monotonic()
    )
    await first.look()
    assert stepped == [pytest.approx(-3600, abs=5)]
    assert first.told.total(Name.CLOCK_STEPPED) == 1


async def test_a_database_that_hangs_is_given_up_in_time(emptied_url: str) -> None:
    """It neither answers nor refuses, as when its machine is cut off."""
    async with Wire.to(emptied_url) as wire, running(wire.url, "first") as node:
        await node.look()
        wire.freeze()
        node.clock.passed += GIVE_UP_AFTER_S
        async with asyncio.timeout(builders.WAIT_S):
            with pytest.raises(errors.UnavailableError):
                await node.owner.run_once()
        assert node.terms == {}
        wire.cut()


async def test_a_database_that_does_not_even_take_connections_is_given_up_in_time(emptied_url: str) -> None:
    async with Wire.to(emptied_url) as wire, running(wire.url, "first") as node:
        await node.look()
        node.owner._database.cut_off()
        wire.freeze()
        node.clock.passed += GIVE_UP_AFTER_S
        with pytest.raises(errors.UnavailableError):
            async with asyncio.timeout(LEASE.total_seconds()):
                await node.owner.run_once()
        assert node.terms == {}
        wire.cut()


async def test_a_look_that_is_cancelled_takes_nothing_afterwards(first: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node stops while it looks: what it gives back it must not take again."""
    begun, go_on = asyncio.Event(), asyncio.Event()
    take = shards.take

    async def slow(*arguments: Any, **named: Any) -> dict[int, int]:
        begun.set()
        await go_on.wait()
        return await take(*arguments, **named)

    monkeypatch.setattr(shards, "take", slow)
    looking = asyncio.create_task(first.owner.run_once())
    await begun.wait()
    looking.cancel()
    await asyncio.wait({looking})
    go_on.set()
    async with first.database.connection() as connection:
        for _ in range(10):
            await connection.execute("SELECT 1")
    assert first.terms == {}


class Wire:
    """A connection to the database that can go dead without breaking."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._alive = asyncio.Event()
        self._alive.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.url = ""

    @classmethod
    @asynccontextmanager
    async def to(cls, url: str) -> AsyncIterator[Wire]:
        parts = urllib.parse.urlsplit(url)
        wire = cls(parts.hostname or "", parts.port or 0)
        server = await asyncio.start_server(wire._accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        wire.url = parts._replace(netloc=parts.netloc.replace(f":{parts.port}", f":{port}")).geturl()
        try:
            yield wire
        finally:
            wire.cut()
            server.close()
            await asyncio.gather(*wire._tasks, return_exceptions=True)
            await server.wait_closed()

    def freeze(self) -> None:
        """From now on nothing passes, in either direction, and nothing breaks."""
        self._alive.clear()

    def cut(self) -> None:
        """Break every connection."""
        for writer in self._writers:
            writer.close()
        for task in self._tasks:
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        await self._alive.wait()
        far_reader, far_writer = await asyncio.open_connection(*self._to)
        self._writers.append(far_writer)
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            self._tasks.add(asyncio.create_task(self._carry(source, sink)))

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                await self._alive.wait()
                sink.write(data)
                await sink.drain()
        sink.close()
