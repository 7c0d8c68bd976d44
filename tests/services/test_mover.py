"""A shard moves to another database: all of it, once, led once at most; and what is cut off is finished or undone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from horarium import errors
from horarium.domain import ids, job, sharding
from horarium.domain.moving import Step
from horarium.domain.placement import State
from horarium.services import mover
from horarium.services.catalog import Catalog
from horarium.services.mender import Mender
from horarium.services.mover import Mover
from horarium.services.pokes import NoPokes
from horarium.store import moving as rows
from horarium.store.databases import Databases
from tests import several
from tests.services.catalog_world import NOON, WHO, HandClock

SHARDS = 4
MOVED, OTHER, AT_B = 2, 0, 1
A, B = 0, 1

TABLES = (*rows.LIVE, "history")
# Counts stay where they were counted; pictures add them up.
STAY = {"shards", "rollups"}


RUN = """
INSERT INTO runs (id, job_id, scheduled_for, ready_at, job_version, shard, priority, tenant_id, queue, target_key, state,
                  fencing_token, lease_expires_at)
VALUES ($1, $2, now(), now(), 1, $3, 5, 'acme', 'q', 'h', 'running', nextval('fencing_tokens'), now() + '1 h'::interval)
"""
ENDED = """
INSERT INTO history (id, job_id, scheduled_for, ready_at, finished_at, fencing_token, job_version, shard, priority, attempt,
                     state, trigger, tenant_id, queue, target_key)
