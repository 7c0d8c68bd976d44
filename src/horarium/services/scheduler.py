"""Step 2 of a run's life: its time comes near. Timers are moved on, runs are made up to the look-ahead before their instant.

The scan starts at a cursor for each shard: where the last one ended, not at the beginning of the index, so that the dead
entries of fired timers are not walked over. A slower scan from the beginning finds what was inserted behind the cursor (a late
commit, an enqueue from SQL); a poke moves the cursor back and makes the common case immediate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from horarium import clock as clocks
from horarium.domain import ids
from horarium.domain.firing import Plan, Planner, Tick, decode_policy
from horarium.domain.misfire import Missed
from horarium.domain.overlap import Overlap
from horarium.domain.run import LiveRun
from horarium.events import Events, Name
from horarium.services.leader import Leader
from horarium.store import runs, skips, timers
from horarium.store.database import Database
from horarium.store.timers import TimerRow

TIMERS_AT_ONCE = 2_000
SCAN_EVERY_S = 1.0
SLOW_SCAN_S = 2.0
SLOW_SCAN_AT_LEAST_EVERY_S = 30.0


@dataclass(slots=True)
class Straight:
    """The straight path, as columns: timer i becomes run `run_ids[i]` and moves on to `following[i]`."""

    run_ids: list[UUID] = field(default_factory=list)
    job_ids: list[UUID] = field(default_factory=list)
    nominal: list[datetime] = field(default_factory=list)
    following: list[datetime] = field(default_factory=list)


@dataclass(slots=True)
class Batch:
    """What one transaction writes for a batch of due timers. Most go the straight path; the other lists are for the rest."""

    straight: Straight = field(default_factory=Straight)
    runs: list[runs.RunRow] = field(default_factory=list)
    live: list[LiveRun] = field(default_factory=list)
    skips: list[skips.SkipRow] = field(default_factory=list)
    moves: list[timers.Move] = field(default_factory=list)
    ended: list[UUID] = field(default_factory=list)
    failed: dict[UUID, str] = field(default_factory=dict)


class Scheduler:
    """Fires the timers of the led shards."""

    def __init__(self, database: Database, leader: Leader, events: Events, lookahead: timedelta) -> None:
        self._database = database
        self._leader = leader
        self._events = events
        self._lookahead = lookahead
        self._planner = Planner()
        self._slow_scan_at = 0.0

    async def run_once(self) -> float:
        """Fire one batch; returns the seconds until the next look, 0 when there is more to do."""
        if not self._leader.cursors:
            return SCAN_EVERY_S
        started = self._leader.clock.monotonic()
        slow = started >= self._slow_scan_at
        cursors = dict.fromkeys(self._leader.cursors, clocks.EPOCH) if slow else dict(self._leader.cursors)
        more = await self._fire(cursors)
        if slow and not more:
            # The slow scan adapts to its cost: a twentieth of the time is spent on it. What a database took that answered nothing
            # for a while is no measure, so there is an end to the pause.
            took = self._leader.clock.monotonic() - started
            self._slow_scan_at = started + min(max(SLOW_SCAN_S, 20 * took), SLOW_SCAN_AT_LEAST_EVERY_S)
        return 0.0 if more else SCAN_EVERY_S

    async def _fire(self, cursors: dict[int, datetime]) -> bool:
        """Fetch, decide, store, tell. Returns whether a shard may have more timers due."""
        now = self._leader.clock.now()
        horizon = now + self._lookahead
        terms = self._leader.named_terms()
        at_start = dict(self._leader.cursors)
        self._leader.poked.clear()
        limit = max(1, TIMERS_AT_ONCE // len(cursors))
        async with self._database.transaction() as connection:
            due = await timers.select_due(connection, cursors, limit, horizon, terms)
            batch = self.plan(due, now, horizon)
            straight = batch.straight
            await timers.fire(connection, straight.run_ids, straight.job_ids, straight.nominal, straight.following)
            await runs.insert(connection, batch.runs)
            await skips.insert(connection, batch.skips)
            await timers.move(connection, batch.moves)
            await timers.delete(connection, batch.ended)
            await timers.finish_jobs(connection, batch.ended)
            await timers.fail_jobs(connection, batch.failed)
        seen = _last_seen(due)
        self._advance(at_start, seen, limit, horizon)
        self._tell(batch)
        return any(count >= limit for count, _ in seen.values())

    def plan(self, due: Sequence[TimerRow], now: datetime, horizon: datetime) -> Batch:
        """Decide what becomes of due timers. One that cannot be planned goes to error, the others go on (rule N2)."""
        batch = Batch()
        for timer in due:
            following = self._straight(timer, now)
            if following is not None and following > horizon:
                _write_straight(batch, timer, following)
                continue
            first = Tick(timer.scheduled_for, timer.due_at)
            try:
                plan = self._planner.plan(timer.job_id, first, timer.schedule_key, timer.policy_key, now, horizon)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one schedule is that job's trouble alone
                batch.failed[timer.job_id] = f"{type(error).__name__}: {error}"[:500]
                continue
            _write(batch, timer, plan)
        return batch

    def _straight(self, timer: TimerRow, now: datetime) -> datetime | None:
        """The following occurrence, for a timer that goes the straight path; None for one that takes the long way."""
        if timer.due_at != timer.scheduled_for:
            return None
        try:
            return self._planner.straight(timer.schedule_key, timer.policy_key, timer.scheduled_for, now)
        except Exception:  # noqa: BLE001 - whatever is wrong with it, the long way tells and marks that job alone
            return None

    def _advance(
        self, at_start: dict[int, datetime], seen: dict[int, tuple[int, datetime]], limit: int, horizon: datetime
    ) -> None:
        """Move the cursors: to the last timer seen where a shard had the full limit, else to the horizon; never back.

        Not over what a poke told since the scan began: that may have been committed after the scan had read.
        """
        cursors, poked = self._leader.cursors, self._leader.poked
        for shard, cursor in at_start.items():
            if shard not in cursors or cursors[shard] < cursor:
                continue
            count, last = seen.get(shard, (0, horizon))
            reached = last if count >= limit else horizon
            cursors[shard] = max(cursors[shard], min(reached, poked.get(shard, reached)))

    def _tell(self, batch: Batch) -> None:
        if batch.live:
            self._leader.add(batch.live)
            self._events.tell(Name.RUNS_FIRED, count=len(batch.live))
        for skip in batch.skips:
            self._events.tell(
                Name.TICKS_SKIPPED, job_id=skip.job_id, count=skip.count, reason=skip.reason, tenant=skip.tenant_id
            )
        for job_id, reason in batch.failed.items():
            self._events.tell(Name.JOB_IN_ERROR, job_id=job_id, reason=reason)


def _last_seen(due: Sequence[TimerRow]) -> dict[int, tuple[int, datetime]]:
    """For each shard how many timers there were, and the latest due time among them."""
    seen: dict[int, tuple[int, datetime]] = {}
    for timer in due:
        count, last = seen.get(timer.shard, (0, timer.due_at))
        seen[timer.shard] = (count + 1, max(last, timer.due_at))
    return seen


def _write_straight(batch: Batch, timer: TimerRow, following: datetime) -> None:
    """One run, one move: four columns and an object in memory."""
    nominal = timer.scheduled_for
    micros = ids.microseconds(nominal)
    run_id = runs.uuid_of(ids.tick_run_bytes(timer.job_id.bytes, timer.shard, micros))
    columns = batch.straight
    columns.run_ids.append(run_id)
    columns.job_ids.append(timer.job_id)
    columns.nominal.append(nominal)
    columns.following.append(following)
    overlap = decode_policy(timer.policy_key).overlap if timer.policy_key else Overlap.ALLOW
    batch.live.append(_live(timer, run_id, micros / 1_000_000, overlap))


def _write(batch: Batch, timer: TimerRow, plan: Plan) -> None:
    """Add the rows of one planned timer to the batch."""
    overlap = decode_policy(timer.policy_key).overlap
    for tick in plan.ticks:
        run_id = runs.tick_id(timer.job_id, timer.shard, tick.scheduled_for)
        batch.runs.append(
            runs.RunRow(
                run_id,
                timer.job_id,
                timer.shard,
                timer.tenant_id,
                timer.queue,
                timer.target_key,
                timer.priority,
                tick.scheduled_for,
                tick.due_at,
                timer.job_version,
            )
        )
        batch.live.append(_live(timer, run_id, clocks.to_seconds(tick.due_at), overlap))
    batch.skips += [_skip(timer, missed) for missed in plan.missed]
    handled = _last_handled(timer, plan)
    if plan.next is None:
        batch.ended.append(timer.job_id)
    else:
        batch.moves.append(
            timers.Move(timer.job_id, timer.scheduled_for, plan.next.scheduled_for, plan.next.due_at, handled)
        )


def _live(timer: TimerRow, run_id: UUID, ready_at: float, overlap: Overlap) -> LiveRun:
    """The run of a timer, for memory."""
    return LiveRun(
        run_id,
        timer.job_id,
        timer.shard,
        timer.tenant_id,
        timer.queue,
        timer.target_key,
        timer.priority,
        ready_at,
        overlap,
    )


def _skip(timer: TimerRow, missed: Missed) -> skips.SkipRow:
    into = missed.coalesced_into
    return skips.SkipRow(
        timer.job_id,
        timer.tenant_id,
        timer.shard,
        missed.first,
        missed.last,
        missed.count,
        missed.exact,
        missed.reason,
        None if into is None else ids.tick_run_id(timer.job_id, timer.shard, into),
    )


def _last_handled(timer: TimerRow, plan: Plan) -> datetime:
    times = [tick.scheduled_for for tick in plan.ticks] + [missed.last for missed in plan.missed]
    return max(times, default=timer.scheduled_for)
