"""The services over two databases: each job in the database of its shard, lists of both as one, and one of them silent."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from uuid import UUID

import pytest

from horarium import errors
from horarium.domain import ids, job, sharding
from horarium.services import parts, spread, spread_batch, spread_names
from horarium.services.catalog import Catalog, Filter
from horarium.services.mover import Mover
from horarium.services.pokes import NoPokes
from horarium.services.spread_catalog import SpreadCatalog
from horarium.services.spread_inspector import SpreadInspector, seen_of_each
from horarium.services.spread_manual import SpreadManual
from horarium.store import audit, inspect
from horarium.store.databases import Databases
from horarium.store.inspect import DeadFilter, RunFilter
from tests import several
from tests.services.catalog_world import WHO, HandClock

SHARDS = 4
HOURLY = job.JobSpec(target={"handler": "h"}, schedule="0 * * * *")


class World:
    """The services, as a node makes them."""

    def __init__(self, databases: Databases) -> None:
        self.databases = databases
        self.clock = HandClock()
        made = spread.over(databases, [self.clock] * 2, [None, None], [NoPokes()] * 2, SHARDS)
        assert isinstance(made.catalog, SpreadCatalog)
        assert isinstance(made.manual, SpreadManual)
        assert isinstance(made.inspector, SpreadInspector)
        self.catalog, self.manual, self.inspector = made.catalog, made.manual, made.inspector

    def named(self, place: int, prefix: str = "job") -> str:
        """A name whose shard lives at a place."""
        names = (f"{prefix}-{number}" for number in itertools.count())
        return next(name for name in names if self.place(sharding.shard_of_name(WHO.tenant_id, name, SHARDS)) == place)

    def place(self, shard: int) -> int:
        return self.databases.place_of(shard)

    async def create(self, name: str | None = None, **members: object) -> job.Job:
        spec = job.JobSpec(**{"target": {"handler": "h"}, "schedule": "0 * * * *", "name": name, **members})  # type: ignore[arg-type]
        return await self.catalog.create(WHO, spec)

    async def count(self, place: int, table: str = "jobs") -> int:
        async with self.databases.all[place].connection() as connection:
            count: int = await connection.fetchval(f"SELECT count(*) FROM {table}")
            return count

    async def silence(self, place: int) -> None:
        """As if its server was gone."""
        await self.databases.all[place].close()
        await self.databases.reload()


@pytest.fixture
async def world(database_urls: list[str]) -> AsyncIterator[World]:
    async with several.joined(database_urls, SHARDS) as databases:
        yield World(databases)


async def test_jobs_live_with_their_shards(world: World) -> None:
    made = [await world.create(world.named(place)) for place in (0, 1)]
    made += [await world.create() for _ in range(8)]
    for each in made:
        assert ids.shard_of(each.id) == each.shard
        async with world.databases.of(each.shard).connection() as connection:
            assert await connection.fetchval("SELECT shard FROM jobs WHERE id = $1", each.id) == each.shard
    assert {world.place(each.shard) for each in made[2:]} <= {0, 1}


async def test_everything_that_is_done_to_a_job_finds_it(world: World) -> None:
    for place in (0, 1):
        name = world.named(place)
        made = await world.create(name)
        with pytest.raises(errors.ConflictError, match="exists already"):
            await world.create(name)
        stored, is_new = await world.catalog.put(WHO, name, job.JobSpec(**{**_members(HOURLY), "priority": 7}))
        assert (stored.id, is_new, stored.spec.priority) == (made.id, False, 7)
        for ref in (name, made.id):
            await world.catalog.patch(WHO, ref, {"description": str(ref)})
            await world.catalog.pause(WHO, ref)
            await world.catalog.resume(WHO, ref)
            assert (await world.catalog.get(WHO, ref)).job.id == made.id
            assert len(await world.catalog.next(WHO, ref, 3)) == 3
            assert await world.catalog.skips(WHO, ref) == []
            assert await world.inspector.job_id(WHO, ref) == made.id
            run_id = await world.manual.run_now(WHO, ref)
            assert (await world.inspector.run(WHO, run_id)).job_id == made.id
            await world.manual.cancel(WHO, run_id)
            assert await world.inspector.state(WHO, run_id) == "cancelled"
            again = await world.manual.rerun(WHO, run_id)
            assert world.place(ids.shard_of(again)) == place
        assert len(await world.inspector.runs(WHO, RunFilter(made.id), None, 10)) == 4
        await world.catalog.delete(WHO, name)
        assert await world.catalog.find(WHO, name) is None
    with pytest.raises(errors.NotFoundError):
        await world.catalog.get(WHO, UUID(int=2**127))


def _members(spec: job.JobSpec) -> dict[str, object]:
    return {name: getattr(spec, name) for name in ("target", "schedule")}


async def test_a_batch_is_divided_and_answered_in_its_order(world: World) -> None:
    names = [world.named(place, f"batch{number}") for number, place in enumerate((0, 1, 1, 0))]
    taken = await world.create(names[1])
    fault = errors.InvalidError([errors.Fault("/x", "is wrong")])
    specs: Sequence[job.JobSpec | errors.HorariumError] = [
        *(job.JobSpec(target={"handler": "h"}, schedule="0 * * * *", name=name) for name in names),
        fault,
        job.JobSpec(target={"handler": "h"}, schedule="0 * * * *", name=names[0]),
        HOURLY,
    ]
    made = await world.catalog.create_many(WHO, specs)
    kinds = [each.spec.name if isinstance(each, job.Job) else str(each) for each in made]
    said = [f"a job named {name!r} exists already" for name in (names[1], names[0])]
    assert kinds == [names[0], said[0], names[2], names[3], "/x: is wrong", said[1], None]
    assert (await world.catalog.get(WHO, names[1])).job.id == taken.id


async def test_lists_of_both_databases_are_one(world: World) -> None:
    made = [await world.create() for _ in range(15)]
    assert all([await world.count(0), await world.count(1)])
    runs = [await world.manual.run_now(WHO, each.id) for each in made]
    for fetch, wanted in (
        (lambda after: world.catalog.list(WHO, Filter(), after, 4), made),
        (lambda after: world.inspector.runs(WHO, RunFilter(), after, 4), runs),
    ):
        seen: list[UUID] = []
        while True:
            page = await fetch(seen[-1] if seen else None)
            seen += [item.job.id if isinstance(item, job.JobView) else item.id for item in page]
            if len(page) < 4:
                break
        assert seen == sorted([each.id if isinstance(each, job.Job) else each for each in wanted], reverse=True)
    (queue,) = await world.inspector.queues(WHO)
    assert queue.waiting == 15


async def test_the_audit_of_both_databases_is_one(world: World) -> None:
    made = [await world.create() for _ in range(12)]
    seen: list[int] = []
    shown: list[audit.Entry] = []
    while page := await world.inspector.audit(WHO, audit.Filter(), seen, 5):
        shown += page
        seen = seen_of_each(seen, [entry.id for entry in page])
    assert sorted(entry.object_id for entry in shown) == sorted(str(each.id) for each in made)
    assert len({entry.id for entry in shown}) == 12
    assert [entry.at for entry in shown] == sorted((entry.at for entry in shown), reverse=True)


async def test_dead_letters_are_taken_up_where_they_are(world: World) -> None:
    made = [await world.create(world.named(place, f"dead{number}")) for number in range(3) for place in (0, 1)]
    runs = []
    for number, each in enumerate(made):
        run_id = ids.fresh_id(each.shard, world.clock.now(), number)
        async with world.databases.of(each.shard).connection() as connection:
            await connection.execute(
                "INSERT INTO dead_letters (run_id, job_id, tenant_id, queue, shard, fingerprint, error, attempts)"
                " VALUES ($1, $2, $3, 'default', $4, 'same', 'boom', 4)",
                run_id,
                each.id,
                WHO.tenant_id,
                each.shard,
            )
        runs.append(run_id)
    letters = await world.inspector.dead_letters(WHO, DeadFilter(), None, 10)
    assert [letter.run_id for letter in letters] == sorted(runs, reverse=True)
    assert len(await world.inspector.dead_letter_groups(WHO, DeadFilter(), 4)) == 4
    assert await world.manual.retry_dead(WHO, runs[:2]) == 2
    assert await world.manual.retry_dead(WHO, DeadFilter(), 3) == 3
    assert await world.manual.discard_dead(WHO, DeadFilter()) == 1
    assert await world.inspector.dead_letters(WHO, DeadFilter(), None, 10) == []


async def test_a_silent_database_stops_what_needs_it_and_nothing_else(world: World) -> None:
    here, there = world.named(0), world.named(1)
    kept, lost = await world.create(here), await world.create(there)
    await world.silence(1)
    assert (await world.catalog.get(WHO, here)).job.id == kept.id
    assert {world.place((await world.create()).shard) for _ in range(10)} == {0}
    for ref in (there, lost.id):
        with pytest.raises(errors.UnavailableError, match=r"^database b: "):
            await world.catalog.get(WHO, ref)
    shown = await world.catalog.list(WHO, Filter(name=here), None, 10)
    assert ([view.job.id for view in shown], shown.missing) == ([kept.id], ("b",))
    made = await world.catalog.create_many(
        WHO, [job.JobSpec(**{**_members(HOURLY), "name": name}) for name in (world.named(0, "x"), world.named(1, "x"))]
    )
    assert isinstance(made[0], job.Job)
    assert isinstance(made[1], errors.UnavailableError)
    with pytest.raises(errors.UnavailableError):
        await world.catalog.create_many(WHO, [job.JobSpec(**{**_members(HOURLY), "name": world.named(1, "y")})])
    await world.silence(0)
    with pytest.raises(errors.UnavailableError):
        await world.catalog.list(WHO, Filter())


async def test_a_job_is_found_where_its_shard_was_moved_to(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horarium.services.mover.GRACE_S", 0)
    name = world.named(0)
    made = await world.create(name)
    async with several.opened([each.url for each in world.databases.all]) as elsewhere:
        await elsewhere.load()
        await Mover(elsewhere, made.shard, 0, 1, "mover:test").run()
    assert world.place(made.shard) == 0  # this node has not heard of it
    assert (await world.catalog.get(WHO, name)).job.id == made.id
    assert world.place(made.shard) == 1
    other = await world.create(world.named(1, "after"))
    assert [view.job.id for view in await world.catalog.list(WHO, Filter())] == sorted(
        [made.id, other.id], reverse=True
    )


async def test_a_write_meets_the_fence_and_goes_where_the_shard_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("horarium.services.mover.GRACE_S", 0)
    name = world.named(0, "first")
    shard = sharding.shard_of_name(WHO.tenant_id, name, SHARDS)
    async with several.opened([each.url for each in world.databases.all]) as elsewhere:
        await elsewhere.load()
        await Mover(elsewhere, shard, 0, 1, "mover:test").run()
    made = await world.create(name)
    assert (made.shard, await world.count(0), await world.count(1)) == (shard, 0, 1)


async def test_a_name_that_was_given_by_a_rename_stays_unique_across_a_move(
    world: World, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("horarium.services.mover.GRACE_S", 0)
    made = await world.create(world.named(0, "old"))
    names = (world.named(0, f"new{number}") for number in itertools.count())
    new = next(name for name in names if sharding.shard_of_name(WHO.tenant_id, name, SHARDS) != made.shard)
    elsewhere = world.named(1, "elsewhere")
    with pytest.raises(errors.ConflictError, match="belongs into another database") as refused:
        await world.catalog.patch(WHO, made.id, {"name": elsewhere})
    assert refused.value.code == "name_elsewhere"
    await world.catalog.patch(WHO, made.id, {"name": new})
    assert (await world.catalog.get(WHO, new)).job.id == made.id

    await Mover(world.databases, sharding.shard_of_name(WHO.tenant_id, new, SHARDS), 0, 1, "mover:test").run()
    assert (await world.catalog.get(WHO, new)).job.id == made.id
    with pytest.raises(errors.ConflictError, match="exists already"):
        await world.create(new)
    (answer,) = await world.catalog.create_many(WHO, [job.JobSpec(**{**_members(HOURLY), "name": new})])
    assert isinstance(answer, errors.ConflictError)
    stored, is_new = await world.catalog.put(WHO, new, job.JobSpec(**{**_members(HOURLY), "priority": 8}))
    assert (stored.id, is_new) == (made.id, False)
    await world.catalog.delete(WHO, new)
    assert (await world.create(new)).id != made.id


async def test_one_database_is_served_by_the_plain_services(database_url: str) -> None:
    async with several.opened([database_url]) as databases:
        await databases.load()
        made = spread.over(databases, [HandClock()], [None], [NoPokes()], 16)
        assert type(made.catalog) is Catalog
        assert made.catalog is made.parts[0].catalog


async def test_what_is_gathered_while_a_shard_moves_is_gathered_again(world: World) -> None:
    known = parts.Parts(world.databases, spread.over(
        world.databases, [world.clock] * 2, [None, None], [NoPokes()] * 2, SHARDS).parts, SHARDS)  # fmt: skip
    asked: list[str] = []

    async def work(part: parts.Part) -> str:
        asked.append(part.name)
        if len(asked) == 1:
            async with part.database.connection() as connection:
                await connection.execute("UPDATE shards SET state = 'leaving' WHERE shard = 0")
        return part.name

    assert await known.everywhere(work) == ["a", "b"]
    assert asked == ["a", "b", "a", "b"]


def test_the_place_of_a_page_of_the_audit_holds_one_id_of_each_database() -> None:
    b = 1 << 46
    assert seen_of_each([], [9, b + 5, 8, b + 4]) == [8, b + 4]
    assert sorted(seen_of_each([8, b + 4], [7])) == [7, b + 4]


def test_a_shard_is_drawn_from_those_that_live(world: World) -> None:
    names = spread_names.Names(parts.Parts(world.databases, [], SHARDS))
    assert {names.drawn() for _ in range(200)} == set(range(SHARDS))
    assert spread_batch.NOWHERE < 0
    assert timedelta(0) < inspect._ENDED_EARLY
