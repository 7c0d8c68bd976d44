"""The model against PostgreSQL: random calls of the store give the same answers and the same rows on both.

What the simulation proves, it proves of the real SQL because of this file. Not compared is what is only written down and orders
nothing: figures, workers, log lines, the audit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from horarium.domain import firing, ids, job, schedule
from horarium.domain.states import JobStatus
from horarium.store import dead_letters, jobs, manual, one_offs, past_schedules, runs, shards, skips, timers
from horarium.store.shards import NodeRow
from horarium.store.timers import Terms
from tests.simulation.both import BASE, LEASE, SHARDS, Both, ModelSide, Tokens
from tests.simulation.chance import Chance

SEEDS = 6
STEPS = 120


class Player:
    """Chooses calls. What exists is remembered here, so that both sides are asked the same."""

    def __init__(self, both: Both, chance: Chance) -> None:
        self.both = both
        self.chance = chance
        self.jobs: list[job.Job] = []
        self.runs: list[UUID] = []
        self.terms = dict.fromkeys(range(SHARDS), 1)
        self._number = 0

    async def begin(self) -> None:
        """One node leads all shards under the first term."""
        await self.both.call("take", lambda c, t: shards.take(c, "a", LEASE, SHARDS))

    def at(self) -> Any:
        """A moment that no other row has."""
        self._number += 1
        return BASE + timedelta(seconds=self.chance.integer(-20, 20), microseconds=self._number)

    def some(self, known: list[Any], most: int = 4) -> list[Any]:
        return self.chance.in_some_order(known)[: self.chance.integer(1, most)]

    def led(self) -> Terms:
        """The terms as they are; now and then one of them is old."""
        terms = dict(self.terms)
        if self.chance.happens(0.2):
            terms[self.chance.integer(0, SHARDS - 1)] = 0
        return Terms([*terms], [*terms.values()])

    def place(self) -> int:
        """Which of a run's tokens is named: mostly the last, else an old one or one that never was."""
        return self.chance.one_of((-1, -1, -1, -2, 0, 7))

    async def step(self) -> None:
        """One call."""
        if not self.jobs or self.chance.happens(0.1):
            await self._make_job()
            return
        await self.chance.one_of(MOVES)(self)

    async def _make_job(self) -> None:
        shard = self.chance.integer(0, 3)
        once = self.chance.happens(0.3)
        spec = job.JobSpec(
            {"handler": "work"},
            name=f"n{self.chance.integer(0, 30)}" if not once else None,
            run_at=self.at() if once else None,
            interval_s=None if once else 5,
            overlap=self.chance.one_of(["allow", "skip"]),  # type: ignore[arg-type]
            payload='{"n":1}',
        )
        made = job.Job(
            ids.fresh_id(shard, BASE, self.chance.bits(64)), shard, "default", spec, BASE, BASE, "", BASE, ""
        )
        many = self.chance.happens(0.3)
        told = await self.both.call(
            "jobs.insert", lambda c, t: jobs.insert_many(c, [made]) if many else jobs.insert(c, made)
        )
        if not told:
            return
        self.jobs.append(made)
        nominal = self.at()
        row = timers.TimerRow(
            made.id, shard, nominal, nominal, self.chance.one_of((None, nominal)), 5, 1, "default", "default", "work",
            schedule.encode(job.schedule_of(spec, BASE)), "", self.chance.one_of(("", "2025a")),
        )  # fmt: skip
        await self.both.call("timers.upsert", lambda c, t: timers.upsert(c, [row]))

    async def enqueue(self) -> None:
        """One-offs in one statement: due at once or later, nameless or with a name that may be borne already."""
        chosen = [self._one_off() for _ in range(self.chance.integer(1, 4))]
        rows = [*{row.name or row.id: row for row in chosen}.values()]
        told = await self.both.call("insert_one_offs", lambda c, t: one_offs.insert(c, rows, BASE))
        for row in rows:
            if row.id in told:
                spec = job.JobSpec({"handler": "work"}, name=row.name, run_at=row.run_at)
                made = job.Job(row.id, row.shard, "default", spec, BASE, BASE, "ana", BASE, "ana")
                self.jobs.append(made)
                self.runs += [row.run_id] if row.run_id else []

    def _one_off(self) -> one_offs.OneOff:
        shard, at = self.chance.integer(0, 3), self.at()
        job_id = ids.fresh_id(shard, BASE, self.chance.bits(64))
        name = self.chance.one_of((None, None, f"n{self.chance.integer(0, 30)}"))
        run_id = self.chance.one_of((None, ids.tick_run_id(job_id, shard, at)))
        key = "" if run_id else schedule.encode(schedule.Schedule(schedule.Once(at)))
        return one_offs.OneOff(
            job_id, shard, "default", "ana", name, '{"n": 2}', at, '{"handler": "work"}', "default", 5, 300, "{}", "work",
            run_id, key, None, "r1", "{}",
        )  # fmt: skip

    def tick(self, each: job.Job, **own: Any) -> runs.RunRow:
        at = self.at()
        row = runs.RunRow(
            ids.tick_run_id(each.id, each.shard, at), each.id, each.shard, "default", "default", "work", 5, at, at, 1,
            self.chance.one_of(("schedule", "schedule", "manual")),
        )  # fmt: skip
        self.runs.append(row.id)
        return row._replace(**own)

    async def insert_runs(self) -> None:
        rows = [self.tick(each) for each in self.some(self.jobs)]
        rows += [self.tick(each, payload='{"own": 2}', timeout_s=7) for each in self.some(self.jobs, 2)]
        await self.both.call("runs.insert", lambda c, t: runs.insert(c, [*rows, rows[0]]))

    async def claim(self) -> None:
        chosen, led = self.some(self.runs), self.led()
        workers = [self.chance.one_of(("w1", "w2")) for _ in chosen]
        await self.both.call("claim", lambda c, t: _claimed(c, chosen, workers, led))

    def held(self) -> tuple[list[UUID], Callable[[Tokens], list[int]]]:
        chosen = self.some(self.runs)
        places = [self.place() for _ in chosen]
        return chosen, lambda t: [t.of(run_id, place) for run_id, place in zip(chosen, places, strict=True)]

    async def succeed(self) -> None:
        chosen, tokens = self.held()
        empty: list[Any] = [None] * len(chosen)
        results = ['{"ok": 1}', *empty[1:]]
        await self.both.call("succeed", lambda c, t: runs.succeed(c, chosen, tokens(t), results, empty))

    async def succeed_plain(self) -> None:
        chosen, tokens = self.held()
        await self.both.call("succeed_plain", lambda c, t: runs.succeed_plain(c, chosen, tokens(t)))
        await self.both.call("ended_under", lambda c, t: runs.ended_under(c, chosen, tokens(t)))

    async def decide(self) -> None:
        """As the completer: hold, then back to waiting or to an end."""
        chosen, tokens = self.held()
        by_leader, led, ends = self.chance.happens(0.5), self.led(), self.chance.happens(0.5)
        ready_at = self.at()

        async def decided(c: Any, t: Tokens) -> Any:
            async with c.transaction():
                rows = await runs.lock_held(c, chosen, tokens(t), [by_leader] * len(chosen), led)
                again = [
                    runs.WaitAgain(row["id"], row["fencing_token"], ready_at, row["attempt"], 1, "[1]", by_leader)
                    for row in rows
                ]
                end = [
                    runs.Finish(row["id"], row["fencing_token"], "dead", "no", "[2]", None, row["attempt"], by_leader)
                    for row in rows
                ]
                await (runs.finish(c, end) if ends else runs.wait_again(c, again))
                if ends:
                    letters = [
                        dead_letters.DeadLetter(
                            row["id"], row["job_id"], "default", "default", row["shard"], "f", "no", 1
                        )
                        for row in rows
                    ]
                    await dead_letters.insert(c, letters)
            return [{**row, "cancel_requested_by": row["cancel_requested_by"]} for row in map(dict, rows)]

        await self.both.call("decide", decided)

    async def repeat(self) -> None:
        chosen, tokens = self.held()
        await self.both.call(
            "already_reported",
            lambda c, t: runs.already_reported(c, [runs.Held(*each) for each in zip(chosen, tokens(t), strict=True)]),
        )

    async def end_waiting(self) -> None:
        chosen = self.some(self.runs, 2)
        await self.both.call("end_waiting", lambda c, t: runs.end_waiting(c, chosen, "cancelled", "cancelled by ana"))

    async def drop_waiting(self) -> None:
        chosen, led = self.some(self.runs, 2), self.led()
        await self.both.call("drop_waiting", lambda c, t: runs.drop_waiting(c, chosen, led))

    async def retract(self) -> None:
        chosen, after = self.some([each.id for each in self.jobs], 2), self.chance.one_of((None, BASE))
        await self.both.call("retract", lambda c, t: runs.retract(c, chosen, after))
        await self.both.call("retract_ticks", lambda c, t: jobs.retract_ticks(c, self.runs[:3]))

    async def request_cancel(self) -> None:
        chosen = self.some(self.runs)
        await self.both.call("request_cancel", lambda c, t: runs.request_cancel(c, chosen, "ana"))

    async def look(self) -> None:
        each, chosen = self.chance.one_of(self.jobs), self.some(self.runs) if self.runs else []
        after, limit = UUID(int=0), 1000
        await self.both.call("load", lambda c, t: runs.load(c, [0, 1, 2], after, limit))
        crowded = [(each.spec.queue, each.tenant_id)]
        await self.both.call("load", lambda c, t: runs.load(c, [0, 1, 2], after, limit, crowded))
        await self.both.call("load_begun", lambda c, t: runs.load_begun(c, [0, 1, 2]))
        await self.both.call("load_of_job", lambda c, t: runs.load_of_job(c, each.id))
        await self.both.call("load_by_id", lambda c, t: runs.load_by_id(c, chosen))
        await self.both.call("of_others", lambda c, t: runs.of_others(c, chosen, "someone"))
        await self.both.call("of_job", lambda c, t: _only(runs.of_job(c, each.id), "id", "state", "attempt"))
        await self.both.call("handled_ahead", lambda c, t: jobs.handled_ahead(c, each.id, BASE))
        await self.both.call("find", lambda c, t: _version(jobs.find(c, "default", each.id)))
        await self.both.call("letters", lambda c, t: _pairs(dead_letters.count(c)))

    async def look_at_one(self) -> None:
        run_id = self.chance.one_of(self.runs) if self.runs else UUID(int=1)
        await self.both.call("find_finished", lambda c, t: _listed(manual.find_finished(c, "default", run_id)))
        await self.both.call("final_state", lambda c, t: manual.final_state(c, "default", run_id))
        await self.both.call("is_live", lambda c, t: manual.is_live(c, "default", run_id))
        await self.both.call("lock_live", lambda c, t: _listed(manual.lock_live(c, "default", run_id)))
        if self.chance.happens(0.1):
            await self.both.call("close", lambda c, t: manual.close_dead_letter(c, run_id))

    async def refresh(self) -> None:
        chosen, tokens = self.held()
        await self.both.call("refresh_leases", lambda c, t: runs.refresh_leases(c, chosen, tokens(t), LEASE))

    async def fire(self) -> None:
        """As the scheduler: take due timers, fire some, move others."""
        led, limit = self.led(), self.chance.one_of((1, 100))
        cursors = dict.fromkeys(range(4), BASE - timedelta(seconds=self.chance.integer(-5, 30)))
        following, moves = self.at(), self.chance.happens(0.5)

        async def fired(c: Any, t: Tokens) -> Any:
            async with c.transaction():
                due = await timers.select_due(c, cursors, limit, BASE + timedelta(seconds=10), led)
                due = sorted(due)
                half = len(due) if moves else 0
                run_ids = [ids.tick_run_id(row.job_id, row.shard, row.scheduled_for) for row in due[half:]]
                nominal = [row.scheduled_for for row in due[half:]]
                then = [following + timedelta(microseconds=place) for place in range(len(due))]
                await timers.fire(c, run_ids, [row.job_id for row in due[half:]], nominal, then[half:])
                moved = [
                    timers.Move(row.job_id, row.scheduled_for, at, at, row.scheduled_for)
                    for row, at in zip(due[:half], then[:half], strict=True)
                ]
                await timers.move(c, moved)
            return due

        found = await self.both.call("fire", fired)
        self.runs += [] if moves else [
            ids.tick_run_id(row["job_id"], row["shard"], row["scheduled_for"]) for row in found
        ]  # fmt: skip

    async def move_of_old(self) -> None:
        """Compare-and-set: a timer that is not where it was thought to be."""
        each, at = self.chance.one_of(self.jobs), self.at()
        await self.both.call("move", lambda c, t: timers.move(c, [timers.Move(each.id, BASE, at, at, BASE)]))
        run_id = ids.tick_run_id(each.id, each.shard, BASE)
        await self.both.call("fire old", lambda c, t: timers.fire(c, [run_id], [each.id], [BASE], [at]))

    async def timers_by_hand(self) -> None:
        each, at = self.chance.one_of(self.jobs), self.at()
        await self.both.call("timers.lock", lambda c, t: _listed_values(timers.lock(c, [each.id])))
        await self.both.call(
            "handled", lambda c, t: timers.select_handled_ahead(c, [0, 1, 2, 3], BASE, UUID(int=0), 99)
        )
        await self.both.call(
            "zones", lambda c, t: timers.select_other_zone_version(c, [0, 1, 2, 3], "2026a", UUID(int=0), 99)
        )
        await self.both.call("overdue", lambda c, t: timers.count_overdue(c, [0, 1, 2, 3], BASE, 3))
        if self.chance.happens(0.3):
            await self.both.call("rearm", lambda c, t: timers.rearm(c, {each.id: firing.Tick(at, at)}))
        if self.chance.happens(0.2):
            await self.both.call("delete", lambda c, t: timers.delete(c, [each.id]))

    async def end_jobs(self) -> None:
        chosen = [each.id for each in self.some(self.jobs, 2)]
        if self.chance.happens(0.5):
            await self.both.call("finish_jobs", lambda c, t: timers.finish_jobs(c, chosen))
        else:
            await self.both.call("fail_jobs", lambda c, t: timers.fail_jobs(c, dict.fromkeys(chosen, "odd")))

    async def edit(self) -> None:
        """As the catalog: hold a job and change it; or with a version that it no longer has."""
        each, at = self.chance.one_of(self.jobs), self.at()
        pause = job.Pause(BASE, "ana", until=at) if self.chance.happens(0.5) else None
        status = JobStatus.PAUSED if pause else JobStatus.ACTIVE
        old = self.chance.happens(0.2)

        async def edited(c: Any, t: Tokens) -> Any:
            async with c.transaction():
                found = await jobs.lock(c, "default", each.id)
                if found is None:
                    return None
                await runs.snapshot(c, each.id, BASE)
                changed = dataclasses.replace(
                    found, version=found.version + (0 if old else 1), status=status, pause=pause, updated_by="ana"
                )
                await jobs.update(c, changed)
                await jobs.refresh_ticks_ahead(c, changed, BASE)
            return [found.version, found.status]

        await self.both.call("edit", edited)
        await self.both.call("lapsed", lambda c, t: jobs.lapsed_pauses(c, BASE + timedelta(seconds=5), 100))
        await self.both.call("next_lapse", lambda c, t: jobs.next_lapse(c, BASE + timedelta(seconds=5)))

    async def delete_job(self) -> None:
        each = self.chance.one_of(self.jobs)
        if self.chance.happens(0.3):
            await self.both.call("mark_deleted", lambda c, t: jobs.mark_deleted(c, each.id, "why", BASE, "ana"))
        name = each.spec.name or "none"
        await self.both.call("id_of_name", lambda c, t: jobs.id_of_name(c, "default", name))

    async def write_down(self) -> None:
        each, first, last = self.chance.one_of(self.jobs), BASE, BASE + timedelta(seconds=5)
        row = skips.SkipRow(each.id, "default", each.shard, first, last, 2, True, "paused")
        await self.both.call("skips", lambda c, t: skips.insert(c, [row, row._replace(reason="overlap")]))
        await self.both.call("over", lambda c, t: skips.over(c, each.id, first))
        if self.chance.happens(0.5):
            await self.both.call("take_back", lambda c, t: jobs.take_back_skip(c, each.id, [first, last]))
        await self.both.call("end", lambda c, t: past_schedules.end(c, each, self.jobs[0].created_at))
        open_times = [past_schedules.Unknown(each.id, each.shard, first, last)]
        await self.both.call("leave_open", lambda c, t: past_schedules.leave_open(c, open_times))

    async def lead(self) -> None:
        """Terms rise; nodes come and go."""
        node = self.chance.one_of(("a", "b"))
        terms = {shard: self.terms[shard] for shard in self.some([*self.terms], 3)}
        await self.both.call("renew", lambda c, t: shards.renew(c, terms, node, LEASE))
        if self.chance.happens(0.4):
            await self.both.call("release", lambda c, t: shards.release(c, terms, node))
        taken = await self.both.call("take", lambda c, t: _pairs(shards.take(c, node, LEASE, 2)))
        self.terms |= dict(taken)
        await self.both.call("beat", lambda c, t: shards.beat(c, NodeRow(node, None, "1", "h", 1)))
        await self.both.call("live", lambda c, t: shards.live_nodes(c, LEASE))
        await self.both.call("all", lambda c, t: shards.all_shards(c, LEASE))
        if self.chance.happens(0.2):
            await self.both.call("remove", lambda c, t: shards.remove_node(c, node))


