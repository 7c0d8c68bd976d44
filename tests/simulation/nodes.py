"""A node: the production duties, wired as `ControlPlane` wires them, and what people and workers can call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from horarium import errors
from horarium.events import Event, Events, Name
from horarium.gateway.peer_calls import PeerCalls
from horarium.gateway.worker_calls import WorkerCalls
from horarium.protocol import peer_messages as wire
from horarium.services.canceller import Canceller
from horarium.services.catalog import Catalog
from horarium.services.cluster import Cluster
from horarium.services.control_plane import ControlPlane, Timing
from horarium.services.manual import Manual
from horarium.services.registry import Node
from horarium.services.resumer import Resumer
from horarium.store.shards import NodeRow
from tests.simulation.chance import Chance
from tests.simulation.clocks import CLOCK, some_clock
from tests.simulation.database import Host, SimulatedDatabase
from tests.simulation.loop import Process
from tests.simulation.network import Network, NoAnswer

NOT_SIMULATED = ("partitions", "pruner", "watch")
"""Dropping old days and reading figures order nothing; their statements are about what the model has not."""

STOP_WITHIN_S = 15.0

Tell = Callable[[str, str], None]


class QuietEvents(Events):
    """Events for the trace instead of the log."""

    def __init__(self, name: str, tell: Tell) -> None:
        super().__init__()
        self._name = name
        self._tell = tell

    def tell(self, name: Name, **fields: Any) -> None:
        event = Event(name, fields)
        for listener in self._listeners:
            listener(event)
        self._tell(self._name, f"{name} {fields}")


class SimulatedNode:
    """A machine on which the server is started, and started again when it ends."""

    def __init__(
        self, name: str, host: Host, network: Network, chance: Chance, timing: Timing, shards: int, tell: Tell
    ) -> None:
        self.name = name
        self.network = network
        self._host = host
        self._chance = chance
        self._timing = timing
        self._shards = shards
        self._tell = tell
        self._boots = 0
        self.process = Process(name)
        self.past: list[Process] = []
        self.others: Sequence[SimulatedNode] = ()
        self.own_id = ""
        self.plane: ControlPlane | None = None
        self.cluster: Cluster | None = None
        self.peer_calls: PeerCalls | None = None
        self.calls: WorkerCalls | None = None
        self.catalog: Catalog | None = None
        self.manual: Manual | None = None
        self.canceller: Canceller | None = None

    @property
    def is_serving(self) -> bool:
        return self.process.runs and self.catalog is not None

    def boot(self) -> None:
        """Start the server, as a new process with nothing in its memory."""
        self._boots += 1
        self.past.append(self.process)
        self.process = Process(self.name)
        self.process.context.run(CLOCK.set, some_clock(self._chance))
        self.process.spawn(self._serve())

    def crash(self) -> None:
        """kill -9: its connections end, its leases do not."""
        self._tell(self.name, "crashes")
        self.process.kill()
        self._forget()
        self._cut_connections()

    async def stop(self) -> None:
        """SIGTERM: an orderly end."""
        cluster = self.cluster
        if cluster is None or not self.process.runs:
            return
        self._tell(self.name, "stops")
        self.catalog = self.manual = self.canceller = None  # workers and peers are served to the end
        process = self.process
        await asyncio.wait(
            {process.spawn(cluster.stop())}, timeout=STOP_WITHIN_S
        )  # it may be frozen or killed meanwhile
        if self.process is process:
            process.kill()
            self._forget()
            self._cut_connections()

    def _forget(self) -> None:
        self.plane = self.cluster = self.calls = self.peer_calls = self.catalog = self.manual = self.canceller = None

    def _cut_connections(self) -> None:
        for session in list(self._host.sessions):
            if session.owner is self.process:
                session.cut(self._chance.between(0.0, 2.0) if self._chance.happens(0.3) else self._chance.short())

    async def _serve(self) -> None:
        """Until it starts, a supervisor tries again."""
        plane = None
        while plane is None:
            plane = await self._started()
        self._tell(self.name, f"serves, boot {self._boots}")

    async def _started(self) -> ControlPlane | None:
        database = SimulatedDatabase(self._host)
        try:
            await database.open()
        except errors.UnavailableError:
            await asyncio.sleep(0.5)
            return None
        # A node that is started anew has another id.
        own = Node(f"{self.name}.{self._boots}", f"http://{self.name}", "0", self.name, self._boots)
        plane = ControlPlane(database, own, QuietEvents(self.name, self._tell), self._timing)
        for name in NOT_SIMULATED:
            del plane._loops[name]
        plane.sweeper.rows_at_once = self._chance.one_of((3, 5_000))  # much may happen between two pages
        cluster = Cluster(own.id, "secret", [plane])
        cluster.peers._caller = SimulatedCaller(own.id, self)  # type: ignore[assignment]
        clock, pokes = plane.clock, cluster.pokes
        catalog = Catalog(database, clock, pokes, self._shards)
        plane.add_duty("resumer", Resumer(database, clock, catalog).run_once)
        calls = WorkerCalls(plane.leader, plane.dispatcher, plane.completer, plane.reaper, plane.registry)
        calls.forwarding = cluster.attend([calls])
        try:
            await cluster.start()
        except errors.UnavailableError:
            with suppress(errors.UnavailableError):
                await cluster.stop()
            await asyncio.sleep(0.5)
            return None
        self.plane, self.cluster, self.catalog, self.calls = plane, cluster, catalog, calls
        self.peer_calls = PeerCalls(cluster, [calls])
        self.own_id = own.id
        self.manual = Manual(database, clock, pokes)
        self.canceller = Canceller(database, clock, pokes)
        return plane


class SimulatedCaller:
    """What `Peer` sees of `services.peers.Caller`: calls to other nodes go over the simulated network."""

    def __init__(self, own_id: str, node: SimulatedNode) -> None:
        self.own_id = own_id
        self._node = node

    async def post(self, node: NodeRow, path: str, content: bytes, timeout_s: float) -> bytes:
        """As `Caller.post`. A node that is called by the name of its former self refuses, as `PeerGateway` does."""
        there = next(each for each in self._node.others if f"http://{each.name}" == node.url)
        if there.peer_calls is None:
            await asyncio.sleep(0.001)
            raise errors.UnreachableError(f"{node.url} refuses connections")
        call: Callable[[bytes], Awaitable[bytes]] = getattr(there.peer_calls, VERBS[path])

        async def answered() -> bytes:
            if there.own_id != node.id:
                raise errors.UnreachableError(f"this is node {there.own_id}, not {node.id}")
            return await call(content)

        try:
            answer: bytes = await self._node.network.call(self._node.name, there.process, answered, timeout_s)
        except (NoAnswer, errors.HorariumError) as error:
            raise errors.UnreachableError(f"{node.url}: {error}") from None
        return answer

    async def close(self) -> None:
        """There is nothing to close."""


VERBS = {
    wire.OFFERS_PATH: "offers",
    wire.LEASE_PATH: "lease",
    wire.GIVE_BACK_PATH: "give_back",
    wire.HEARTBEAT_PATH: "heartbeat",
    wire.REPORT_PATH: "report",
    wire.POKE_PATH: "poke",
    wire.VIEW_PATH: "view",
}
