"""What a run found: a table for people, or a JSON object for each peer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks import table
from benchmarks.peers.comparison import Findings

OWN = "horarium"
GOAL_RATE = 28_000
HEAD = (
    "",
    "drain, jobs/s, by worker processes",
    "CPU of a job, PostgreSQL + rest",
    "minute mark of 1,000: p99",
    "missed / doubled",
    "start lag at 200/s: p50 / p99",
    "versions",
)


def lines(found: Sequence[Findings]) -> list[str]:
    """The table, remarks below it, and whether the goal was reached."""
    rows = [HEAD, ["---"] * len(HEAD), *map(_cells, found)]
    told = ["| " + " | ".join(row) + " |" for row in rows]
    return [*told, "", *_remarks(found), *_failures(found), verdict(found)]


def verdict(found: Sequence[Findings]) -> str:
    """Horarium's drain beside the best peer's."""
    own = next((findings.best for findings in found if findings.peer.name == OWN), 0.0)
    others = [findings for findings in found if findings.peer.name != OWN and findings.best]
    if not own or not others:
        return "nothing to compare"
    best = max(others, key=lambda findings: findings.best)
    ratio = own / best.best
    reached = "reached" if ratio >= 1 and own >= GOAL_RATE else "missed"
    return f"drain: {ratio:.2f} of the best peer ({best.peer.name}); goal: 1.0 and {GOAL_RATE:,} jobs/s here: {reached}"


def as_object(findings: Findings) -> dict[str, Any]:
    """One peer's findings for programs: rates in jobs a second, CPU time in microseconds, lags in milliseconds."""
    peer = findings.peer
    return {
        "peer": peer.name,
        "versions": peer.versions(),
        "drain": {str(processes): _rounded(findings.rate(processes)) for processes in findings.drains},
        "cpu_us": [_rounded(part) for part in findings.cost() or ()],
        **{
            work: {"p50": _rounded(lag.p50), "p99": _rounded(lag.p99), "missed": lag.missed, "doubled": lag.doubled}
            for work, lag in findings.lags.items()
        },
        "cannot": dict(peer.cannot),
        "failures": findings.failures,
    }


def _cells(findings: Findings) -> list[str]:
    mark, lag, cost = findings.lags.get("minute_mark"), findings.lags.get("start_lag"), findings.cost()
    return [
        findings.peer.name,
        _or_reason(findings, "drain", _rates(findings) if findings.drains else None),
        f"{cost[0]:.0f} + {cost[1]:.0f} µs" if cost else "",
        _or_reason(findings, "minute_mark", f"{table.number(mark.p99)} ms" if mark else None),
        f"{mark.missed} / {mark.doubled}" if mark else "",
        _or_reason(findings, "start_lag", f"{table.number(lag.p50)} / {table.number(lag.p99)} ms" if lag else None),
        ", ".join(f"{name} {version}" for name, version in findings.peer.versions().items()),
    ]


def _rates(findings: Findings) -> str:
    return ", ".join(f"{processes}: {findings.rate(processes):,.0f}" for processes in sorted(findings.drains))


def _or_reason(findings: Findings, work: str, value: str | None) -> str:
    if work in findings.peer.cannot:
        return "–"
    if work in findings.failures:
        return "broke"
    return value or ""


def _remarks(found: Sequence[Findings]) -> list[str]:
    told = []
    for findings in found:
        said = {**findings.peer.remarks, **findings.peer.cannot}
        told += [f"* {findings.peer.name}, {work.replace('_', ' ')}: {text}." for work, text in said.items()]
    return [*told, ""]


def _failures(found: Sequence[Findings]) -> list[str]:
    return [f"{one.peer.name}, {work} broke: {text}\n" for one in found for work, text in one.failures.items()]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
