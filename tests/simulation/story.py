"""One seed, from the first boot to the verdict."""

from __future__ import annotations

import asyncio
import gc
import traceback
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from horarium.services.control_plane import Timing
from tests.simulation import clocks, verdict
from tests.simulation.chance import Chance
from tests.simulation.database import Host
from tests.simulation.loop import Process, SimulatedLoop, Stuck
from tests.simulation.model.server import Server
from tests.simulation.network import Network
from tests.simulation.nodes import SimulatedNode
from tests.simulation.people import People
from tests.simulation.troubles import Troubles
from tests.simulation.watch import Watch
from tests.simulation.weather import Weather
from tests.simulation.workers import Manners, SimulatedWorker

SHARDS = 4
KEPT_LINES = 120
PATIENCE_S = 12.0
USUAL = ("UnavailableError", "DeadlockDetectedError")
"""Of what duties fail while there is trouble; anything else is a fault."""


@dataclass
class Told:
    """How a seed ended. `wrong` is empty when every promise was kept."""

    seed: int
    wrong: list[str] = field(default_factory=list)
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    ended: int = 0
    executions: int = 0
    turns: int = 0
    digest: int = 0


@dataclass
class Size:
    """How long a story is, in simulated seconds, and how many take part."""

    troubled_s: float = 18.0
    jobs: int = 8
    nodes: int = 3
    workers: int = 3


@dataclass(frozen=True)
class Focus:
    """What a seed does not draw for itself: the kinds of trouble, and how often people and troubles come, in seconds."""

    troubles: tuple[str, ...] | None = None
    trouble_every_s: float | None = None
    people_every_s: float | None = None


