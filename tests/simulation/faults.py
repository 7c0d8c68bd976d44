"""Faults to plant, so that it is known what the simulation finds: some that it found once, and some that never were."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from horarium.domain import job
from horarium.domain.ready_set import ReadySet
from horarium.services import cluster, completer, dispatcher, edits, pausing, scheduler, sweeper
from horarium.services.leader import Leader
from horarium.services.reaper import Reaper
from horarium.store import past_schedules, runs, timers
from tests.simulation.model import answers, of_runs, of_shards, of_timers
from tests.simulation.model.rows import Fields
from tests.simulation.model.server import Transaction
from tests.simulation.story import Focus

Plant = Callable[[pytest.MonkeyPatch], None]


ANY = Focus()


@dataclass(frozen=True)
class Planted:
    """A fault: what it is, how it is put in, a seed that finds it, and what the story turns on where it is too rare otherwise."""

    what: str
    plant: Plant
    seed: int
    focus: Focus = ANY


def statement(text: str, statement: answers.Statement) -> Plant:
    """Another meaning of a statement: of the model, which `test_model` proves to be that of the SQL."""
    return lambda patch: patch.setitem(answers._KNOWN, text, statement)


def without_condition(text: str, carried_out: answers.Statement, spared: Callable[[Fields], Fields]) -> Plant:
    """The statement, which sees each row as `spared` shows it when it asks whether to write it."""

    async def blind(tx: Transaction, *values: Any) -> answers.Answer:
        matching = tx.matching

        async def seeing(table: str, keys: Any, condition: Any, **how: Any) -> list[Fields]:
            return await matching(table, keys, lambda row: condition(spared(row)), **how)

        tx.matching = seeing  # type: ignore[method-assign]
        try:
            return await carried_out(tx, *values)
        finally:
            del tx.matching

    return statement(text, blind)


# Found by the simulation, and put back.


def _leases_ahead(patch: pytest.MonkeyPatch) -> None:
    def holds(tx: Transaction, row: Fields, lease: timedelta) -> bool:
        return row["lease_expires_at"] is not None and tx.now < row["lease_expires_at"]

    patch.setattr(of_shards, "_holds", holds)


def _start_in_a_day(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dispatcher, "CLOCK_CORRECTION_S", 1e9)


def _followed_by_id(patch: pytest.MonkeyPatch) -> None:
    def looked(self: cluster.Cluster) -> None:
        followers: dict[Any, asyncio.Task[None]] = self._followers  # type: ignore[assignment]
        self.routes.refresh()
        self.switchboard.connect(self.routes.alone)
        self._release_early()
        leading = {} if self.board.closed else {peer.id: peer for peer in self.routes.leading_peers()}
        for peer_id in [peer_id for peer_id in followers if peer_id not in leading]:
            followers.pop(peer_id).cancel()
        for peer_id, peer in leading.items():
            if peer_id not in followers:
                followers[peer_id] = asyncio.get_running_loop().create_task(self._follow(peer))

    patch.setattr(cluster.Cluster, "_looked", looked)


def _long_pauses(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sweeper, "MOST_INTERVALS", 1e9)
    patch.setattr(scheduler, "SLOW_SCAN_AT_LEAST_EVERY_S", 1e9)


def _resumed_behind(patch: pytest.MonkeyPatch) -> None:
    async def now_is_enough(connection: Any, held: job.Job, now: datetime) -> datetime:
        return now

    patch.setattr(pausing, "_settled_ahead", now_is_enough)


def _a_forgetful_pause(patch: pytest.MonkeyPatch) -> None:
    account = pausing._account

    def forgetting(held: Any, stopped: list[datetime], now: datetime) -> Any:
        kept, lines = account(held, stopped, now)
        return kept, [] if job.is_one_off(held.job.spec) else lines

    patch.setattr(pausing, "_account", forgetting)


def _edited_in_a_pause(patch: pytest.MonkeyPatch) -> None:
    end = past_schedules.end

    async def not_ahead(connection: Any, changed: job.Job, now: datetime, handled: datetime | None = None) -> None:
        await end(connection, changed, now, None if changed.pause is not None else handled)

    patch.setattr(past_schedules, "end", not_ahead)


def _settled_again(patch: pytest.MonkeyPatch) -> None:
    original = edits._retime_paused

    async def from_now(connection: Any, old: job.Job, edited: job.Job, now: datetime) -> job.Job:
        made = await original(connection, old, edited, now)
        return made if made.pause is None else replace(made, pause=replace(made.pause, settled_until=now))

    patch.setattr(edits, "_retime_paused", from_now)


def _a_tick_again(patch: pytest.MonkeyPatch) -> None:
    class Forgetful:
        """History, as an edit saw it: nothing has ever ended."""

        @staticmethod
        async def final_state(connection: Any, tenant_id: str, run_id: UUID) -> None:
            return None

    patch.setattr(edits, "manual", Forgetful)


# Never there.


def _no_slow_scan(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scheduler, "SLOW_SCAN_S", 1e9)
    patch.setattr(scheduler, "SLOW_SCAN_AT_LEAST_EVERY_S", 1e9)


def _memory_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReadySet, "forget_shards", lambda self, shards: None)


def _never_swept(patch: pytest.MonkeyPatch) -> None:
    async def never(self: sweeper.Sweeper) -> float:
        return 3600.0

    patch.setattr(sweeper.Sweeper, "run_once", never)
    patch.setattr(sweeper.Sweeper, "refill_once", never)


def _never_reaped(patch: pytest.MonkeyPatch) -> None:
    async def never(self: Reaper, *_: Any) -> float:
        return 3600.0

    patch.setattr(Reaper, "run_once", never)
    patch.setattr(Reaper, "take_back", never)


def _told_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    take_in = completer.Completer._take_in

    async def hopeful(self: completer.Completer, batch: list[completer.Request]) -> Any:
        try:
            return await take_in(self, batch)
        except Exception:  # noqa: BLE001 - that is the fault
            return {report.held for request in batch for report in request.reports}, True

    patch.setattr(completer.Completer, "_take_in", hopeful)


def _led_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "drop_shards", lambda self, shards: None)


def _lost_ticks(patch: pytest.MonkeyPatch) -> None:
    insert = runs.insert

    async def but_one(connection: Any, rows: Sequence[runs.RunRow]) -> None:
        await insert(connection, rows[:3])

    patch.setattr(runs, "insert", but_one)


async def _end_under_any_token(tx: Transaction, ids: Sequence[UUID], tokens: Sequence[int]) -> answers.Answer:
    done = await tx.matching("runs", ids, lambda row: row["state"] == "running")
    for row in done:
        of_runs._end(tx, row, state="succeeded")
    return len(done)


async def _without_new_token(tx: Transaction, *columns: Sequence[Any]) -> answers.Answer:
    """What the leader ends keeps the token of the attempt, so that its worker's report counts all the same."""
    last = len(columns) - 1
    return await of_runs.wait_again(tx, *columns[:last], [False] * len(columns[0]))