VALUES ($1, $2, now(), now(), now() - make_interval(mins => $4), 1, 1, $3, 5, 1, 'succeeded', 'schedule', 'acme', 'q', 'h')
"""
LINE = "INSERT INTO run_logs (run_id, at, seq, attempt, message) VALUES ($1, now(), 1, 1, 'm')"
SKIP = """
INSERT INTO skips (job_id, tenant_id, shard, first, last, count, reason) VALUES ($1, 'acme', $2, now(), now(), 1, 'quota')
"""
PAST = "INSERT INTO past_schedules (job_id, shard, valid_from, valid_until) VALUES ($1, $2, now(), now())"
LETTER = """
INSERT INTO dead_letters (run_id, job_id, tenant_id, queue, shard, fingerprint, attempts) VALUES ($1, $2, 'acme', 'q', $3, 'f', 1)
"""
KEY = "INSERT INTO idempotency_keys (tenant_id, key, shard, request_hash) VALUES ('acme', $1, $2, 'x')"
BORROWED = "INSERT INTO borrowed_names (tenant_id, name, shard, job_id) VALUES ('acme', $1, $2, $3)"


class CutOffError(Exception):
    """As if the mover was killed here."""


class Books:
    """Rows of two shards in database a, and what is where."""

    def __init__(self, databases: Databases) -> None:
        self.databases = databases

    async def fill(self) -> None:
        """Rows of two shards."""
        await self.add(MOVED)
        await self.add(OTHER)

    async def add(self, shard: int, ended_minutes_ago: Sequence[int] = (1, 100, 3000, 100_000)) -> UUID:
        """A job as the catalog makes it, and rows of it in every table that knows shards."""
        catalog = Catalog(self.databases.home, HandClock(), NoPokes(), SHARDS, lambda: [shard])
        made = await catalog.create(WHO, job.JobSpec(target={"handler": "h"}, schedule="0 * * * *"))
        await self._rows(made.id, shard, ended_minutes_ago)
        return made.id

    async def _rows(self, job_id: UUID, shard: int, ended_minutes_ago: Sequence[int]) -> None:
        run_id = uuid_in(shard)
        async with self.databases.home.connection() as connection:
            await connection.execute(RUN, run_id, job_id, shard)
            for minutes in ended_minutes_ago:
                await connection.execute(ENDED, uuid_in(shard), job_id, shard, minutes)
            await connection.execute(LINE, run_id)
            for statement in (SKIP, PAST):
                await connection.execute(statement, job_id, shard)
            await connection.execute(LETTER, run_id, job_id, shard)
            await connection.execute(KEY, str(job_id), shard)
            await connection.execute(BORROWED, str(job_id), shard, job_id)

    async def of(self, place: int, shard: int) -> dict[str, list[str]]:
        """Every row of a shard in a database, as text."""
        found = {}
        async with self.databases.all[place].connection() as connection:
            for table in TABLES:
                query = f"SELECT t::text FROM {table} t WHERE shard = $1 ORDER BY 1"
                found[table] = [row[0] for row in await connection.fetch(query, shard)]
            query = "SELECT t::text FROM run_logs t WHERE shard_of(run_id) = $1 ORDER BY 1"
            found["run_logs"] = [row[0] for row in await connection.fetch(query, shard)]
        return found

    async def state(self, place: int, shard: int = MOVED) -> State | None:
        async with self.databases.all[place].connection() as connection:
            standing = await rows.standing(connection, shard)
        return None if standing is None else standing.state

    async def execute(self, place: int, statement: str, *values: Any) -> Any:
        async with self.databases.all[place].connection() as connection:
            return await connection.fetchval(statement, *values)

    async def move(
        self, source: int = A, target: int = B, cut_off: str = "", told: mover.Told = lambda *_: None
    ) -> None:
        """Move; `cut_off` names a step, or a step with `+` for the moment before it is committed."""

        def tell(step: Step, detail: str) -> None:
            told(step, detail)
            if cut_off == f"{step}{'+' if detail else ''}":
                raise CutOffError

        await self.databases.reload()
        await Mover(self.databases, MOVED, source, target, f"mover:{uuid4()}", tell).run()

    async def let_leases_end(self) -> None:
        """The dead mover's lease has ended."""
        for place in (A, B):
            await self.execute(
                place, "UPDATE shards SET lease_expires_at = now() - '1 s'::interval WHERE state <> 'here'"
            )


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No leader has to learn anything here, and nobody has an old map."""
    monkeypatch.setattr(mover, "LEADER_LEARNS_S", 0)
    monkeypatch.setattr(mover, "GRACE_S", 0)


@pytest.fixture
async def books(database_urls: list[str]) -> AsyncIterator[Books]:
    async with several.joined(database_urls, SHARDS) as databases:
        made = Books(databases)
        await made.fill()
        yield made


def uuid_in(shard: int) -> UUID:
    """A new id of a shard."""
    return ids.fresh_id(shard, NOON, uuid4().int >> 80)


def before_the_pause(monkeypatch: pytest.MonkeyPatch, happening: Callable[[], Awaitable[None]]) -> None:
    """Let something happen when the shard has been copied ahead and works still."""
    pause = rows.pause

    async def delayed(*values: Any) -> bool:
        await happening()
        return await pause(*values)

    monkeypatch.setattr(rows, "pause", delayed)


def nothing(found: dict[str, list[str]]) -> bool:
    return not any(found.values())


async def test_everything_of_a_shard_moves_and_nothing_of_others(books: Books) -> None:
    moved, stays = await books.of(A, MOVED), await books.of(A, OTHER)
    assert all(moved.values())
    await books.move()
    assert await books.of(B, MOVED) == moved
    assert nothing(await books.of(A, MOVED))
    assert await books.of(A, OTHER) == stays
    assert (await books.state(A), await books.state(B)) == (State.GONE, State.HERE)
    assert await books.databases.reload()
    assert books.databases.of(MOVED) is books.databases.all[B]
    await books.databases.load()


async def test_a_shard_moves_back(books: Books) -> None:
    moved = await books.of(A, MOVED)
    await books.move()
    await books.move(B, A)
    assert await books.of(A, MOVED) == moved
    assert nothing(await books.of(B, MOVED))
    assert await books.execute(A, "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'fence%'") == 0
    await books.execute(A, "UPDATE runs SET priority = 6 WHERE shard = $1", MOVED)


UPDATES = {
    "jobs": ("priority = 1", "id"),
    "timers": ("priority = 1", "job_id"),
    "runs": ("priority = 1", "job_id"),
    "dead_letters": ("attempts = 9", "job_id"),
    "skips": ("count = 9", "job_id"),
    "idempotency_keys": ("status = 201", "key"),
}


async def test_what_changes_after_a_copy_ahead_follows_in_the_pause(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each table rows are written, changed and taken away before the pause; the copy of the pause is those rows only."""
    same, changed, gone = [await books.add(MOVED) for _ in range(3)]
    at_pause: dict[str, list[str]] = {}
    told: list[str] = []

    async def meanwhile() -> None:
        assert len((await books.of(B, MOVED))["jobs"]) == 4
        await books.add(MOVED, ended_minutes_ago=[1])
        for table, (change, key) in UPDATES.items():
            await books.execute(A, f"UPDATE {table} SET {change} WHERE {key}::text = $1", str(changed))
            await books.execute(A, f"DELETE FROM {table} WHERE {key}::text = $1", str(gone))
            await books.execute(A, f"VACUUM (FREEZE) {table}")  # a frozen row keeps the number of who wrote it
        at_pause.update(await books.of(A, MOVED))

    before_the_pause(monkeypatch, meanwhile)
    await books.move(told=lambda step, detail: told.append(f"{step} {detail}"))
    assert await books.of(B, MOVED) == at_pause
    assert any(str(same) in row for row in at_pause["jobs"]) and not any(str(gone) in row for row in at_pause["jobs"])
    assert nothing(await books.of(A, MOVED))
    (copied,) = [line for line in told if line.startswith("copy ") and "," in line]
    for table in UPDATES:
        assert f" 2 {table}" in copied, copied


