"""What people look at, over several databases: single things where they live, lists from all and merged."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from horarium.domain import ids, job
from horarium.domain.placement import State
from horarium.services import inspector, parts, views
from horarium.services.inspector import LOGS_SHOWN
from horarium.services.parts import Gathered
from horarium.services.spread_catalog import SpreadCatalog
from horarium.store import audit, inspect

# Ids of audit entries tell their database: see `number_ids` in the store.
_NUMBER_BITS = 46


class SpreadInspector:
    """As `Inspector`, over all databases. Lists have `missing`: the databases that could not be asked."""

    def __init__(self, known: parts.Parts, catalog: SpreadCatalog) -> None:
        self._parts = known
        self._catalog = catalog

    async def runs(
        self, who: job.Actor, wanted: inspect.RunFilter, before: UUID | None, limit: int
    ) -> Sequence[views.RunSummary]:
        """Runs by id, newest first: live and finished ones together."""
        if wanted.job_id is not None:
            return await self._parts.at_id(wanted.job_id, lambda part: part.inspector.runs(who, wanted, before, limit))
        found = await self._parts.everywhere(lambda part: part.inspector.runs(who, wanted, before, limit))
        return Gathered(parts.newest_first(found, lambda run: run.id, limit), found.missing)

    async def run(self, who: job.Actor, run_id: UUID) -> views.RunDetail:
        """One run with its attempts and its last log lines."""
        found = await self._parts.at_id(run_id, lambda part: part.inspector.run(who, run_id))
        if self._remains(run_id):
            start = inspect.LogPosition(0, -1)
            found.logs[:] = (await self.logs(run_id, start, LOGS_SHOWN))[-LOGS_SHOWN:]
        return found

    async def state(self, who: job.Actor, run_id: UUID) -> str:
        """The state of a run."""
        return await self._parts.at_id(run_id, lambda part: part.inspector.state(who, run_id))

    async def logs(self, run_id: UUID, after: inspect.LogPosition, limit: int) -> list[views.LogLine]:
        """Log lines of a run after a position. While a move is not cleared away some stand in the former database still."""
        lines = await self._parts.at_id(run_id, lambda part: part.inspector.logs(run_id, after, limit))
        merged = {(line.attempt, line.seq): line for line in lines}
        for place in self._remains(run_id):
            left = await self._parts.all[place].inspector.logs(run_id, after, limit)
            merged |= {(line.attempt, line.seq): line for line in left}
        return [merged[each] for each in sorted(merged)][:limit]

    async def job_id(self, who: job.Actor, ref: UUID | str) -> UUID:
        """The id of the job that a reference means."""
        return await self._catalog.by(who, ref, lambda part, found: part.inspector.job_id(who, found))

    async def queues(self, who: job.Actor) -> Gathered[views.Queue]:
        """The queues of all databases, by name."""
        found = await self._parts.everywhere(lambda part: part.inspector.depths(who))
        return Gathered(inspector.queues_of(found), found.missing)

    async def workers(self, who: job.Actor, after: str | None, limit: int) -> Gathered[views.Worker]:
        """The workers that were heard of in the last hour, by id; one that several databases know as it was seen last."""
        found = await self._parts.everywhere(lambda part: part.inspector.workers(who, after, limit))
        latest: dict[str, views.Worker] = {}
        for worker in (worker for each in found for worker in each):
            known = latest.get(worker.id)
            if known is None or known.last_seen_at < worker.last_seen_at:
                latest[worker.id] = worker
        return Gathered([latest[name] for name in sorted(latest)][:limit], found.missing)

    async def dead_letters(
        self, who: job.Actor, wanted: inspect.DeadFilter, before: UUID | None, limit: int
    ) -> Gathered[views.DeadLetter]:
        """Dead letters, the newest run first."""
        found = await self._parts.everywhere(lambda part: part.inspector.dead_letters(who, wanted, before, limit))
        return Gathered(parts.newest_first(found, lambda letter: letter.run_id, limit), found.missing)

    async def dead_letter_groups(
        self, who: job.Actor, wanted: inspect.DeadFilter, limit: int
    ) -> Gathered[views.DeadLetterGroup]:
        """Dead letters by error and job, the largest group first. A job is in one database, and so is its group."""
        found = await self._parts.everywhere(lambda part: part.inspector.dead_letter_groups(who, wanted, limit))
        by_group = {(group.fingerprint, group.job_id): group for each in found for group in each}
        largest = sorted(by_group.values(), key=lambda group: (group.count, group.last_since), reverse=True)
        return Gathered(largest[:limit], found.missing)

    async def audit(
        self, who: job.Actor, wanted: audit.Filter, before: Sequence[int], limit: int
    ) -> Gathered[audit.Entry]:
        """What was changed, newest first. `before` holds the last id that was seen of each database, in any order."""
        seen = {entry_id >> _NUMBER_BITS: entry_id for entry_id in before}

        async def page(part: parts.Part) -> Sequence[audit.Entry]:
            number = self._number(part)
            return await part.inspector.audit(who, wanted, [seen[number]] if number in seen else [], limit)

        found = await self._parts.everywhere(page)
        return Gathered(_by_time(found, limit), found.missing)

    def _number(self, part: parts.Part) -> int:
        known = self._parts.databases.states().get(part.name)
        return 0 if known is None else known.number

    def _remains(self, run_id: UUID) -> list[int]:
        """The places where a shard has left and not all of its rows are taken away."""
        shard, states = ids.shard_of(run_id), self._parts.databases.states()
        return [
            place
            for place, part in enumerate(self._parts.all)
            if part.name in states and states[part.name].shards.get(shard) is State.LEFT
        ]


def seen_of_each(before: Sequence[int], shown: Sequence[int]) -> list[int]:
    """Where the next page of an audit begins: the last id shown of each database, of those that were not shown the former one."""
    last = {entry_id >> _NUMBER_BITS: entry_id for entry_id in [*before, *shown]}
    return list(last.values())


def _by_time(pages: Sequence[Sequence[audit.Entry]], limit: int) -> list[audit.Entry]:
    """Pages that are each in the order of their ids, as one: the latest of the first entries goes next.

    Each database's entries keep their order, so that a position in each of them is a position in the whole.
    """
    rest = [list(reversed(page)) for page in pages]
    merged: list[audit.Entry] = []
    while len(merged) < limit and any(rest):
        latest = max((page for page in rest if page), key=lambda page: page[-1].at)
        merged.append(latest.pop())
    return merged
