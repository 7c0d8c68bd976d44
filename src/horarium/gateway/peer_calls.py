"""The side of a node that other nodes speak to: `/v1/peer`, by hand on ASGI like the workers' wire.

Who knows the cluster secret may ask; it is compared in constant time. A caller that speaks another version of this wire, or
means another node, is refused in words.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec
import structlog
from starlette.types import Receive, Scope, Send

from horarium import errors
from horarium.domain import roles
from horarium.domain.job import Actor
from horarium.domain.lanes import Wanted
from horarium.gateway import app, reading
from horarium.protocol import messages
from horarium.protocol import peer_messages as wire
from horarium.services import routed_pokes
from horarium.services.cluster import Cluster
from horarium.services.forwarding import Attendant, shard_of

MAX_ANSWER_BYTES = 64 * 1024 * 1024

_log = structlog.get_logger("horarium.peers")

Call = Callable[[bytes], Awaitable[bytes]]


class PeerGateway:
    """An ASGI application for the calls of peers. `here` has an attendant for each plane of the node."""

    def __init__(self, own_id: str, secret: str, calls: PeerCalls) -> None:
        self._own_id = own_id
        self._secret = f"Bearer {secret}".encode()
        self._calls: dict[str, Call] = {
            wire.OFFERS_PATH: calls.offers,
            wire.LEASE_PATH: calls.lease,
            wire.GIVE_BACK_PATH: calls.give_back,
            wire.HEARTBEAT_PATH: calls.heartbeat,
            wire.REPORT_PATH: calls.report,
            wire.POKE_PATH: calls.poke,
            wire.VIEW_PATH: calls.view,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; whatever goes wrong becomes a problem document."""
        try:
            status, headers, body = await self._answer(scope, receive)
        except errors.HorariumError as error:
            status, headers, body = reading.refusal(error)
        except app.Disconnected:
            return
        except Exception:  # noqa: BLE001 - the peer is told, the log has the rest, the node goes on
            _log.exception("peer_call_failed", path=scope["path"])
            status, headers, body = reading.crash()
        await app.respond(send, status, headers, body)

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, reading.Headers, bytes]:
        call = self._calls.get(scope["path"])
        if call is None:
            raise errors.NotFoundError(f"there is no {scope['path']}")
        if scope["method"] != "POST":
            return reading.method_not_allowed(scope["method"])
        self._check(dict(scope["headers"]))
        body = await app.read(receive)
        return 200, [], await app.while_connected(call(body), receive)

    def _check(self, headers: dict[bytes, bytes]) -> None:
        if not hmac.compare_digest(headers.get(b"authorization", b""), self._secret):
            raise errors.UnauthenticatedError("this is not the cluster secret of this installation")
        spoken = headers.get(wire.VERSION_HEADER.lower().encode(), b"").decode("latin-1")
        if spoken != str(wire.VERSION):
            raise errors.ConflictError(
                f"this node speaks version {wire.VERSION} of the peers' wire, not {spoken or 'one without a number'}",
                "peer_version",
            )
        meant = headers.get(wire.NODE_HEADER.lower().encode(), b"").decode("latin-1")
        if meant != self._own_id:
            raise errors.ConflictError(f"this is node {self._own_id}, not {meant}", "another_node")