class Story:
    """A cluster and what befalls it."""

    def __init__(self, seed: int, size: Size, focus: Focus | None = None, *, trace: bool = False) -> None:
        self._focus = focus or Focus()
        self.told = Told(seed)
        self._size = size
        self._trace = trace
        self._chance = Chance(seed)
        self._loop = SimulatedLoop(self._chance)

    def play(self) -> Told:
        """Play it; whatever goes wrong stands in what is told."""
        with self._chance.in_charge(), clocks.simulated(), _collected():
            try:
                self._loop.run_until_complete(self._play())
            except Stuck as stuck:
                self.told.wrong.append(f"stuck: {stuck}")
            except Exception:  # noqa: BLE001 - told with the seed and the last lines
                self.told.wrong.append(traceback.format_exc())
            finally:
                self.told.turns = self._loop.turns
                self.told.wrong += self._loop.complaints[:5]
                self._end_all()
                self._loop.close()
        return self.told

    def tell(self, who: str, what: str) -> None:
        """A line of the trace."""
        line = f"{self._loop.time():10.6f} {who}: {what}"
        self.told.lines.append(line)
        self.told.digest = zlib.crc32(line.encode(), self.told.digest)
        if "duty_failed" in what and not any(usual in what for usual in USUAL):
            self.told.wrong.append(line)
        if self._trace:
            print(line)

    async def _play(self) -> None:
        self._set_up()
        nodes, workers = self.nodes, self.workers
        for node in nodes:
            node.boot()
        for worker in workers:
            worker.boot()
        await asyncio.sleep(1.0)
        until = self._loop.time() + self._size.troubled_s
        await asyncio.gather(
            self._define(),
            self.troubles.happen(until, self._focus.trouble_every_s or self._chance.one_of((1.0, 3.0, 8.0))),
            self.people.meddle(until, self._focus.people_every_s or self._chance.one_of((0.3, 1.0, 4.0))),
        )
        await self._heal()
        self.told.wrong += await self._judge()
        self.told.ended = len(self.server.ended)
        self.told.executions = sum(len(worker.executions) for worker in workers)

    def _set_up(self) -> None:
        chance, size = self._chance, self._size
        self.weather = Weather()
        self.server = Server(chance, SHARDS, self._loop.time)
        self.host = Host(self.server, chance, self.weather)
        self.watch = Watch(self.server, self.tell)
        self.network = Network(chance, self.weather)
        self.manners = Manners()
        self.timing = Timing(
            lookahead=timedelta(seconds=chance.one_of((2, 5, 10))),
            lease=timedelta(seconds=chance.one_of((2, 3, 5))),
            early_claim=timedelta(seconds=chance.one_of((0.0, 0.1))),
            sweep=timedelta(seconds=chance.one_of((2, 4))),
        )
        self.nodes = [
            SimulatedNode(f"node-{number}", self.host, self.network, chance, self.timing, SHARDS, self.tell)
            for number in range(1, chance.integer(1, size.nodes) + 1)
        ]
        for node in self.nodes:
            node.others = self.nodes
        self.workers = [
            SimulatedWorker(f"worker-{number}", self.nodes, self.network, chance, self.manners, self.tell)
            for number in range(1, chance.integer(1, size.workers) + 1)
        ]
        self.people = People(self.nodes, self.network, self.server, chance, self.tell)
        self.troubles = Troubles(self.host, self.nodes, self.workers, self.network, self.weather, chance, self.tell)
        if self._focus.troubles is not None:
            self.troubles.draw(self._focus.troubles)

    async def _define(self) -> None:
        await self.people.define(self._chance.integer(1, self._size.jobs))

    async def _heal(self) -> None:
        """Everything is well again: wait as long as it may take until it shows."""
        self.tell("story", "all is well from now on")
        self.manners.troubled, self.manners.longest_s = False, 0.2
        await self.troubles.end()
        for worker in self.workers:
            worker.slots = 50
        await asyncio.sleep(2 * self.timing.lease.total_seconds() + 5)
        await self.people.resume_all()
        await asyncio.sleep(4 * self.timing.sweep.total_seconds() + 12)

    async def _judge(self) -> list[str]:
        found = [*verdict.of_the_rows(self.server, self.watch, self.workers, self.people.promised)]
        unled = [*verdict.of_leadership(self.server, self.nodes)]
        until = self._loop.time() + PATIENCE_S
        while unled and self._loop.time() < until:
            # A node that died before the clock was set back seems to live for a moment when the clock gets there again.
            await asyncio.sleep(0.5)
            unled = [*verdict.of_leadership(self.server, self.nodes)]
        found += unled
        differs = verdict.of_memory(self.server, self.nodes)
        until = self._loop.time() + self.timing.lease.total_seconds() + 3
        while differs and self._loop.time() < until:
            # A report may be taken in by a node that does not lead the run: its leader learns of it by two heartbeats.
            await asyncio.sleep(0.5)
            now = verdict.of_memory(self.server, self.nodes)
            differs = {run_id: said for run_id, said in differs.items() if now.get(run_id) == said}
        return [*found, *differs.values(), *verdict.of_leaks(self.nodes, self.workers)]

    def _end_all(self) -> None:
        """End every task, of killed processes, too, so that nothing is left behind."""
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            task.cancel()
        for process in self._processes():
            self._loop.revive(process)
        self.host.restart()
        self.host.go_on()
        self._loop.most_turns = self._loop.turns + 100_000
        ending = asyncio.gather(*tasks, return_exceptions=True)
        try:
            self._loop.run_until_complete(asyncio.wait_for(ending, 120))
        except (Stuck, TimeoutError, asyncio.CancelledError):
            return

    def _processes(self) -> Iterator[Process]:
        for each in (*getattr(self, "nodes", ()), *getattr(self, "workers", ())):
            yield from (*each.past, each.process)


def play(seed: int, focus: Focus | None = None, *, trace: bool = False) -> Told:
    """Play one seed."""
    return Story(seed, Size(), focus, trace=trace).play()


class _collected:  # noqa: N801 - reads as a word in a with statement
    """Garbage is collected between stories, not in the middle of one."""

    def __enter__(self) -> None:
        gc.disable()

    def __exit__(self, *_: object) -> None:
        gc.enable()
