"""Requests of workers, where several sources have runs: the lanes of this node's planes, and other nodes.

A request waits in the dispatcher. A peer that has queued runs says so (`offers`); then the request is lent, the peer is asked,
and what it grants is the answer; otherwise the request waits on. So no slot is ever promised twice. What is granted for a
worker that has gone meanwhile is given back at once, and uses no attempt.

While a node is alone none of this is in the way: the dispatcher has no callbacks, and is all there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from horarium import errors
from horarium.domain import sourcing
from horarium.domain.lanes import Wanted
from horarium.protocol import peer_messages as wire
from horarium.services.dispatcher import Dispatcher, GiveBack
from horarium.services.offers import OfferBoard
from horarium.services.peers import Peer, Peers
from horarium.services.waiters import Waiter

IDLE_FOR_S = 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 1.0

_lease_names = msgspec.json.Decoder(wire.LeaseName)


@dataclass(slots=True)
class InVain:
    """A peer had nothing for these wishes, although it offers their queues: how often, and until when it is not asked again."""

    times: int = 0
    until: float = 0.0


class Switchboard:
    """Decides for each request of a worker which source serves it.

    `dispatchers` share their waiting requests. `on_asked` hears which peer was asked for runs for which worker; `on_wanted`
    that workers wait idle for a queue that they did not wait for before.
    """

    def __init__(self, dispatchers: Sequence[Dispatcher], board: OfferBoard, peers: Peers, give_back: GiveBack) -> None:
        self._dispatchers = dispatchers
        self._board = board
        self._peers = peers
        self._give_back = give_back
        self._turns = sourcing.Turns()
        self._in_vain: dict[tuple[str, Wanted], InVain] = {}
        self._wanted: dict[str, float] = {}
        self._matching = False
        self._fetching: set[asyncio.Task[None]] = set()
        self.on_asked: Callable[[str, Peer], None] = lambda worker_id, peer: None
        self.on_wanted: Callable[[], None] = lambda: None

    def connect(self, alone: bool) -> None:
        """Put the switchboard between workers and dispatchers, or out of the way."""
        for dispatcher in self._dispatchers:
            dispatcher.on_waiter = None if alone else self._came
            dispatcher.on_handed_out = None if alone else self._handed_out
            dispatcher.on_passed_on = self._wake_all

    def wanted(self) -> list[str]:
        """The queues that workers here waited idle for not long ago."""
        now = asyncio.get_running_loop().time()
        self._wanted = {queue: until for queue, until in self._wanted.items() if until > now}
        return sorted(self._wanted)

    def offered(self) -> None:
        """A peer offers something else than before: look who waits for it."""
        if not self._matching:
            self._matching = True
            asyncio.get_running_loop().call_soon(self._match)

    async def settle(self) -> None:
        """Wait for the requests that are lent."""
        await asyncio.gather(*self._fetching, return_exceptions=True)

    def _came(self, waiter: Waiter) -> None:
        """A new request: whose turn is it to serve it?"""
        sources = dict(self._sources(waiter.wanted))
        if not sources:
            self._idles(waiter)
            self._wake_all()
            return
        chosen = self._turns.next(sources, waiter.slots)
        if isinstance(chosen, Peer):
            self._lend(waiter, chosen)
        elif len(self._dispatchers) > 1:
            waiter.only = chosen if len(sources) > 1 else None
            chosen.wake()

    def _handed_out(self) -> None:
        self._board.stir()
        if self._dispatchers[0].waiting() and any(peer.offers for peer in self._peers):
            self.offered()

    def _sources(self, wanted: Wanted) -> Iterator[tuple[Dispatcher | Peer, int]]:
        """Who has runs queued that a request may want, and how many."""
        for place, dispatcher in enumerate(self._dispatchers):
            depth = sourcing.wanted_depth(wanted, self._board.of(place)) if dispatcher.has_queued() else 0
            if depth:
                yield dispatcher, depth
        for peer in self._peers:
            depth = sourcing.wanted_depth(wanted, peer.offers) if peer.offers else 0
            if depth and not self._is_in_vain(peer, wanted):
                yield peer, depth

    def _match(self) -> None:
        """Lend waiting requests to peers that offer their queues: no more than what is offered."""
        self._matching = False
        waiting = self._dispatchers[0].idle()
        for peer in self._peers:
            for waiter in waiting:
                if not peer.offers:
                    break
                depth = sourcing.wanted_depth(waiter.wanted, peer.offers)
                if depth and waiter.only is None and not self._is_in_vain(peer, waiter.wanted):
                    self._lend(waiter, peer)
            waiting = self._dispatchers[0].idle()

    def _lend(self, waiter: Waiter, peer: Peer) -> None:
        self._dispatchers[0].lend(waiter)
        sourcing.deduct(peer.offers, waiter.wanted, waiter.slots)
        self.on_asked(waiter.worker_id, peer)
        task = asyncio.get_running_loop().create_task(self._fetch(waiter, peer), name="fetch")
        self._fetching.add(task)
        task.add_done_callback(self._fetching.discard)

    async def _fetch(self, waiter: Waiter, peer: Peer) -> None:
        """Ask a peer, and answer the worker or let it wait on."""
        wanted = waiter.wanted
        handlers = None if wanted.handlers is None else sorted(wanted.handlers)
        queues = list(wanted.queues)
        ask = wire.LeaseAsk(waiter.worker_id, queues, waiter.slots, handlers, wanted.strict, wanted.tenant)
        try:
            leases = await peer.lease.add(ask)
        except errors.UnreachableError:
            leases = []
        if leases:
            self._in_vain.pop((peer.id, wanted), None)
            granted = [(name.run_id, name.fencing_token) for name in map(_lease_names.decode, leases)]
            if not self._dispatchers[0].hand(waiter, [bytes(lease).decode() for lease in leases], granted):
                await self._give_back(granted)
            self.offered()
            return
        if sourcing.wanted_depth(wanted, peer.offers):
            self._note_in_vain(peer, wanted)
        self._idles(waiter)
        self._dispatchers[0].wait_on(waiter)
        self._wake_all()

    def _idles(self, waiter: Waiter) -> None:
        """A request found nothing anywhere: its queues are wanted, so that peers release early for it."""
        until = asyncio.get_running_loop().time() + IDLE_FOR_S
        are_new = any(name not in self._wanted for name, _ in waiter.wanted.queues)
        self._wanted.update({name: until for name, _ in waiter.wanted.queues})
        if are_new:
            self.on_wanted()

    def _is_in_vain(self, peer: Peer, wanted: Wanted) -> bool:
        found = self._in_vain.get((peer.id, wanted))
        return found is not None and found.until > asyncio.get_running_loop().time()

    def _note_in_vain(self, peer: Peer, wanted: Wanted) -> None:
        loop = asyncio.get_running_loop()
        if len(self._in_vain) > 10_000:
            self._in_vain.clear()
        found = self._in_vain.setdefault((peer.id, wanted), InVain())
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(found.times, 10))
        found.times += 1
        found.until = loop.time() + pause
        loop.call_at(found.until + 0.001, self.offered)

    def _wake_all(self) -> None:
        if len(self._dispatchers) > 1:
            for dispatcher in self._dispatchers:
                dispatcher.wake()