class PeerCalls:
    """What a peer can ask, from bytes to bytes."""

    def __init__(self, cluster: Cluster, here: Sequence[Attendant]) -> None:
        self._cluster = cluster
        self._planes = cluster.routes.planes
        self._here = here

    async def offers(self, body: bytes) -> bytes:
        """Long poll: what is queued here for workers of other nodes."""
        request = reading.decode(_offers, body)
        self._cluster.wanted_by(request.node, request.wanted)
        return wire.encode(await self._cluster.board.news(request.known, wire.OFFERS_WAIT_S))

    async def lease(self, body: bytes) -> bytes:
        """Runs for workers of the asking node: what there is now."""
        asks = reading.decode(_lease_asks, body).asks
        granted: list[list[str]] = [[] for _ in asks]
        for plane in self._planes:
            open_asks = [
                (place, (ask.worker, _wanted(ask), ask.slots - len(granted[place])))
                for place, ask in enumerate(asks)
                if ask.slots > len(granted[place])
            ]
            if not open_asks or not plane.dispatcher.has_queued():
                continue
            found = await plane.dispatcher.lease_now([ask for _, ask in open_asks])
            for (place, _), leases in zip(open_asks, found, strict=True):
                granted[place] += leases
        return await self._grants(granted)

    async def give_back(self, body: bytes) -> bytes:
        """Leases of this node's runs that reached no worker."""
        await self._cluster.give_back(reading.decode(_give_backs, body).held)
        return b"{}"

    async def heartbeat(self, body: bytes) -> bytes:
        """Heartbeats of workers of the asking node."""
        beats = reading.decode(_heartbeats, body).beats
        answers = await asyncio.gather(*(self._hear(beat) for beat in beats))
        return wire.encode(wire.HeartbeatAnswers(list(answers)))

    async def report(self, body: bytes) -> bytes:
        """Results from workers of the asking node."""
        reports = reading.decode(_reports, body).reports
        answers, not_led = [], set[int]()
        for report in reports:
            parts = self._by_place(report.request.results)
            not_led.update(shard_of(result.run_id) for result in parts.pop(None, []))
            calls = [
                self._here[place or 0].take_in(
                    _actor(report.tenant), messages.ReportRequest(report.request.worker, part)
                )
                for place, part in parts.items()
            ]
            answers.append(_together(await asyncio.gather(*calls)))
        return wire.encode(wire.ReportAnswers(answers, sorted(not_led)))

    async def poke(self, body: bytes) -> bytes:
        """What an API call of the asking node changed."""
        pokes = reading.decode(_pokes, body)
        if pokes.freed:
            self._cluster.look_now()
        not_led: set[int] = set()

        def leader_of(shard: int) -> int | None:
            place = self._led_at(shard)
            if place is None:
                not_led.add(shard)
            return place

        for target, part in routed_pokes.split(pokes, leader_of).items():
            if isinstance(target, int):
                routed_pokes.repeat(part, self._planes[target].leader)
        return wire.encode(wire.PokeAnswer(sorted(not_led)))

    async def view(self, body: bytes) -> bytes:
        """What only this node's memory knows."""
        request = reading.decode(_views, body)
        if not 0 <= request.place < len(self._planes):
            raise errors.NotFoundError(f"this node has no database at place {request.place}")
        view = self._planes[request.place].view
        if request.run is not None:
            return wire.encode(wire.View(progress=await view.progress(request.run)))
        depths = [
            wire.Depth(state.name, state.tenant_id, state.scheduled, state.queued, state.running, state.oldest_due_s)
            for state in (await view.queues()).states
        ]
        return wire.encode(wire.View(depths))

    async def _hear(self, beat: wire.Heartbeat) -> messages.HeartbeatResponse:
        """Each plane hears the worker, with the runs of its shards."""
        parts = self._by_place(beat.request.runs)
        unled = [run.run_id for run in parts.pop(None, [])]
        answers = [
            await attendant.hear(
                _actor(beat.tenant), messages.HeartbeatRequest(beat.request.worker, parts.get(place, []))
            )
            for place, attendant in enumerate(self._here)
        ]
        return messages.HeartbeatResponse(
            min(answer.lease_s for answer in answers),
            [run_id for answer in answers for run_id in answer.lost],
            [run_id for answer in answers for run_id in answer.cancel],
            [*unled, *(run_id for answer in answers for run_id in answer.unsure)],
        )

    async def _grants(self, granted: list[list[str]]) -> bytes:
        """The leases as they are, for as many bytes as an answer may have; what does not fit goes back."""
        size, homeless = 0, list[tuple[Any, int]]()
        for leases in granted:
            for index, lease in enumerate(leases):
                size += len(lease)
                if size > MAX_ANSWER_BYTES:
                    names = map(_lease_names.decode, leases[index:])
                    homeless += [(name.run_id, name.fencing_token) for name in names]
                    del leases[index:]
                    break
        if homeless:
            await self._cluster.give_back(homeless)
        grants = ",".join("[" + ",".join(leases) + "]" for leases in granted)
        offers = wire.encode(self._cluster.board.now()).decode()
        return f'{{"grants":[{grants}],"offers":{offers}}}'.encode()

    def _by_place(self, listed: Iterable[Any]) -> dict[int | None, list[Any]]:
        parts: dict[int | None, list[Any]] = {}
        for run in listed:
            parts.setdefault(self._led_at(shard_of(run.run_id)), []).append(run)
        return parts

    def _led_at(self, shard: int) -> int | None:
        """The place of the plane here that leads a shard."""
        return next((place for place, plane in enumerate(self._planes) if plane.leader.leads(shard)), None)


def _actor(tenant: str) -> Actor:
    return Actor(tenant, "peer", roles.Role.WORKER)


def _wanted(ask: wire.LeaseAsk) -> Wanted:
    handlers = None if ask.handlers is None else frozenset(ask.handlers)
    return Wanted(tuple((name, float(weight)) for name, weight in ask.queues), handlers, ask.strict, ask.tenant)


def _together(answers: Sequence[messages.ReportResponse]) -> messages.ReportResponse:
    return messages.ReportResponse(
        [run_id for answer in answers for run_id in answer.accepted],
        [run_id for answer in answers for run_id in answer.lost],
    )


_offers = msgspec.json.Decoder(wire.OffersRequest)
_lease_asks = msgspec.json.Decoder(wire.LeaseAsks)
_lease_names = msgspec.json.Decoder(wire.LeaseName)
_give_backs = msgspec.json.Decoder(wire.GiveBack)
_heartbeats = msgspec.json.Decoder(wire.Heartbeats)
_reports = msgspec.json.Decoder(wire.Reports)
_pokes = msgspec.json.Decoder(wire.Pokes)
_views = msgspec.json.Decoder(wire.ViewRequest)