async def _fired_and_not_moved(
    tx: Transaction,
    run_ids: Sequence[UUID],
    job_ids: Sequence[UUID],
    nominal: Sequence[datetime],
    following: Sequence[datetime],
) -> answers.Answer:
    await of_timers.fire(tx, run_ids, job_ids, nominal, following)
    for job_id, at in zip(job_ids, nominal, strict=True):
        row = tx.get("timers", job_id)
        if row is not None and tx.server.chance.happens(0.05):
            tx.put("timers", job_id, {**row, "scheduled_for": at, "due_at": at})
    return len(run_ids)


def _waiting(row: Fields) -> Fields:
    return {**row, "state": "waiting"}


STALLS = Focus(
    ("stall of the database", "crash of a node", "freeze of a node", "theft of a shard"), trouble_every_s=1.0
)
CLOCKS = Focus(("step of the database's clock",), trouble_every_s=4.0, people_every_s=0.2)
PEOPLE = Focus((), people_every_s=0.1)

FOUND = [
    Planted("a lease from before the clock was set back holds a shard", _leases_ahead, 1),
    Planted("a run that was ready before the clock was set back is begun hours later", _start_in_a_day, 627),
    Planted("a peer that was out of sight is not followed again", _followed_by_id, 63),
    Planted("a stalled database puts off sweeps and slow scans", _long_pauses, 17, STALLS),
    Planted("a resume runs ticks that were written down as skipped", _resumed_behind, 45, CLOCKS),
    Planted("an edit in a pause forgets ticks that were handled ahead", _edited_in_a_pause, 13, PEOPLE),
    Planted("a one-off at the very time of a tick that has ended is made again", _a_tick_again, 8, PEOPLE),
    Planted("a pause of a one-off forgets what waited of its schedule before", _a_forgetful_pause, 24, PEOPLE),
    Planted("a new schedule in a pause counts again what was accounted for ahead", _settled_again, 58, PEOPLE),
]
PLANTED = [
    Planted("claims ask for no state", without_condition(runs.SQL.claim, of_runs.claim, _waiting), 1),
    Planted("ends ask for no token", statement(runs.SQL.succeed_plain, _end_under_any_token), 142),
    Planted("an attempt that the leader ended keeps its token", statement(runs.SQL.wait_again, _without_new_token), 55),
    Planted("a fired timer stays where it was", statement(timers.SQL.fire, _fired_and_not_moved), 1),
    Planted("timers behind the cursor are never looked for", _no_slow_scan, 51),
    Planted("memory of lost shards is kept", _memory_is_kept, 30),
    Planted("a node that may not lead goes on", _led_for_ever, 0),
    Planted("nobody compares memory with rows", _never_swept, 3),
    Planted("nobody ends lapsed attempts", _never_reaped, 5),
    Planted("reports are acknowledged although they could not be written", _told_before_it_is_durable, 1),
    Planted("of many ticks three are made", _lost_ticks, 0),
]