MOVES: list[Callable[[Player], Any]] = [
    Player.insert_runs, Player.insert_runs, Player.claim, Player.claim, Player.claim, Player.succeed, Player.succeed_plain,
    Player.decide, Player.decide, Player.repeat, Player.end_waiting, Player.drop_waiting, Player.retract,
    Player.request_cancel, Player.look, Player.look_at_one, Player.refresh, Player.fire, Player.fire, Player.move_of_old,
    Player.timers_by_hand, Player.enqueue, Player.end_jobs, Player.edit, Player.delete_job, Player.write_down, Player.lead,
]  # fmt: skip


async def _claimed(c: Any, chosen: list[UUID], workers: list[str], led: Terms) -> Any:
    rows = await runs.claim(c, chosen, workers, LEASE, led)
    return [dict(zip(("id", "token", "attempt", "timeout_s", "at", "by", "name"), row, strict=False)) for row in rows]


async def _only(rows: Any, *names: str) -> Any:
    return [{name: row[name] for name in names} for row in await rows]


async def _version(found: Any) -> Any:
    each = await found
    return None if each is None else [each.version, each.status, each.spec]


async def _pairs(found: Any) -> Any:
    return [*(await found).items()]


async def _listed(found: Any) -> Any:
    return [await found]


async def _listed_values(found: Any) -> Any:
    return [*(await found).values()]


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_the_same_calls_have_the_same_answers_and_leave_the_same_rows(
    postgres: asyncpg.Connection, seed: int
) -> None:
    both = Both(postgres, seed)
    player = Player(both, Chance(seed))
    await player.begin()
    for step in range(STEPS):
        if player.jobs and not player.runs:
            await player.insert_runs()
        await player.step()
        if step % 10 == 0:
            await both.same_rows()
    await both.same_rows()


async def test_a_statement_that_the_model_does_not_know_is_an_error() -> None:
    with pytest.raises(NotImplementedError, match="does not know the statement 'SELECT 1'"):
        await ModelSide(0).connection.fetch("SELECT 1")
