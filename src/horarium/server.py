"""The wiring of a node, and nothing else: database, duties, services, HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import os
import signal
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib import metadata
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from horarium import config, errors, logs
from horarium.api import app as api_app
from horarium.api.services import Services
from horarium.domain import zones
from horarium.events import Events
from horarium.gateway.app import Gateway
from horarium.gateway.peer_calls import PeerCalls, PeerGateway
from horarium.gateway.worker_calls import WorkerCalls
from horarium.protocol.peer_messages import PREFIX as PEER_PREFIX
from horarium.services import spread
from horarium.services.cluster import Cluster
from horarium.services.control_plane import ControlPlane, Timing
from horarium.services.keys import Keys
from horarium.services.mender import Mender
from horarium.services.metrics import Metrics
from horarium.services.registry import Node
from horarium.services.resumer import Resumer
from horarium.store.databases import Databases

WORKER_PREFIX = "/v1/worker/"
STOP_WITHIN_S = 10


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A running node: where it answers, and its id."""

    url: str
    node_id: str
    version: str


Ready = Callable[[ServerInfo], None]


async def serve(
    settings: config.Settings,
    *,
    ready: Ready = lambda info: None,
    stop: asyncio.Event | None = None,
    shares_port: bool = False,
) -> None:
    """Run one node until it is told to stop, by SIGTERM, SIGINT or `stop`.

    `ready` is called once, when the node answers. `shares_port`: other nodes on this machine listen on the same port; peers reach
    each at a port of its own. Raises ConfigurationError when the database's schema is not the one this
    version needs, UnavailableError when the database cannot be reached, OSError when the port is taken.
    """
    logs.configure(settings.log_format, settings.log_level)
    zones.check_zone_data()
    listeners = [_listen(settings.host, settings.port, shared=shares_port)]
    if shares_port:
        listeners.append(_listen(settings.host, 0))
    databases = Databases.at(settings.databases, pool_size=settings.pool_size, statement_cache=settings.statement_cache)
    await databases.open()
    try:
        await _run(settings, databases, listeners, ready, stop)
    finally:
        for listener in listeners:
            listener.close()
        await databases.close()


async def _run(
    settings: config.Settings,
    databases: Databases,
    listeners: Sequence[socket.socket],
    ready: Ready,
    stop: asyncio.Event | None,
) -> None:
    calm_collector()
    facts = await databases.load()
    node = _node(settings, listeners)
    events = Events()
    planes = [ControlPlane(each, node, events, _timing(settings), settings.max_ready) for each in databases.all]
    secret = settings.cluster_secret or _cluster_secret(facts)
    cluster = Cluster(node.id, secret, planes)
    application = _application(settings, databases, cluster, facts, secret)
    await cluster.start(patient=databases.are_several)
    try:
        server = _Server(_uvicorn(settings, application))
        server.when_started = lambda: ready(ServerInfo(shown_url(settings, listeners[0]), node.id, node.version))
        server.when_stopping = cluster.drain
        ended = asyncio.create_task(server.serve(sockets=[*listeners]))
        if stop is not None:
            stopper = asyncio.create_task(_stop_when(stop, server))
            await ended
            stopper.cancel()
        else:
            await ended
    finally:
        await cluster.stop()


def calm_collector() -> None:
    """Live runs are many small objects without cycles: looking through them all again and again is the collector's waste.

    Measured end to end: 75 µs of CPU a run with the usual thresholds, 46 µs with these.
    """
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def _application(
    settings: config.Settings,
    databases: Databases,
    cluster: Cluster,
    facts: dict[str, str],
    secret: str,
) -> ASGIApp:
    """Three applications behind one address: the workers' wire, the peers' wire, and everything else."""
    planes = cluster.routes.planes
    plane = planes[0]
    keys = Keys(databases.home)
    shards = int(facts["shards"])
    services = spread.over(
        databases,
        [each.clock for each in planes],
        [cluster.view(place) for place in range(len(planes))],
        [cluster.pokes] * len(planes),
        shards,
    )
    for each, part in zip(planes, services.parts, strict=True):
        each.add_duty("resumer", Resumer(part.database, part.clock, part.catalog).run_once)
    if databases.are_several:
        plane.add_duty("databases", Mender(databases, cluster.own_id).run_once)
    api = Services(
        databases=databases,
        clock=plane.clock,
        catalog=services.catalog,
        manual=services.manual,
        canceller=services.canceller,
        keys=keys,
        inspector=services.inspector,
        cursor_secret=bytes.fromhex(facts["cursor_secret"]),
        render_metrics=Metrics(metadata.version("horarium"), planes, plane.events, cluster.peers).render,
        unready=cluster.unready,
        warnings=cluster.warnings,
        shards=shards,
    )
    calls = [WorkerCalls(each.leader, each.dispatcher, each.completer, each.reaper, each.registry) for each in planes]
    calls[0].forwarding = cluster.attend(calls)
    peers = PeerGateway(cluster.own_id, secret, PeerCalls(cluster, calls))
    return _Split(Gateway(keys, calls[0]), peers, api_app.build(api), settings.base_path)


