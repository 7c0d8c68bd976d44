"""What befalls a cluster: each seed draws some kinds of trouble, and when they come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from tests.simulation.chance import Chance
from tests.simulation.database import Host
from tests.simulation.network import Network
from tests.simulation.nodes import SimulatedNode, Tell
from tests.simulation.weather import Weather
from tests.simulation.workers import SimulatedWorker

Trouble = Callable[[], Awaitable[None]]


class Troubles:
    """Draws troubles and carries them out; `end` heals everything."""

    def __init__(
        self,
        host: Host,
        nodes: Sequence[SimulatedNode],
        workers: Sequence[SimulatedWorker],
        network: Network,
        weather: Weather,
        chance: Chance,
        tell: Tell,
    ) -> None:
        self._host = host
        self._nodes = nodes
        self._workers = workers
        self._network = network
        self._weather = weather
        self._chance = chance
        self._tell = tell
        self._every: dict[str, Trouble] = {
            "crash of a node": self._crash_node,
            "freeze of a node": self._freeze_node,
            "restart of a node": self._restart_node,
            "crash of a worker": self._crash_worker,
            "freeze of a worker": self._freeze_worker,
            "crash of the database": self._crash_database,
            "stall of the database": self._stall_database,
            "step of the database's clock": self._step_clock,
            "standby with another clock": self._fail_over,
            "theft of a shard": self._steal_shard,
            "two leaders": self._two_leaders,
            "cut in the network": self._cut_network,
        }
        self.drawn: dict[str, Trouble] = {}
        self.draw([name for name in self._every if chance.happens(0.35)])
        self._draw_weather()

    def draw(self, names: Sequence[str]) -> None:
        """These kinds of trouble come, and no others."""
        self.drawn = {name: self._every[name] for name in names}

    def _draw_weather(self) -> None:
        for name in self._weather.__dataclass_fields__:
            if self._chance.happens(0.35):
                setattr(self._weather, name, self._chance.one_of((0.002, 0.01, 0.05)))
        self._tell("story", f"{self._weather}, {', '.join(self.drawn) or 'nothing else'}")

    async def happen(self, until: float, pause_s: float) -> None:
        """One trouble after the other, some at the same time."""
        loop = asyncio.get_running_loop()
        under_way: set[asyncio.Task[None]] = set()
        while loop.time() < until:
            await asyncio.sleep(self._chance.between(0, 2 * pause_s))
            if not self.drawn:
                continue
            name = self._chance.one_of([*self.drawn])
            self._tell("trouble", name)
            task = loop.create_task(self.drawn[name]())  # type: ignore[arg-type]
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        if under_way:
            await asyncio.wait(under_way)

    async def end(self) -> None:
        """All is well from now on."""
        self._weather.clear()
        self._network.cuts.clear()
        self._host.restart()
        self._host.go_on()
        server = self._host.server
        if -10_000 < server.offset_s < 0 or (0 < server.offset_s < 40 and self._chance.happens(0.5)):
            # Else everybody would wait for the clock to come back to where it was; up to 40 s they may.
            server.step(-server.offset_s)
        for process in (*self._nodes, *self._workers):
            process.process.thaw()
            if not process.process.runs:
                process.boot()

    async def _crash_node(self) -> None:
        node = self._chance.one_of(self._nodes)
        if node.process.runs:
            node.crash()
            await asyncio.sleep(self._chance.between(0.1, 8))
            node.boot()

    async def _freeze_node(self) -> None:
        process = self._chance.one_of(self._nodes).process
        self._tell(process.name, "is frozen")
        process.freeze()
        await asyncio.sleep(self._chance.between(0.5, 12))
        process.thaw()
        self._tell(process.name, "goes on")

    async def _restart_node(self) -> None:
        node = self._chance.one_of(self._nodes)
        if node.is_serving:
            process = node.process
            await node.stop()
            if node.process is process:
                node.boot()

    async def _crash_worker(self) -> None:
        worker = self._chance.one_of(self._workers)
        if worker.process.runs:
            worker.crash()
            await asyncio.sleep(self._chance.between(0.1, 5))
            worker.boot()

    async def _freeze_worker(self) -> None:
        process = self._chance.one_of(self._workers).process
        self._tell(process.name, "is frozen")
        process.freeze()
        await asyncio.sleep(self._chance.between(1, 15))
        process.thaw()

    async def _crash_database(self) -> None:
        self._host.crash()
        await asyncio.sleep(self._chance.between(0.1, 4))
        self._host.restart()

    async def _fail_over(self) -> None:
        """The database is lost for longer than leases last, and what is promoted keeps another time."""
        self._host.crash()
        self._host.server.step(self._chance.one_of((-0.5, 0.5, -20, 20, -4 * 3600)))
        await asyncio.sleep(self._chance.between(2.0, 6.0))
        self._host.restart()

    async def _stall_database(self) -> None:
        self._host.stall()
        await asyncio.sleep(self._chance.between(0.2, 5))
        self._host.go_on()

    async def _step_clock(self) -> None:
        seconds = self._chance.one_of((-0.5, 0.5, -4, 4, 30, 100, -100, -3600, -4 * 3600, 4 * 3600))
        self._tell("trouble", f"the database's clock steps by {seconds} s")
        self._host.server.step(seconds)

    async def _steal_shard(self) -> None:
        """The lease of a leader that lives ends, by a hand in the table: another node takes the shard at once."""
        server = self._host.server
        shard = self._chance.one_of([*server.tables["shards"]])
        if ("shards", shard) not in server.holders:
            row = server.tables["shards"][shard]
            server.tables["shards"][shard] = {**row, "lease_expires_at": server.now() - timedelta(seconds=1)}

    async def _two_leaders(self) -> None:
        """A second node believes that it leads what another one leads, under the same term."""
        serving = [node for node in self._nodes if node.is_serving and node.plane is not None]
        if len(serving) < 2:
            return
        first, second = self._chance.in_some_order(serving)[:2]
        terms = dict(first.plane.leader.terms)  # type: ignore[union-attr]
        if terms:
            shard = self._chance.one_of([*terms])
            plane = second.plane
            second.process.context.run(plane.leader.take_shards, {shard: terms[shard]})  # type: ignore[union-attr]
            plane._loops["load"].wake()  # type: ignore[union-attr]

    async def _cut_network(self) -> None:
        cut = (self._chance.one_of(self._workers).name, self._chance.one_of(self._nodes).name)
        self._network.cuts.add(cut)
        await asyncio.sleep(self._chance.between(0.5, 10))
        self._network.cuts.discard(cut)
