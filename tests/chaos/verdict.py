"""What was promised, and whether it was kept: books, acknowledgments, tokens, and how late things were by the kind of fault."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from uuid import UUID

from horarium.services import auditor
from horarium.store.database import Database
from tests.chaos import load as loads
from tests.chaos import world as worlds
from tests.chaos.faults import Happened

FIRE_GAP_S, RERUN_S = 5.0, 17.0
DRAIN_S = 240.0
AFTER_S = 10.0  # how long a fault is looked for in what came due after it
DIED = {"kill_node"}


@dataclass(frozen=True, slots=True)
class Started:
    """A start that a handler noted: by which process, under which token, when (monotonic seconds)."""

    pid: int
    token: int
    at: float


@dataclass(slots=True)
class Notes:
    """What the handlers noted: starts in their order by run, and the (run, token) that came to their end."""

    starts: dict[UUID, list[Started]] = field(default_factory=lambda: defaultdict(list))
    ends: set[tuple[UUID, int]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Ended:
    """A row of history, as far as it is looked at. `lag_s`: from its ready time to the start of its last attempt."""

    id: UUID
    job_id: UUID
    shard: int
    token: int
    attempt: int
    ready_at: datetime
    lag_s: float | None


@dataclass(slots=True)
class Verdict:
    """Everything that was found; `wrong` is empty when every promise was kept."""

    wrong: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)


def read_notes(folder: Path) -> Notes:
    """All lines of all worker processes."""
    notes = Notes()
    for path in sorted(folder.glob("notes-*.txt")):
        pid = int(path.stem.removeprefix("notes-"))
        for line in path.read_text().splitlines():
            what, run_id, token, at = line.split()
            if what == "start":
                notes.starts[UUID(run_id)].append(Started(pid, int(token), float(at)))
            else:
                notes.ends.add((UUID(run_id), int(token)))
    for starts in notes.starts.values():
        starts.sort(key=lambda each: each.at)
    return notes


async def drained(world: worlds.World, acknowledged: Iterable[UUID]) -> list[UUID]:
    """Wait until every acknowledged one-off has ended; returns those that have not when patience is over."""
    limit = time.monotonic() + DRAIN_S
    missing = set(acknowledged)
    while missing and time.monotonic() < limit:
        for url in world.database_urls:
            async with worlds.rows_of(url) as rows:
                asked = await rows.fetch("SELECT DISTINCT job_id FROM history WHERE job_id = ANY($1)", list(missing))
            missing -= {row["job_id"] for row in asked}
        if missing:
            await asyncio.sleep(1)
    return sorted(missing)


async def judge(
    world: worlds.World, load: loads.Load, happened: Sequence[Happened], since: datetime, epoch: float
) -> Verdict:
    """Look at everything. `epoch`: the database's seconds since 1970 at monotonic zero."""
    found = Verdict()
    missing = await drained(world, load.acknowledged)
    if missing:
        found.wrong.append(f"{len(missing)} acknowledged one-offs have not ended, such as {missing[:3]}")
    await _audit(world, since, found)
    ended = [row for url in world.database_urls for row in await history(url)]
    notes = read_notes(world.folder)
    _once(ended, load.acknowledged, found)
    _tokens(ended, notes, found)
    _lags(ended, happened, epoch, found)
    _reruns(notes, happened, found)
    found.told.append(
        f"{len(ended):,} runs ended, {len(load.acknowledged):,} one-offs acknowledged, {load.refused:,} refused, "
        f"{load.changes} edits, pauses, resumes and runs by hand"
    )
    return found


async def history(url: str) -> list[Ended]:
    """All runs that have ended, in one database."""
    async with worlds.rows_of(url) as rows:
        asked = await rows.fetch(
            """SELECT id, job_id, shard, fencing_token, attempt, ready_at,
                      extract(epoch FROM started_at - ready_at)::float8 FROM history"""
        )
    return [Ended(*row) for row in asked]


async def _audit(world: worlds.World, since: datetime, found: Verdict) -> None:
    for url in world.database_urls:
        database = Database(url, pool_size=2)
        await database.open()
        try:
            faults = await auditor.audit(database, since)
        finally:
            await database.close()
        found.wrong += [f"audit: {fault}" for fault in faults[:20]]
        found.told.append(f"audit of {url.rsplit(':', 1)[-1]}: {len(faults)} faults")


