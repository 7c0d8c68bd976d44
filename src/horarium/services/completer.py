"""Step 6 of a run's life: it ends. Out of `runs` into `history`; or back to waiting with a back-off; or a dead letter.

Results that arrive while a commit is under way share the next one. A report counts only under the token of the attempt: a late
one changes nothing and is told so. The reaper ends attempts through the same door.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg

from horarium import clock as clocks
from horarium.domain.outcome import Outcome
from horarium.domain.run import LiveRun
from horarium.events import Events, Name
from horarium.services import endings
from horarium.services.endings import NOTHING_PLAIN, Effects, Plain, Report, Taken
from horarium.services.leader import Leader
from horarium.store import dead_letters, run_logs, runs
from horarium.store.database import Database

COMMITS_AT_ONCE = 2
RESULTS_PER_COMMIT = 2_000

Ended = Callable[[Sequence[LiveRun], Name], None]


@dataclass(slots=True, eq=False)
class Request:
    """Reports that one caller waits for."""

    reports: Sequence[Report]
    logs: Sequence[run_logs.LogRow]
    plain: Plain
    answer: asyncio.Future[Taken]

    def answered(self, accepted: set[runs.Held], *, all_plain: bool) -> Taken:
        """Which of these reports counted; `all_plain`: every plain one did."""
        taken = Taken([], [])
        held = [report.held for report in self.reports]
        if all_plain:
            taken.accepted.extend(self.plain.ids)
        else:
            held += map(runs.Held, *self.plain)
        for each in held:
            (taken.accepted if each in accepted else taken.lost).append(each.id)
        return taken


class Completer:
    """Takes in how attempts ended."""

    def __init__(self, database: Database, leader: Leader, events: Events) -> None:
        self._database = database
        self._leader = leader
        self._events = events
        self._requests: list[Request] = []
        self._commits: set[asyncio.Task[None]] = set()
        self.on_ended: Ended = lambda ended, name: None

    async def report(
        self, reports: Sequence[Report], logs: Sequence[run_logs.LogRow] = (), plain: Plain = NOTHING_PLAIN
    ) -> Taken:
        """Take in reports; returns when they are durable. Raises UnavailableError when the database cannot be asked."""
        request = Request(reports, logs, plain, asyncio.get_running_loop().create_future())
        self._requests.append(request)
        self._commit_next()
        return await request.answer

    async def give_back(self, held: Sequence[tuple[UUID, int]]) -> None:
        """Runs whose lease never reached a worker: back to the front of their lane, without using an attempt."""
        await self.report([Report(run_id, token, Outcome.INTERRUPTED, by_leader=True) for run_id, token in held])

    async def refuse(self, held: Sequence[tuple[UUID, int]], reason: str) -> None:
        """Runs that no worker can take: dead letters with a reason (rule N2)."""
        error = {"class": "Refused", "message": reason}
        await self.report(
            [Report(run_id, token, Outcome.DISCARD, error=error, by_leader=True) for run_id, token in held]
        )

    async def strangers(self, run_ids: Sequence[UUID], tenant_id: str) -> set[UUID]:
        """Of these live runs the ones of other tenants, by their rows: for runs that this memory knows nothing of."""
        async with self._database.connection() as connection:
            return await runs.of_others(connection, run_ids, tenant_id)

    def under_way(self) -> list[asyncio.Future[Any]]:
        """What has been reported and is not durable yet."""
        return [*self._commits, *(request.answer for request in self._requests)]

    async def settle(self) -> None:
        """Wait for the commits that are under way."""
        while self._commits:
            await asyncio.gather(*self._commits, return_exceptions=True)

    def _commit_next(self) -> None:
        while self._requests and len(self._commits) < COMMITS_AT_ONCE:
            batch = self._next_batch()
            task = asyncio.create_task(self._commit(batch), name="complete")
            self._commits.add(task)
            task.add_done_callback(self._committed)

    def _next_batch(self) -> list[Request]:
        size = 0
        for count, request in enumerate(self._requests):
            size += len(request.reports) + len(request.plain.ids)
            if count and size > RESULTS_PER_COMMIT:
                break
        else:
            count = len(self._requests)
        batch, self._requests = self._requests[: max(1, count)], self._requests[max(1, count) :]
        return batch

    def _committed(self, task: asyncio.Task[None]) -> None:
        self._commits.discard(task)
        self._commit_next()

    async def _commit(self, batch: list[Request]) -> None:
        try:
            accepted, all_plain = await self._take_in(batch)
        except Exception as error:  # noqa: BLE001 - each caller is told; none is left waiting
            for request in batch:
                if not request.answer.done():
                    request.answer.set_exception(error)
            return
        for request in batch:
            if not request.answer.done():
                request.answer.set_result(request.answered(accepted, all_plain=all_plain))

    async def _take_in(self, batch: list[Request]) -> tuple[set[runs.Held], bool]:
        """Split by outcome: success is one statement, the others need a decision each.

        Returns what counted, and whether every plain success did; these are then not in the set.
        """
        # One report for each attempt: of two that name the same run and token the first one counts.
        reports = {report.held: report for request in reversed(batch) for report in reversed(request.reports)}
        good = [report for report in reports.values() if report.outcome is Outcome.SUCCEEDED]
        others = {held: report for held, report in reports.items() if report.outcome is not Outcome.SUCCEEDED}
        logs = [row for request in batch for row in request.logs]
        plain = _joined(batch)
        accepted: set[runs.Held] = set()
        late: list[runs.Held] = []
        ended = await self._succeed_plain(plain) if plain.ids else None
        if ended is not None:
            accepted |= ended
            late = [held for held in map(runs.Held, *plain) if held not in ended]
        if good:
            accepted.update(await self._succeed(good))
        if others:
            accepted.update(await self._decide(others))
        late += [held for held in reports if held not in accepted]
        if late or logs:
            accepted |= await self._look_again(late, logs)
        return accepted, ended is None

    async def _succeed_plain(self, plain: Plain) -> set[runs.Held] | None:
        """End runs that gave nothing back. None: all were held under their tokens, as they mostly are; else those that were."""
        async with self._database.connection() as connection:
            count = await runs.succeed_plain(connection, plain.ids, plain.tokens)
            all_ended = count == len(plain.ids)
            ended = None if all_ended else await runs.ended_under(connection, plain.ids, plain.tokens)
        self._forget(plain.ids if ended is None else [held.id for held in ended], Name.RUNS_SUCCEEDED)
        self._tell_succeeded(count)
        return ended

    async def _succeed(self, reports: list[Report]) -> list[runs.Held]:
        try:
            ended = await self._end_succeeded(reports)
        except (asyncpg.DataError, asyncpg.ProgramLimitExceededError):
            ended = [held for report in reports for held in await self._succeed_alone(report)]
        self._forget([held.id for held in ended], Name.RUNS_SUCCEEDED)
        self._tell_succeeded(len(ended))
        return ended

    def _tell_succeeded(self, count: int) -> None:
        if count:
            self._events.tell(Name.RUNS_SUCCEEDED, count=count)
            self._leader.on_ready()

    async def _end_succeeded(self, reports: Sequence[Report]) -> list[runs.Held]:
        ids = [report.run_id for report in reports]
        tokens = [report.token for report in reports]
        results = [report.result for report in reports]
        progress = [report.progress for report in reports]
        async with self._database.connection() as connection:
            return await runs.succeed(connection, ids, tokens, results, progress)

    async def _succeed_alone(self, report: Report) -> list[runs.Held]:
        """One result of a batch was refused by the database: each goes alone, and the one at fault without its result."""
        try:
            return await self._end_succeeded([report])
        except (asyncpg.DataError, asyncpg.ProgramLimitExceededError):
            return await self._end_succeeded([report._replace(result=None)])

    async def _decide(self, reports: dict[runs.Held, Report]) -> list[runs.Held]:
        """Fetch, decide, store, tell."""
        now = self._leader.clock.now()
        effects = Effects()
        by_leader = [report.by_leader for report in reports.values()]
        ids, tokens = [held.id for held in reports], [held.token for held in reports]
        async with self._database.transaction() as connection:
            rows = await runs.lock_held(connection, ids, tokens, by_leader, self._leader.named_terms())
            ended = [runs.Held(row["id"], row["fencing_token"]) for row in rows]
            for held, row in zip(ended, rows, strict=True):
                endings.decide(reports[held], row, now, effects)
            await runs.wait_again(connection, effects.waiting)
            await runs.finish(connection, effects.finished)
            await dead_letters.insert(connection, effects.letters)
        self._after(effects)
        return ended

    async def _look_again(self, late: list[runs.Held], logs: Sequence[run_logs.LogRow]) -> set[runs.Held]:
        """Repeats of a report that was taken in before are accepted again; logs are kept."""
        async with self._database.connection() as connection:
            await run_logs.insert(connection, logs)
            if not late:
                return set()
            repeats = await runs.already_reported(connection, late)
        refused = [held.id for held in late if held not in repeats]
        if refused:
            self._events.tell(Name.REPORTS_REFUSED, count=len(refused), run_ids=refused)
        return repeats

    def _after(self, effects: Effects) -> None:
        for row in effects.waiting:
            run = self._leader.ready.runs.get(row.id)
            if run is not None:
                self.on_ended([run], effects.told[row.id])
            at_front = row.id in effects.at_front
            self._leader.ready.wait_again(row.id, clocks.to_seconds(row.ready_at), row.attempt, at_front=at_front)
            self._leader.progress.pop(row.id, None)
        for finished in effects.finished:
            self._forget([finished.id], effects.told[finished.id])
        by_name: dict[Name, list[UUID]] = {}
        for run_id, name in effects.told.items():
            by_name.setdefault(name, []).append(run_id)
        for name, run_ids in by_name.items():
            self._events.tell(name, count=len(run_ids), run_ids=run_ids)
        self._leader.on_ready()

    def _forget(self, run_ids: Sequence[UUID], name: Name) -> None:
        leader = self._leader
        if leader.progress:
            for run_id in run_ids:
                leader.progress.pop(run_id, None)
        ended = leader.ready.all_gone(run_ids)
        if ended:
            self.on_ended(ended, name)


def _joined(batch: Sequence[Request]) -> Plain:
    """The plain successes of all requests."""
    if len(batch) == 1:
        return batch[0].plain
    joined = Plain([], [])
    for request in batch:
        joined.ids.extend(request.plain.ids)
        joined.tokens.extend(request.plain.tokens)
    return joined
