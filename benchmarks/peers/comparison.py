"""One run over several peers: who does what, how often."""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import asyncpg

from benchmarks.peers import works
from benchmarks.peers.peer import Peer
from benchmarks.peers.site import BrokenPeerError
from benchmarks.peers.works import Drain, Lag


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured. A drain that would take longer than `at_most_s` is made smaller, and not repeated."""

    works: Sequence[str]
    count: int
    rounds: int
    at_most_s: float
    lag_s: int
    marks: int
    processes: Sequence[int] = (1, 2)
    rate: int = 200
    schedules: int = 1_000


def quick() -> Plan:
    """At most forty seconds a peer on a quiet machine; a minute mark does not fit into that, unless it is asked for."""
    return Plan(("drain", "start_lag"), count=20_000, rounds=1, at_most_s=4.0, lag_s=4, marks=1)


def full() -> Plan:
    """Everything, with five rounds of the drain."""
    return Plan(works.NAMES, count=20_000, rounds=5, at_most_s=45.0, lag_s=60, marks=3)


@dataclass(slots=True)
class Findings:
    """What was found of one peer: its drains by the number of worker processes, its lags and its failures by work."""

    peer: Peer
    drains: dict[int, list[Drain]] = field(default_factory=dict)
    lags: dict[str, Lag] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def rate(self, processes: int) -> float | None:
        """The median of its rounds, in jobs a second."""
        found = self.drains.get(processes)
        return statistics.median(drain.rate for drain in found) if found else None

    @property
    def best(self) -> float:
        """Its rate with as many processes as suit it; 0 where there is none."""
        return max((self.rate(processes) or 0.0 for processes in self.drains), default=0.0)

    def cost(self) -> tuple[float, float] | None:
        """CPU time of a job in microseconds, PostgreSQL's and the rest: medians over all rounds."""
        found = [drain for drains in self.drains.values() for drain in drains]
        if not found:
            return None
        return statistics.median(one.postgres_us for one in found), statistics.median(one.own_us for one in found)

    def is_slow(self, plan: Plan, processes: int) -> bool:
        """Whether one round was as much as there is time for."""
        return any(
            drain.count < plan.count or drain.count / drain.rate > plan.at_most_s / 4
            for drain in self.drains.get(processes, ())
        )


Say = Callable[[str], None]


async def run(cluster_url: str, peers: Sequence[Peer], plan: Plan, say: Say) -> list[Findings]:
    """Measure those that are there, work by work. `say` is told what happens on the way."""
    found = []
    for peer in peers:
        reason = peer.available()
        if reason is None:
            found.append(Findings(peer))
        else:
            say(f"{peer.name}: left out, {reason}")
    for work in plan.works:
        await MEASURES[work](cluster_url, found, plan, say)
    return found


async def drains(cluster_url: str, found: Sequence[Findings], plan: Plan, say: Say) -> None:
    """Round after round, each over all peers."""
    for number in range(plan.rounds):
        for processes in plan.processes:
            for findings in able(found, "drain"):
                if not findings.is_slow(plan, processes):
                    await _drain(cluster_url, findings, plan, processes, say)
        say(f"round {number + 1} of {plan.rounds} is through")


async def _drain(cluster_url: str, findings: Findings, plan: Plan, processes: int, say: Say) -> None:
    async def measure() -> str:
        drain = await works.drain(cluster_url, findings.peer, plan.count, processes, plan.at_most_s)
        findings.drains.setdefault(processes, []).append(drain)
        cost = f"{drain.postgres_us:.0f} + {drain.own_us:.0f} µs"
        return f"{processes} processes, {drain.count:,} jobs: {drain.rate:,.0f} jobs/s, {cost}"

    await _attempt(findings, "drain", measure, say)


async def start_lags(cluster_url: str, found: Sequence[Findings], plan: Plan, say: Say) -> None:
    """One peer after another."""
    for findings in able(found, "start_lag"):
        await _lag(findings, "start_lag", works.start_lag(cluster_url, findings.peer, plan.rate, plan.lag_s), say)


async def minute_marks(cluster_url: str, found: Sequence[Findings], plan: Plan, say: Say) -> None:
    """One peer after another."""
    for findings in able(found, "minute_mark"):
        await _lag(
            findings, "minute_mark", works.minute_mark(cluster_url, findings.peer, plan.schedules, plan.marks), say
        )


async def _lag(findings: Findings, work: str, measuring: Awaitable[Lag], say: Say) -> None:
    async def measure() -> str:
        findings.lags[work] = lag = await measuring
        return f"p50 {lag.p50:.1f} ms, p99 {lag.p99:.1f} ms, {lag.missed} missed, {lag.doubled} doubled"

    await _attempt(findings, work, measure, say)


MEASURES = {"drain": drains, "start_lag": start_lags, "minute_mark": minute_marks}


def able(found: Sequence[Findings], work: str) -> list[Findings]:
    """Those that can do a work and have not failed at it."""
    return [findings for findings in found if work not in findings.peer.cannot and work not in findings.failures]


async def _attempt(findings: Findings, work: str, measure: Callable[[], Awaitable[str]], say: Say) -> None:
    """A peer that breaks is told as broken; the others go on."""
    try:
        told = await measure()
    except (BrokenPeerError, TimeoutError, OSError, asyncpg.PostgresError) as error:
        told = findings.failures[work] = str(error) or "it took too long"
    say(f"{findings.peer.name}, {work}: {told}")
