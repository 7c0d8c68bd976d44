"""The other nodes of the cluster, and what can be asked of them.

A call that is not answered within a second is given up: whoever made it goes on without. What a peer offered is forgotten then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Sequence
from typing import Any, TypeVar
from uuid import UUID

import aiohttp
import msgspec

from horarium import errors
from horarium.protocol import peer_messages as wire
from horarium.services.batching import Batcher
from horarium.store.shards import NodeRow

ANSWER_WITHIN_S = 1.0
CONNECT_WITHIN_S = 1.0
REPORT_WITHIN_S = 3.0
KEEP_ALIVE_S = 30.0  # nodes close idle connections after 75 s; a request must not meet that moment
GATHER_HEARTBEATS_S = 0.02

M = TypeVar("M")

_offers = msgspec.json.Decoder(wire.Offers)
_grants = msgspec.json.Decoder(wire.LeaseGrants)
_beats = msgspec.json.Decoder(wire.HeartbeatAnswers)
_reports = msgspec.json.Decoder(wire.ReportAnswers)
_poked = msgspec.json.Decoder(wire.PokeAnswer)
_views = msgspec.json.Decoder(wire.View)
_anything = msgspec.json.Decoder()


class Caller:
    """Speaks to other nodes: with the cluster secret, over connections that are kept."""

    def __init__(self, own_id: str, secret: str) -> None:
        self.own_id = own_id
        self._secret = secret
        self._session: aiohttp.ClientSession | None = None

    async def post(self, node: NodeRow, path: str, content: bytes, timeout_s: float) -> bytes:
        """One exchange. UnreachableError when no answer came in time, or when it was a refusal."""
        headers = {
            "Authorization": f"Bearer {self._secret}",
            "Content-Type": "application/json",
            wire.VERSION_HEADER: str(wire.VERSION),
            wire.NODE_HEADER: node.id,
        }
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_WITHIN_S)
        try:
            async with self._opened().post(
                f"{node.url}{path}", data=content, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                answer: bytes = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise errors.UnreachableError(f"{node.url}: {str(error) or type(error).__name__}") from None
        if response.status >= 300:
            raise errors.UnreachableError(f"{node.url}: HTTP {response.status}: {_detail(answer)}")
        return answer

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)
            )
        return self._session


class Peer:
    """Another node. Its calls raise UnreachableError. `fault` is why the last one failed, None when it did not."""

    def __init__(self, node: NodeRow, caller: Caller) -> None:
        self.node = node
        self.offers: dict[str, int] = {}
        self.version = 0
        self.fault: str | None = None
        self._caller = caller
        self.lease = Batcher(self._lease)
        self.heartbeat = Batcher(self._heartbeat, gather_s=GATHER_HEARTBEATS_S)
        self._poked = Batcher(self._poke, gather_s=0.002, at_once=1)

    @property
    def id(self) -> str:
        return self.node.id

    async def look_at_offers(self, wanted: Sequence[str]) -> bool:
        """Wait for other offers than the known ones; returns whether they came."""
        request = wire.OffersRequest(self._caller.own_id, self.version, list(wanted))
        answer = await self._ask(wire.OFFERS_PATH, request, _offers, wire.OFFERS_WAIT_S + ANSWER_WITHIN_S)
        came = answer.version != self.version
        self._note(answer)
        return came

    async def give_back(self, held: Sequence[tuple[UUID, int]]) -> None:
        """Leases that reached no worker."""
        await self._ask(wire.GIVE_BACK_PATH, wire.GiveBack(list(held)), _anything)

    async def report(self, tenant: str, request: Any) -> wire.ReportAnswers:
        """A worker's report about runs that this peer leads."""
        reports = wire.Reports([wire.Report(tenant, request)])
        return await self._ask(wire.REPORT_PATH, reports, _reports, REPORT_WITHIN_S)

    async def poke(self, pokes: wire.Pokes) -> wire.PokeAnswer:
        """What an API call changed."""
        return await self._poked.add(pokes)

    async def view(self, request: wire.ViewRequest) -> wire.View:
        """What only this peer's memory knows."""
        return await self._ask(wire.VIEW_PATH, request, _views)

    def forget_offers(self) -> None:
        """What it offered may not be there any more."""
        self.offers, self.version = {}, 0

    async def _lease(self, asks: Sequence[wire.LeaseAsk]) -> list[list[msgspec.Raw]]:
        answer = await self._ask(wire.LEASE_PATH, wire.LeaseAsks(list(asks)), _grants)
        self._note(answer.offers)
        return answer.grants

    async def _heartbeat(self, beats: Sequence[wire.Heartbeat]) -> list[Any]:
        return (await self._ask(wire.HEARTBEAT_PATH, wire.Heartbeats(list(beats)), _beats)).answers

    async def _poke(self, pokes: Sequence[wire.Pokes]) -> list[wire.PokeAnswer]:
        together = wire.Pokes(
            [each for poke in pokes for each in poke.timers],
            [each for poke in pokes for each in poke.added],
            [each for poke in pokes for each in poke.removed],
            [each for poke in pokes for each in poke.cancelling],
            [each for poke in pokes for each in poke.edited],
            any(poke.freed for poke in pokes),
        )
        return [await self._ask(wire.POKE_PATH, together, _poked)] * len(pokes)

    def _note(self, offers: wire.Offers) -> None:
        self.offers, self.version = offers.queues, offers.version

    async def _ask(
        self, path: str, message: Any, decoder: msgspec.json.Decoder[M], timeout_s: float = ANSWER_WITHIN_S
    ) -> M:
        try:
            answer = await self._caller.post(self.node, path, wire.encode(message), timeout_s)
            found = decoder.decode(answer)
        except (errors.UnreachableError, msgspec.DecodeError) as error:
            self.forget_offers()
            self.fault = str(error)
            raise errors.UnreachableError(f"node {self.id}: {error}") from None
        self.fault = None
        return found


class Peers:
    """The live nodes beside this one that have an address."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._known: dict[str, Peer] = {}

    def update(self, nodes: Iterable[NodeRow]) -> None:
        """These are the live nodes now."""
        live = {node.id: node for node in nodes if node.url and node.id != self._caller.own_id}
        self._known = {node_id: self._known.get(node_id) or Peer(node, self._caller) for node_id, node in live.items()}

    def get(self, node_id: str | None) -> Peer | None:
        """The peer of an id."""
        return self._known.get(node_id or "")

    def __iter__(self) -> Iterator[Peer]:
        return iter(list(self._known.values()))

    def faults(self) -> list[str]:
        """The peers that could not be reached, each with the reason."""
        return [f"node {peer.id} cannot be reached: {peer.fault}" for peer in self if peer.fault]

    async def close(self) -> None:
        """Close the connections."""
        await self._caller.close()


def _detail(answer: bytes) -> str:
    try:
        problem = msgspec.json.decode(answer, type=dict[str, Any])
    except msgspec.DecodeError:
        return answer[:200].decode("utf-8", "replace")
    return str(problem.get("detail") or problem.get("title"))


async def quietly(call: Awaitable[object]) -> None:
    """Make a call whose failure nobody needs to hear of: what it was for happens a little later without it."""
    try:
        await call
    except errors.UnreachableError:
        return