def _once(ended: Sequence[Ended], acknowledged: set[UUID], found: Verdict) -> None:
    """No run ends twice, and no acknowledged one-off more than once."""
    ids = [row.id for row in ended]
    if len(ids) != len(set(ids)):
        found.wrong.append(f"{len(ids) - len(set(ids))} runs ended twice")
    of_one_offs = [row.job_id for row in ended if row.job_id in acknowledged]
    if len(of_one_offs) != len(set(of_one_offs)):
        found.wrong.append(f"{len(of_one_offs) - len(set(of_one_offs))} acknowledged one-offs ended twice")


def _tokens(ended: Sequence[Ended], notes: Notes, found: Verdict) -> None:
    """Tokens of a run rise from start to start, and what was accepted is the result of the last of them."""
    stale = falling = 0
    for row in ended:
        tokens = [start.token for start in notes.starts.get(row.id, ())]
        stale += bool(tokens) and row.token < max(tokens)
    for starts in notes.starts.values():
        tokens = [start.token for start in starts]
        falling += len(tokens) != len(set(tokens))
    if stale:
        found.wrong.append(f"{stale} results of stale attempts were accepted")
    if falling:
        found.wrong.append(f"{falling} runs were started twice under one token")


def _lags(ended: Sequence[Ended], happened: Sequence[Happened], epoch: float, found: Verdict) -> None:
    """Start lags of first attempts: in quiet, and by the kind of the fault that they came after."""
    windows = sorted(
        (fault.at + epoch, max(fault.healed_at + epoch, fault.at + epoch) + AFTER_S, fault) for fault in happened
    )
    by_kind: dict[str, list[float]] = defaultdict(list)
    gaps: list[float] = []
    for row in ended:
        if row.lag_s is None or row.attempt != 1:
            continue
        at = row.ready_at.timestamp()
        hit = [fault for first, last, fault in windows if first <= at <= last]
        for kind in {fault.kind for fault in hit} or {"no fault"}:
            by_kind[kind].append(row.lag_s)
        gaps += [
            row.lag_s
            for fault in hit
            if fault.kind in DIED and row.shard in fault.leading and at <= fault.at + epoch + AFTER_S
        ]
    for kind, lags in sorted(by_kind.items()):
        found.told.append(f"start lag, {kind}: {described(lags)}")
    if gaps:
        found.told.append(f"fire gap after a leader's death: {described(gaps)}")
        if quantile(gaps, 0.99) > FIRE_GAP_S:
            found.wrong.append(f"fire gap p99 {quantile(gaps, 0.99):.1f} s, the bound is {FIRE_GAP_S:g} s")


def _reruns(notes: Notes, happened: Sequence[Happened], found: Verdict) -> None:
    """From the death of a worker to the next start of what it had at work."""
    took: list[float] = []
    for fault in happened:
        if fault.kind != "kill_worker":
            continue
        for run_id, starts in notes.starts.items():
            last = [start for start in starts if start.at <= fault.at]
            if last and last[-1].pid == fault.pid and (run_id, last[-1].token) not in notes.ends:
                after = [start.at for start in starts if start.at > fault.at]
                if after:
                    took.append(min(after) - fault.at)
    if took:
        found.told.append(f"rerun after a worker's death: {described(took)}")
        if max(took) > RERUN_S:
            found.wrong.append(f"rerun after {max(took):.1f} s, the bound is {RERUN_S:g} s")


def described(values: Sequence[float]) -> str:
    """How many, median, 99th percentile, most."""
    return (
        f"{len(values):,} values, p50 {quantile(values, 0.5):.3f} s, p99 {quantile(values, 0.99):.3f} s, "
        f"most {max(values):.3f} s"
    )


def quantile(values: Sequence[float], part: float) -> float:
    """The smallest of the values that `part` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, round(part * len(ordered)) - 1))]


async def database_epoch(url: str) -> tuple[datetime, float]:
    """The database's time, and its seconds since 1970 at monotonic zero."""
    async with worlds.rows_of(url) as rows:
        asked = time.monotonic()
        now: datetime = await rows.fetchval("SELECT clock_timestamp()")
    return now, now.timestamp() - (asked + time.monotonic()) / 2
