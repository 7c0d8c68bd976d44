"""The three works, the same for every peer.

drain: the workers are warm (they have carried out some jobs) and then stopped where they are, by SIGSTOP. The jobs are made,
statistics and a checkpoint taken, and the workers go on: from that instant until the last handler has begun and the store has
nothing unfinished any more. So neither the start of processes nor the insertion counts, and nobody's just-in-time compiler
is cold. A poll that a paused worker has open can be answered meanwhile: an adapter keeps that down, and what was handed out
before does not count as drained.

start_lag: one-offs, all made beforehand, due evenly in the future; the handler's start less the time it was due.

minute_mark: schedules of one minute, two processes that schedule and work, as one has them for the sake of the other.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass

from benchmarks import harness, system
from benchmarks.peers import site as sites
from benchmarks.peers.peer import Peer
from benchmarks.peers.site import BrokenPeerError, Site

NAMES = ("drain", "start_lag", "minute_mark")
WARM_UP, WARM_UPS = 2_000, 20
PATIENCE_S = 120.0
LEAD_S = 4.0
LATE_S = 20.0  # how long a due job is waited for
DOUBLES_S = 10.0
MARK_S = 60
PROCESSES = 2
START_S = 8.0


@dataclass(frozen=True, slots=True)
class Lag:
    """How late jobs began, in milliseconds. `missed` never began in time, `doubled` began again."""

    p50: float
    p99: float
    missed: int = 0
    doubled: int = 0


@dataclass(frozen=True, slots=True)
class Drain:
    """Jobs a second, of how many jobs, and the CPU time that a job took: microseconds of PostgreSQL, and of the rest."""

    rate: float
    count: int
    postgres_us: float
    own_us: float


async def drain(cluster_url: str, peer: Peer, count: int, processes: int, at_most_s: float) -> Drain:
    """Drain `count` jobs, or fewer where the warm-up shows that they would take longer than `at_most_s`."""
    async with sites.fresh(cluster_url, peer.name, "drain", processes) as site:
        await peer.prepare(site)
        await peer.start(site)
        rate = await _warm_up(peer, site)
        count = min(count, max(WARM_UP // 2, int(rate * at_most_s)))
        first = site.noted()
        site.pause()
        await peer.enqueue(site, first, count)
        await harness.settle(site.connection)
        counted = count - await peer.handed_out(site)
        postgres = await system.postgres(site.connection)
        used, own_used = system.cpu_of(postgres), system.cpu_of(site.pids())
        began = time.perf_counter()
        site.resume()
        await site.until_noted(first + count, PATIENCE_S + at_most_s)
        await _until_finished(peer, site)
        took = time.perf_counter() - began
        used, own_used = system.cpu_of(postgres) - used, system.cpu_of(site.pids()) - own_used
        _check(site, first, count)
        return Drain(counted / took, count, used / count * 1e6, own_used / count * 1e6)


async def start_lag(cluster_url: str, peer: Peer, rate: int, seconds: int) -> Lag:
    """Lags of one-offs at a rate, on one worker process."""
    async with sites.fresh(cluster_url, peer.name, "start_lag", 1) as site:
        await peer.prepare(site)
        await peer.start(site)
        await _warm_up(peer, site)
        first, count = site.noted(), rate * seconds
        begin = float(int(time.time() + LEAD_S + count / peer.made_a_second) + 1)
        await peer.enqueue(site, first, count, begin, 1 / rate)
        if time.time() > begin:
            raise BrokenPeerError(f"{count} jobs were not made in time")
        end = begin + seconds + LATE_S
        while site.noted() < first + count and time.time() < end:
            site.check_alive()
            await asyncio.sleep(0.1)
        found = [note for note in site.notes() if note.number >= first]
        started = Counter(note.number for note in found)
        lags = [(note.at - begin - (note.number - first) / rate) * 1000 for note in found]
        return _lag(lags, count - len(started), len(found) - len(started))


async def minute_mark(cluster_url: str, peer: Peer, schedules: int, marks: int) -> Lag:
    """Lags of schedules of one minute at some full minutes."""
    async with sites.fresh(cluster_url, peer.name, "minute_mark", PROCESSES, schedules) as site:
        await peer.prepare(site)
        await peer.schedule(site)
        # Not in the last seconds of a minute: a mark that comes while processes start is nobody's fault.
        while MARK_S - time.time() % MARK_S < 2 * START_S:
            await asyncio.sleep(0.5)
        await peer.start(site)
        first = (int(time.time()) // MARK_S + 1) * MARK_S
        last = first + (marks - 1) * MARK_S
        while time.time() < last + MARK_S - 1 and not _are_all_there(site, last, schedules):
            site.check_alive()
            await asyncio.sleep(0.2)
        lags, missed, doubled = [], 0, 0
        for mark in range(first, first + marks * MARK_S, MARK_S):
            found = [note for note in site.notes() if mark - 1 <= note.at < mark + MARK_S - 1]
            started = Counter(note.number for note in found)
            lags += [(note.at - mark) * 1000 for note in found]
            missed += schedules - len(started)
            doubled += len(found) - len(started)
        return _lag(lags, missed, doubled)


def _are_all_there(site: Site, mark: int, schedules: int) -> bool:
    """Whether each schedule has run at a mark, and what is doubled has had its time to come, too."""
    if time.time() < mark + DOUBLES_S:
        return False
    return len({note.number for note in site.notes() if note.at >= mark - 1}) == schedules


async def _warm_up(peer: Peer, site: Site) -> float:
    """Have every worker process carry out some jobs; returns about how many a second the last time."""
    for _ in range(WARM_UPS):
        before = site.noted()
        await peer.enqueue(site, before, WARM_UP)
        await site.until_noted(before + WARM_UP, PATIENCE_S)
        await _until_finished(peer, site)
        if site.noting() >= site.processes:
            starts = [note.at for note in site.notes() if note.number >= before]
            return WARM_UP / max(0.001, starts[-1] - starts[0])
    raise BrokenPeerError(f"only {site.noting()} of {site.processes} processes carried out jobs:\n{site.last_words()}")


async def _until_finished(peer: Peer, site: Site) -> None:
    async with asyncio.timeout(PATIENCE_S):
        asked_at = time.perf_counter()
        while await peer.unfinished(site):
            await asyncio.sleep(max(sites.LOOK_EVERY_S, time.perf_counter() - asked_at))  # looking must not be the load
            asked_at = time.perf_counter()


def _check(site: Site, first: int, count: int) -> None:
    """Every job began, none twice."""
    found = sorted(note.number for note in site.notes() if note.number >= first)
    if found != list(range(first, first + count)):
        raise BrokenPeerError(f"{len(found)} starts of {len(set(found))} jobs, not {count}")


def _lag(lags: list[float], missed: int, doubled: int) -> Lag:
    if not lags:
        raise BrokenPeerError("no job began")
    return Lag(harness.quantile(lags, 0.5), harness.quantile(lags, 0.99), missed, doubled)
