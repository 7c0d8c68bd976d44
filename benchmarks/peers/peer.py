"""What a peer is: how its schema is made, its workers are started, its jobs enqueued, and when it has nothing left to do.

The works themselves are the same for all (`works`). A peer that cannot do one says why in `cannot`, and is not scored in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from benchmarks.peers import install
from benchmarks.peers.site import Site


class Peer(ABC):
    """One system. `cannot` maps a work to the reason why it is not measured, `remarks` maps one to what a reader must know."""

    name: str
    cannot: ClassVar[Mapping[str, str]] = {}
    remarks: ClassVar[Mapping[str, str]] = {}
    made_a_second = 1_000  # how many jobs with times of their own `enqueue` makes at least, on a busy machine

    @abstractmethod
    def available(self) -> str | None:
        """None, or why it cannot be run here."""

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Its version, and those of what it stands on."""

    @abstractmethod
    async def prepare(self, site: Site) -> None:
        """Make what must be there before workers start: tables, queues, a broker."""

    @abstractmethod
    async def start(self, site: Site) -> None:
        """Start `site.processes` workers; that they are ready is seen by the jobs that they carry out."""

    @abstractmethod
    async def enqueue(self, site: Site, first: int, count: int, begin: float | None = None, step: float = 0.0) -> None:
        """Make so many no-op jobs, numbered from `first`: due at once, or from `begin` (Unix time) on, one each `step` s."""

    @abstractmethod
    async def schedule(self, site: Site) -> None:
        """Make `site.schedules` schedules of one minute, where they do not stand in the code that workers run."""

    @abstractmethod
    async def unfinished(self, site: Site) -> bool:
        """Whether jobs are left that have not been carried out, or whose end is not stored yet."""

    async def handed_out(self, site: Site) -> int:
        """How many jobs were on their way to the paused workers before the clock began."""
        return 0


class ProgramPeer(Peer):
    """A peer that is driven by a program in its own language and environment (`programs/`)."""

    program: str
    environment: install.Environment
    packages: tuple[str, ...]
    unfinished_query: str

    def available(self) -> str | None:
        return self.environment.missing(self.packages)

    def versions(self) -> dict[str, str]:
        return self.environment.versions(self.packages)

    def command(self, *arguments: str) -> list[str]:
        """The program with a verb."""
        return [*self.environment.interpreter(), str(self.environment.programs / self.program), *arguments]

    async def prepare(self, site: Site) -> None:
        await site.call(self.command("prepare"))

    async def start(self, site: Site) -> None:
        for _ in range(site.processes):
            site.start(self.command("work"))

    async def enqueue(self, site: Site, first: int, count: int, begin: float | None = None, step: float = 0.0) -> None:
        due = [] if begin is None else [repr(begin), repr(step)]
        await site.call(self.command("enqueue", str(first), str(count), *due))

    async def schedule(self, site: Site) -> None:
        """They stand in code, unless a peer keeps them."""

    async def unfinished(self, site: Site) -> bool:
        left: bool = await site.connection.fetchval(self.unfinished_query)
        return left
