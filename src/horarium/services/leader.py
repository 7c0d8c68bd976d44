"""What the leader of some shards holds in memory, shared by the duties: terms, cursors, the ready set, progress.

It hears the pokes. Duties that sleep are woken through `on_timers` and `on_ready`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from uuid import UUID

from horarium import clock as clocks
from horarium.domain import ids
from horarium.domain.ready_set import ReadySet
from horarium.domain.run import LiveRun, overlap_for
from horarium.store.runs import RunRow, uuid_of
from horarium.store.timers import Terms


def _nothing() -> None:
    return None


class Leader:
    """Memory of the shards that this node leads. Losing it loses nothing."""

    def __init__(self, clock: clocks.Clock, ready: ReadySet) -> None:
        self.clock = clock
        self.ready = ready
        self.terms: dict[int, int] = {}
        self.unloaded: set[int] = set()
        self.cursors: dict[int, datetime] = {}
        self.poked: dict[int, datetime] = {}  # the earliest time a poke told of a shard, since the scan under way began
        self.progress: dict[UUID, str] = {}
        self.edited: set[UUID] = set()
        self.on_timers: Callable[[], None] = _nothing
        self.on_ready: Callable[[], None] = _nothing
        self.on_edited: Callable[[], None] = _nothing

    @property
    def loading(self) -> set[int]:
        """The led shards of which not everything is in memory yet."""
        return self.unloaded | self.ready.incomplete

    def leads(self, shard: int) -> bool:
        """Whether this node leads a shard."""
        return shard in self.terms

    def knows(self, run_id: UUID) -> bool:
        """Whether memory can tell what became of a run that began: its shard is led here, and has been loaded."""
        shard = ids.shard_of(run_id)
        return shard in self.terms and shard not in self.unloaded

    def named_terms(self) -> Terms:
        """The led shards with their terms, as every write names them."""
        return Terms(list(self.terms), list(self.terms.values()))

    def take_shards(self, terms: dict[int, int]) -> None:
        """This node leads these shards from now on. Nothing is fired before `loaded` is told."""
        self.terms.update(terms)
        self.unloaded.update(terms)

    def loaded(self, shards: Iterable[int]) -> None:
        """What has begun in these shards is in memory: timers are scanned from the beginning, and what waits is taken up."""
        here = [shard for shard in shards if shard in self.terms]
        self.unloaded.difference_update(here)
        self.ready.incomplete.update(here)
        self.cursors.update(dict.fromkeys(here, clocks.EPOCH))
        self.on_timers()

    def completed(self, shards: Iterable[int]) -> None:
        """What waits in these shards is in memory, too."""
        self.ready.completed(shards)
        self.on_ready()

    def drop_shards(self, shards: Iterable[int]) -> None:
        """This node no longer leads these shards: forget what memory holds of them."""
        gone = set(shards)
        for shard in gone:
            self.terms.pop(shard, None)
            self.cursors.pop(shard, None)
            self.unloaded.discard(shard)
        self.progress = {run_id: told for run_id, told in self.progress.items() if ids.shard_of(run_id) not in gone}
        self.ready.forget_shards(gone)

    def rescan(self, shards: Iterable[int] | None = None) -> None:
        """Look at all timers of some shards again, from the beginning; without a word of which, of all."""
        again = self.cursors if shards is None else [shard for shard in shards if shard in self.cursors]
        self.cursors.update(dict.fromkeys(again, clocks.EPOCH))
        self.on_timers()

    def add(self, runs: Iterable[LiveRun]) -> None:
        """Take up waiting runs that were just made; a shard that was lost meanwhile is another leader's business."""
        for run in runs:
            if run.shard in self.terms:
                self.ready.add(run)
        self.on_ready()

    def timers_changed(self, changes: Sequence[tuple[int, datetime]]) -> None:
        for shard, due_at in changes:
            cursor = self.cursors.get(shard)
            if cursor is not None:
                self.cursors[shard] = min(due_at, cursor)
                self.poked[shard] = min(due_at, self.poked.get(shard, due_at))
        self.on_timers()

    def runs_added(self, rows: Sequence[RunRow]) -> None:
        self.add(live_run(row) for row in rows if self.leads(row.shard))

    def runs_removed(self, ids: Sequence[UUID]) -> None:
        for run_id in ids:
            self.ready.gone(run_id)
        self.on_ready()

    def cancel_requested(self, ids: Sequence[UUID]) -> None:
        now = self.clock.monotonic()
        for run_id in ids:
            self.ready.leases.request_cancel(run_id, now)

    def job_edited(self, job_id: UUID) -> None:
        self.edited.add(job_id)
        self.on_edited()

    def forget(self, run: LiveRun) -> None:
        """A run's row is not what memory thought: forget the run, and look at its job's rows as after an edit."""
        self.ready.gone(run.id)
        self.job_edited(run.job_id)


def live_run(row: RunRow, overlap: str = "allow") -> LiveRun:
    """A run that was just made, for memory. Ids are the driver's own from here on: they are looked up at every step."""
    return LiveRun(
        uuid_of(row.id.bytes),
        uuid_of(row.job_id.bytes),
        row.shard,
        row.tenant_id,
        row.queue,
        row.target_key,
        row.priority,
        clocks.to_seconds(row.ready_at),
        overlap_for(row.trigger, overlap),
    )
