"""A worker process: takes leases, has handlers carry them out, reports how they ended.

    claimer ──leases──► worker ──(at the instant)──► carrier = handler, HTTP target, command
                          │                              │ value or error
       heartbeat ◄── held attempts                    outcome ──► reporter ──► settled: no longer held

`held` is the heart: every attempt from the arrival of its lease until its result is placed. The heartbeat lists it, so
the server never wonders about a run whose result is still on its way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import UNSET

import horarium
from horarium import errors
from horarium.protocol import messages
from horarium.sdk import attempt as attempts
from horarium.sdk import claimer, deadlines, heartbeat, link, outcome, reporter, starts, tasks
from horarium.sdk import nodes as nodes_

STOPPING_S = 5.0  # how long a handler that was told to stop may take
LAST_S = 5.0  # what comes after the grace period: handlers that are broken off, results, goodbye
KNOWN_TARGETS, SHORT_TARGET = 1_000, 250  # targets whose text need not be read again
MAX_BACKLOG = 10_000  # results that may wait for a server before no more runs are taken

_log = logging.getLogger("horarium.worker")

Carrier = Callable[[attempts.Attempt], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Options:
    """What a worker serves. `strict`: the queues in their order, instead of by weight."""

    queues: Sequence[messages.QueueWeight] = (messages.QueueWeight("default"),)
    strict: bool = False
    slots: int = 20
    grace_s: float = 25.0
    wait_s: float = 30.0


class UnknownHandlerError(errors.HorariumError):
    """A run came for a handler that this worker does not have."""

    title = "No such handler"


class Worker:
    """One worker. `carriers` maps the names it can run (`@http` and `@command` for built-in targets) to who does."""

    def __init__(self, nodes: nodes_.Nodes, carriers: Mapping[str, Carrier], options: Options) -> None:
        self.info = identify()
        self._options = options
        self._carriers = carriers
        self._by_target: dict[bytes, Carrier] = {}
        self._link = link.Link(nodes)
        self._held: dict[str, attempts.Attempt] = {}
        self._running = 0
        self._idle = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._claimer = claimer.Claimer(options.slots, self._ask, self._receive)
        self._reporter = reporter.Reporter(self._report, self._settle)
        self._tasks = tasks.Tasks(self._carry_out)
        self._starts = starts.Starts(self._start)
        self._deadlines = deadlines.Deadlines(self._held, self._on_deadline)
        self._heartbeat = heartbeat.Heartbeat(nodes, self.info, self._held, self._tell_loop)

    async def run(self) -> None:
        """Work until `stop` is called, then wind down. RequestError when the server refuses the worker's first request."""
        self._loop = asyncio.get_running_loop()
        self._heartbeat.start()
        claiming = self._loop.create_task(self._claimer.run())
        stopping = self._loop.create_task(self._stopping.wait())
        try:
            await asyncio.wait({claiming, stopping}, return_when=asyncio.FIRST_COMPLETED)
            claiming.cancel()
            stopping.cancel()
            await self._wind_down()
        finally:
            self._deadlines.stop()
            self._heartbeat.stop()
            self._reporter.close()
            await self._link.close()
        if claiming.done() and not claiming.cancelled():
            claiming.result()

    def stop(self) -> None:
        """Take no more runs; end when those at work are through or the grace period is over. Called again: end now."""
        if self._stopping.is_set():
            self._hurrying.set()
        self._stopping.set()

    # ── leases in ──

    async def _ask(self, slots: int) -> messages.LeaseResponse:
        if self._reporter.backlog > MAX_BACKLOG:
            raise errors.UnreachableError(f"{self._reporter.backlog} results wait for a server to take them")
        options = self._options
        request = messages.LeaseRequest(
            self.info, list(options.queues), slots, options.wait_s, list(self._carriers), options.strict
        )
        try:
            return await self._link.lease(request)
        except errors.UnreachableError:
            self._heartbeat.answer_lost()
            raise

    def _receive(self, response: messages.LeaseResponse, received_at: float) -> int:
        if response.drain:
            self._link.nodes.leave(self._link.nodes.url)
        counted_from = received_at - response.age_s
        return sum([self._take(lease, counted_from) for lease in response.leases])

    def _take(self, lease: messages.Lease, counted_from: float) -> bool:
        known = self._held.get(lease.run_id)
        if known is not None and known.lease.fencing_token >= lease.fencing_token:
            return False  # an answer that came twice
        if known is not None and known.mark_stopped(attempts.Stop.LOST):
            self._break_off(known)
        attempt = attempts.Attempt(lease, counted_from)
        self._held[lease.run_id] = attempt
        self._running += 1
        self._heartbeat.expect(lease.lease_s)
        if self._stopping.is_set():  # given just before the poll was broken off
            self._stop_all([attempt])
        elif lease.start_in_s > 0:
            self._starts.add(counted_from + lease.start_in_s, attempt)
        else:
            self._start(attempt)
        return True

    # ── a run ──

    def _start(self, attempt: attempts.Attempt) -> None:
        self._tasks.start(attempt)

    async def _carry_out(self, attempt: attempts.Attempt) -> None:
        attempt.started = True
        result: messages.Result | None
        try:
            now = time.monotonic()
            if now >= attempt.lease_until:  # this process stood still: another worker may have the run by now
                attempt.mark_stopped(attempts.Stop.LOST)
            if attempt.stop is not None:
                raise asyncio.CancelledError
            attempt.deadline = now + attempt.lease.timeout_s
            self._deadlines.watch(attempt)
            value = await self._carrier_of(attempt.lease)(attempt)
        except GeneratorExit:  # the loop is gone, nothing can be reported
            raise
        except BaseException as error:  # noqa: BLE001 - sys.exit() in a handler ends its run, not the worker
            result = outcome.of_error(attempt, error)
        else:
            result = outcome.of_value(attempt, value)
        self._end(attempt, result)

    def _carrier_of(self, lease: messages.Lease) -> Carrier:
        text = bytes(lease.target)
        carrier = self._by_target.get(text)
        if carrier is None:
            carrier = self._find_carrier(lease)
            if len(self._by_target) < KNOWN_TARGETS and len(text) < SHORT_TARGET:
                self._by_target[text] = carrier
        return carrier

    def _find_carrier(self, lease: messages.Lease) -> Carrier:
        target = messages.targets.decode(lease.target)
        name = target.handler
        if name is None:
            name = messages.HTTP_HANDLER if target.http is not UNSET else messages.COMMAND_HANDLER
        carrier = self._carriers.get(name)
        if carrier is None:
            raise UnknownHandlerError(f"this worker has no handler {name!r}")
        return carrier

    def _end(self, attempt: attempts.Attempt, result: messages.Result | None) -> None:
        self._running -= 1
        self._claimer.release()
        if not self._running:
            self._idle.set()
        if not attempt.ended:
            self._conclude(attempt, result)

    def _conclude(self, attempt: attempts.Attempt, result: messages.Result | None) -> None:
        attempt.ended = True
        attempt.deadline = math.inf
        if result is None:
            self._forget(attempt)
        else:
            self._reporter.add(result)

    # ── breaking off ──

    def _on_deadline(self, attempt: attempts.Attempt) -> None:
        if attempt.mark_stopped(attempts.Stop.TIMED_OUT):
            self._break_off(attempt)
        else:
            self._give_up(attempt)

    def _tell_loop(self, attempt: attempts.Attempt) -> None:
        """From the heartbeat's thread: this attempt was marked lost or cancelled."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: everything has ended
            self._loop.call_soon_threadsafe(self._break_off, attempt)

    def _break_off(self, attempt: attempts.Attempt) -> None:
        """Make an attempt stop that was marked so; it is given up when it takes too long."""
        if attempt.stop is attempts.Stop.LOST:
            self._forget(attempt)
        if not attempt.ended:
            attempt.deadline = time.monotonic() + STOPPING_S
            self._deadlines.watch(attempt)
            attempt.interrupt()

    def _give_up(self, attempt: attempts.Attempt) -> None:
        """Report an attempt that does not stop. It keeps its slot until it ends after all."""
        stop = attempt.stop or attempts.Stop.SHUT_DOWN
        _log.error(
            "run %s does not stop (%s); it is reported as ended and keeps its slot", attempt.lease.run_id, stop.value
        )
        self._conclude(attempt, outcome.of_stop(attempt, stop))

    def _forget(self, attempt: attempts.Attempt) -> None:
        if self._held.get(attempt.lease.run_id) is attempt:
            del self._held[attempt.lease.run_id]

    # ── results out ──

    async def _report(self, results: Sequence[messages.Result]) -> messages.ReportResponse:
        return await self._link.report(messages.report_of(self.info, results))

    def _settle(self, results: Sequence[messages.Result]) -> None:
        for result in results:
            attempt = self._held.get(result.run_id)
            if attempt is not None and attempt.lease.fencing_token == result.fencing_token:
                del self._held[result.run_id]

    # ── the end ──

    async def _wind_down(self) -> None:
        """Finish what is at work within the grace period, break off the rest, place all results, say goodbye."""
        end_by = time.monotonic() + self._options.grace_s + LAST_S
        self._stop_all(self._starts.take_all())
        if not await self._until_idle(self._options.grace_s, self._hurrying):
            end_by = min(end_by, time.monotonic() + LAST_S)
            self._stop_all(list(self._held.values()))
            await self._until_idle(LAST_S / 2)
            for attempt in [held for held in self._held.values() if not held.ended]:
                self._give_up(attempt)
        if not await self._reporter.drain(max(1.0, end_by - time.monotonic())):
            _log.error("the results of %d runs could not be placed", len(self._held))
        with contextlib.suppress(errors.HorariumError):  # the server notices by itself, only later
            await self._link.stop(self.info)

    def _stop_all(self, stopping: Sequence[attempts.Attempt]) -> None:
        for attempt in stopping:
            if attempt.ended or not attempt.mark_stopped(attempts.Stop.SHUT_DOWN):
                continue
            if not attempt.is_handed_on:
                self._start(attempt)  # which sees that it must not begin
            else:
                attempt.interrupt()

    async def _until_idle(self, timeout_s: float, unless: asyncio.Event | None = None) -> bool:
        """Wait until no handler is at work; False when the time is over or `unless` happened first."""
        if not self._running:
            return True
        self._idle.clear()
        waits = [self._loop.create_task(event.wait()) for event in (self._idle, unless) if event is not None]
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        return not self._running


def identify() -> messages.WorkerInfo:
    """Who this process is: an id that no other process has, and where to look for it."""
    host = socket.gethostname()
    unique = f"{host[:100]}-{os.getpid()}-{secrets.token_hex(4)}"
    return messages.WorkerInfo(unique, horarium.__version__, host, os.getpid())