def _cluster_secret(facts: dict[str, str]) -> str:
    """What the nodes of an installation know and nobody else, where no other secret is set."""
    return hashlib.blake2b(b"cluster", key=bytes.fromhex(facts["cursor_secret"])).hexdigest()


class _Split:
    """Sends the wires of workers and peers past the public API's layers."""

    def __init__(self, gateway: ASGIApp, peers: ASGIApp, api: ASGIApp, base_path: str) -> None:
        self._gateway = gateway
        self._peers = peers
        self._api = api
        self._base_path = base_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            if self._base_path and path.startswith(self._base_path + "/"):
                path = path.removeprefix(self._base_path)
                raw_path = scope["raw_path"].removeprefix(self._base_path.encode())
                scope = {**scope, "path": path, "raw_path": raw_path, "root_path": self._base_path}
            if path.startswith(WORKER_PREFIX):
                await self._gateway(scope, receive, send)
                return
            if path.startswith(PEER_PREFIX):
                await self._peers(scope, receive, send)
                return
        await self._api(scope, receive, send)


class _Server(uvicorn.Server):
    """uvicorn, telling when it answers and when it begins to stop."""

    when_started: Callable[[], None]
    when_stopping: Callable[[], object]

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGTERM and SIGINT. uvicorn would raise the signal again at its own end, before everything else has ended."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.when_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.when_stopping()  # type: ignore[misc]  # a coroutine function, kept loose for the lambda above
        await super().shutdown(sockets)


async def _stop_when(stop: asyncio.Event, server: uvicorn.Server) -> None:
    await stop.wait()
    server.should_exit = True


def _uvicorn(settings: config.Settings, application: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http="httptools",
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=STOP_WITHIN_S,
        backlog=4096,
    )


def _listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Take the port first: a taken one is told before anything is started. `shared`: others that say so may have it, too."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise errors.ConfigurationError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another with --port (0 takes a free one)"
        ) from error
    listener.setblocking(False)
    return listener


def shown_url(settings: config.Settings, listener: socket.socket) -> str:
    """The address of a listener, as people and peers on this machine write it."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104 - shown, not bound
    return f"http://{shown}:{port}{settings.base_path}"


def _node(settings: config.Settings, listeners: Sequence[socket.socket]) -> Node:
    host = socket.gethostname()
    node_id = f"{host}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    return Node(node_id, _peer_url(settings, listeners), metadata.version("horarium"), host, os.getpid())


def _peer_url(settings: config.Settings, listeners: Sequence[socket.socket]) -> str:
    """Where peers reach this node: as configured; where it shares its port, at its own port on the configured host."""
    if settings.node_url is None:
        return shown_url(settings, listeners[-1])
    if len(listeners) == 1:
        return settings.node_url
    host = urlsplit(settings.node_url).hostname or ""
    own_port = listeners[-1].getsockname()[1]
    return f"http://{f'[{host}]' if ':' in host else host}:{own_port}{settings.base_path}"


def hold_port(host: str, port: int) -> socket.socket:
    """Take a port for several nodes of this machine, without listening. ConfigurationError when somebody else has it."""
    alone = _listen(host, port)
    number = alone.getsockname()[1]
    alone.close()
    return _listen(host, number, shared=True)


def _timing(settings: config.Settings) -> Timing:

    return Timing(
        settings.lookahead,
        settings.lease,
        settings.early_claim,
        settings.sweep_interval,
        timedelta(days=settings.history_days),
        settings.snapshot_alarm,
    )
