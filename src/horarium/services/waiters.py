"""Requests of workers that wait for runs, and what becomes of them: chosen runs, then leases.

Waiter ── chosen for ──► Batch ── one claim ──► Answer, one for each waiter
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from uuid import UUID

from horarium.domain.lanes import Wanted
from horarium.domain.run import LiveRun

MAX_RESPONSE_BYTES = 32 * 1024 * 1024


@dataclass(slots=True, eq=False)
class Waiter:
    """A worker's request that is waiting for runs. `only`: of several dispatchers the one whose turn it is to serve it."""

    worker_id: str
    wanted: Wanted
    slots: int
    answer: asyncio.Future[list[str]]
    until: float
    only: object | None = None
    granted: list[tuple[UUID, int]] = field(default_factory=list)


@dataclass(slots=True)
class Batch:
    """Runs chosen for some waiters, before the claim: run i is for request `requests[i]`."""

    waiters: list[Waiter] = field(default_factory=list)
    runs: list[LiveRun] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)


class Answer:
    """The leases that one request gets, as JSON texts; and the attempts that it cannot get: `held` is (run, token).

    `homeless`: the worker has gone, or the answer is full; `oversize`: no answer could carry the run.
    """

    __slots__ = ("gone", "granted", "homeless", "leases", "oversize", "size")

    def __init__(self, gone: bool) -> None:
        self.gone = gone
        self.leases: list[str] = []
        self.granted: list[tuple[UUID, int]] = []
        self.homeless: list[tuple[UUID, int]] = []
        self.oversize: list[tuple[UUID, int]] = []
        self.size = 0

    def add(self, run_id: UUID, token: int, text: str) -> None:
        """A run was claimed for this request."""
        self.size += len(text)
        if self.size <= MAX_RESPONSE_BYTES and not self.gone:
            self.leases.append(text)
            self.granted.append((run_id, token))
        elif len(text) > MAX_RESPONSE_BYTES:
            self.oversize.append((run_id, token))
        else:
            self.homeless.append((run_id, token))