async def test_a_copy_that_lacks_something_is_made_anew(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever becomes of the copy before the pause, the rows that count are those of the source."""
    before = await books.of(A, MOVED)

    async def meanwhile() -> None:
        for table in UPDATES:
            await books.execute(B, f"DELETE FROM {table} WHERE shard = $1", MOVED)

    before_the_pause(monkeypatch, meanwhile)
    await books.move()
    assert await books.of(B, MOVED) == before


async def test_a_name_given_up_during_a_move_can_be_taken_in_the_other_database(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job bears a name that belongs to a shard of the target, gives it up, and a job there takes it before the pause."""
    given_up, kept = [
        each for each in map(str, range(99)) if sharding.shard_of_name(WHO.tenant_id, each, SHARDS) == AT_B
    ][:2]
    for name in (given_up, kept):
        bearer = await books.add(MOVED)
        await books.execute(A, "UPDATE jobs SET name = $2 WHERE id = $1", bearer, name)
        await books.execute(B, BORROWED, name, AT_B, bearer)
    told: list[str] = []

    async def meanwhile() -> None:
        await books.execute(A, "UPDATE jobs SET name = 'new' WHERE name = $1", given_up)
        catalog = Catalog(books.databases.all[B], HandClock(), NoPokes(), SHARDS, lambda: [AT_B])
        await catalog.create(WHO, job.JobSpec(target={"handler": "h"}, schedule="0 * * * *", name=given_up))

    before_the_pause(monkeypatch, meanwhile)
    await books.move(told=lambda step, detail: told.append(f"{step} {detail}"))
    assert [line for line in told if line.startswith("copy 2 jobs, ")], "the one that was renamed, and the one left out"
    names = "SELECT array_agg(name ORDER BY name) FROM jobs WHERE name IS NOT NULL AND shard = $1"
    assert await books.execute(B, names, MOVED) == [kept, "new"]
    assert await books.execute(B, names, AT_B) == [given_up]
    assert await books.execute(A, names, MOVED) is None


async def test_terms_and_tokens_rise_across_a_move(books: Books) -> None:
    await books.execute(A, "UPDATE shards SET term = 41 WHERE shard = $1", MOVED)
    await books.execute(A, "SELECT setval('fencing_tokens', 900)")
    await books.move()
    assert await books.execute(B, "SELECT term FROM shards WHERE shard = $1", MOVED) > 42
    assert await books.execute(B, "SELECT nextval('fencing_tokens')") > 900
    before = await books.execute(B, "SELECT nextval('fencing_tokens')")
    await books.move(B, A)
    assert await books.execute(A, "SELECT nextval('fencing_tokens')") > before


async def test_what_is_written_where_the_shard_was_is_refused(books: Books) -> None:
    await books.move()
    for statement, values in ((KEY, ("late", MOVED)), (LINE, (ids.fresh_id(MOVED, NOON, 99),))):
        with pytest.raises(errors.ShardMovedError):
            await books.execute(A, statement, *values)


async def test_every_table_that_knows_shards_is_moved(books: Books) -> None:
    async with books.databases.home.connection() as connection:
        query = """
            SELECT table_name FROM information_schema.columns JOIN pg_class ON oid = format('horarium.%I', table_name)::regclass
            WHERE table_schema = 'horarium' AND column_name = 'shard' AND NOT relispartition
        """
        known = {row[0] for row in await connection.fetch(query)}
    assert known - STAY == set(TABLES)


STEPS = ["prepare", "history", "history+", "ahead", "ahead+", "pause", "copy", "copy+", "leave", "arrive", "clear"]


@pytest.mark.parametrize("step", STEPS)
async def test_the_same_call_finishes_what_was_cut_off(books: Books, step: str) -> None:
    moved = await books.of(A, MOVED)
    with pytest.raises(CutOffError):
        await books.move(cut_off=step)
    states = [await books.state(A), await books.state(B)]
    assert states.count(State.HERE) <= 1
    await books.let_leases_end()
    await books.move()
    assert await books.of(B, MOVED) == moved
    assert nothing(await books.of(A, MOVED))


@pytest.mark.parametrize("step", STEPS)
async def test_the_nodes_end_the_pause_of_a_mover_that_died(books: Books, step: str) -> None:
    moved = await books.of(A, MOVED)
    with pytest.raises(CutOffError):
        await books.move(cut_off=step)
    await books.let_leases_end()
    await Mender(books.databases, "node").run_once()
    states = [await books.state(A), await books.state(B)]
    assert states.count(State.HERE) == 1
    home = states.index(State.HERE)
    assert home == (B if step in {"leave", "arrive", "clear"} else A)
    at_home = await books.of(home, MOVED)
    del moved["run_logs"], at_home["run_logs"]  # those follow when the source is cleared
    assert at_home == moved
    await books.execute(home, "UPDATE runs SET priority = 6 WHERE shard = $1", MOVED)


async def test_a_mover_that_lives_is_left_alone(books: Books) -> None:
    with pytest.raises(CutOffError):
        await books.move(cut_off="copy")
    await Mender(books.databases, "node").run_once()
    assert await books.state(A) is State.LEAVING
    with pytest.raises(errors.ConflictError, match="by somebody else right now"):
        await books.move()


async def test_a_mover_that_was_taken_for_dead_changes_nothing(books: Books) -> None:
    moved = await books.of(A, MOVED)

    def freeze(step: Step, detail: str) -> None:
        if step is Step.LEAVE:
            raise CutOffError

    frozen = Mover(books.databases, MOVED, A, B, "mover:frozen", freeze)
    with pytest.raises(CutOffError):
        await frozen.run()
    await books.let_leases_end()
    # As if the copy had not arrived when the node looked: it undoes the pause.
    await books.execute(B, "UPDATE shards SET state = 'arriving' WHERE shard = $1", MOVED)
    await Mender(books.databases, "node").run_once()
    await books.execute(B, "UPDATE shards SET state = 'arrived' WHERE shard = $1", MOVED)
    thawed = Mover(books.databases, MOVED, A, B, "mover:frozen")
    for go_on in (thawed._copy, thawed._leave):
        with pytest.raises(errors.ConflictError, match="somebody else"):
            await go_on()
    assert await books.state(A) is State.HERE
    assert await books.of(A, MOVED) == moved
    await books.execute(A, "UPDATE runs SET priority = 6 WHERE shard = $1", MOVED)
    moved = await books.of(A, MOVED)
    await books.let_leases_end()
    await books.move()
    assert await books.of(B, MOVED) == moved


async def test_where_a_move_leads_is_checked(books: Books) -> None:
    databases = books.databases
    assert mover.route(databases, MOVED, "b") == (A, B)
    assert mover.route(databases, MOVED, "a") is None
    with pytest.raises(errors.NotFoundError, match="there is no database 'c'; there are a, b"):
        mover.route(databases, MOVED, "c")
    with pytest.raises(errors.NotFoundError, match="there is no shard 9"):
        mover.route(databases, 9, "b")
