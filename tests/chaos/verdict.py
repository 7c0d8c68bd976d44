"""What was promised, and whether it was kept: books, acknowledgments, tokens, and how late things were.

It is told as two tables in Markdown, for a terminal at night and for docs/reliability.md by day.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from horarium.services import auditor
from horarium.store.database import Database
from tests.chaos import lateness, notes
from tests.chaos import load as loads
from tests.chaos import world as worlds
from tests.chaos.faults import Happened
from tests.chaos.lateness import FIRE_GAP_S, RERUN_AFTER_LEASE_S, Ended, quantile
from tests.chaos.watch import Watch

DRAIN_S = 240.0
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise: what was found (nothing: it was not put to the test), and examples of where it was broken."""

    text: str
    found: str
    broken: Sequence[str] = ()

    @property
    def verdict(self) -> str:
        """One word, in bold when somebody has to look."""
        return "**broken**" if self.broken else "kept" if self.found else ""


@dataclass(slots=True)
class Verdict:
    """Everything that was found."""

    promises: list[Promise] = field(default_factory=list)
    lags: list[lateness.Lag] = field(default_factory=list)

    @property
    def broken(self) -> list[Promise]:
        """The promises that were not kept."""
        return [promise for promise in self.promises if promise.broken]

    def lines(self) -> list[str]:
        """Both tables, then the examples."""
        kept = [(each.text, each.found or "nothing to measure", each.verdict) for each in self.promises]
        late = [
            (lag.kind.replace("_", " "), str(lag.times or ""), f"{len(lag.lags):,}", *_figures(lag.lags))
            for lag in self.lags
        ]
        return [
            *_table(("promise", "found", ""), kept),
            "",
            *_table(("fault", "times", "runs", "start lag p50", "p99", "most"), late),
            *(f"BROKEN: {promise.text}: {example}" for promise in self.broken for example in promise.broken),
        ]


@dataclass(frozen=True, slots=True)
class Course:
    """What happened, and when it began: by the database's clock, whose seconds since 1970 at monotonic zero are `epoch`."""

    happened: Sequence[Happened]
    watch: Watch
    since: datetime
    epoch: float


async def judge(world: worlds.World, load: loads.Load, course: Course, slack: float) -> Verdict:
    """Look at everything. `slack`: a factor on the bounds of time, for a machine that has other things to do."""
    happened = course.happened
    missing = await _drained(world, load.acknowledged)
    audited = await _audit(world, course.since)
    ended = [row for url in world.database_urls for row in await _history(url)]
    noted = notes.read(world.folder)
    promises = [
        _acknowledged(load, missing),
        Promise("each tick is a run or a skip (auditor)", f"{len(audited)} faults", audited[:SHOWN]),
        *_once(ended, load.acknowledged),
        *_tokens(ended, noted),
        _fire_gap(lateness.fire_gaps(ended, happened, course.epoch), FIRE_GAP_S * slack),
        _rerun(lateness.reruns(noted, happened, course.watch), (world.size.lease_s + RERUN_AFTER_LEASE_S) * slack),
    ]
    return Verdict(promises, lateness.by_fault(ended, happened, course.epoch))


async def _drained(world: worlds.World, acknowledged: Iterable[UUID]) -> list[UUID]:
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


async def _history(url: str) -> list[Ended]:
    """All runs that have ended, in one database."""
    async with worlds.rows_of(url) as rows:
        asked = await rows.fetch(
            """SELECT id, job_id, shard, fencing_token, attempt, ready_at,
                      extract(epoch FROM started_at - ready_at)::float8 FROM history"""
        )
    return [Ended(*row) for row in asked]


async def _audit(world: worlds.World, since: datetime) -> list[str]:
    found: list[str] = []
    for url in world.database_urls:
        database = Database(url, pool_size=2)
        await database.open()
        try:
            found += [str(fault) for fault in await auditor.audit(database, since)]
        finally:
            await database.close()
    return found


def _acknowledged(load: loads.Load, missing: Sequence[UUID]) -> Promise:
    number = len(load.acknowledged)
    found = f"{number - len(missing):,} of {number:,}"
    return Promise("every acknowledged one-off ended", found, [f"{run} has not" for run in missing[:SHOWN]])


def _once(ended: Sequence[Ended], acknowledged: set[UUID]) -> list[Promise]:
    """No run ends twice, and no acknowledged one-off more than once."""
    twice = [run for run, times in Counter(row.id for row in ended).items() if times > 1]
    jobs = Counter(row.job_id for row in ended if row.job_id in acknowledged)
    doubled = [job for job, times in jobs.items() if times > 1]
    return [
        Promise("no run ended twice", f"{len(twice)} of {len(ended):,}", [f"run {run}" for run in twice[:SHOWN]]),
        Promise("no one-off ran twice", f"{len(doubled)} of {len(jobs):,}", [f"job {job}" for job in doubled[:SHOWN]]),
    ]


def _tokens(ended: Sequence[Ended], noted: notes.Notes) -> list[Promise]:
    """Tokens of a run rise from start to start, and what was accepted is the result of the last of them."""
    tokens = {run: [start.token for start in starts] for run, starts in noted.starts.items()}
    stale = [row.id for row in ended if row.id in tokens and row.token < max(tokens[row.id])]
    repeated = [run for run, listed in tokens.items() if len(listed) != len(set(listed))]
    return [
        Promise("no stale result was accepted", f"{len(stale)}", [f"run {run}" for run in stale[:SHOWN]]),
        Promise("no token was started twice", f"{len(repeated)}", [f"run {run}" for run in repeated[:SHOWN]]),
    ]


def _fire_gap(gaps: Sequence[float], bound_s: float) -> Promise:
    late = quantile(gaps, 0.99)
    broken = [f"p99 is {late:.1f} s"] if late > bound_s else []
    return Promise(f"fire gap after a leader's death: p99 ≤ {bound_s:g} s", _described(gaps, "runs"), broken)


def _rerun(took: Sequence[float], bound_s: float) -> Promise:
    late = [seconds for seconds in took if seconds > bound_s]
    broken = [f"one after {seconds:.1f} s" for seconds in late[:SHOWN]]
    return Promise(f"rerun after a worker's death ≤ {bound_s:g} s", _described(took, "runs"), broken)


def _described(values: Sequence[float], of: str) -> str:
    if not values:
        return ""
    _, p99, most = _figures(values)
    return f"p99 {p99}, most {most} ({len(values):,} {of})"


def _figures(values: Sequence[float]) -> tuple[str, str, str]:
    """Median, 99th percentile, most."""
    return f"{quantile(values, 0.5):.3f} s", f"{quantile(values, 0.99):.2f} s", f"{max(values, default=0.0):.2f} s"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    ruled = [head, tuple("-" * width for width in widths), *rows]
    return [
        "| " + " | ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) + " |" for row in ruled
    ]
