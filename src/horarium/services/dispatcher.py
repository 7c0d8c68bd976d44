"""Step 4 of a run's life: a worker asks. One claim for all workers that asked while the last claim was under way.

A worker's request waits here until there is work for it (long poll) or its wait is over. Choosing is done in memory, at the
moment of handing out; the claim then goes to rows by primary key. When a worker waits idle, runs are claimed a little before
their instant and sent with `start_in_s`, so that neither commit nor network is part of the lag.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from uuid import UUID

from horarium import errors
from horarium.domain.lanes import Wanted
from horarium.events import Events, Name
from horarium.protocol.lease_text import lease_text
from horarium.services.leader import Leader
from horarium.services.releaser import Releaser
from horarium.services.waiters import Answer, Batch, Waiter
from horarium.store import runs
from horarium.store.database import Database

CLAIMS_AT_ONCE = 2
RUNS_PER_CLAIM = 1_500
ENOUGH = 250  # of one worker: another's are the next claim, which then names one worker, and is written beside this one
LOOK_AT_LEAST_EVERY_S = 1.0
PAUSE_AFTER_FAULT_S = 0.2
CLOCK_CORRECTION_S = 1.0


def _nothing() -> None:
    return None


GiveBack = Callable[[Sequence[tuple[UUID, int]]], Coroutine[None, None, None]]
Refuse = Callable[[Sequence[tuple[UUID, int]], str], Awaitable[None]]


class Dispatcher:
    """Hands ready runs to the workers that wait."""

    def __init__(
        self, database: Database, leader: Leader, releaser: Releaser, events: Events, early: timedelta = timedelta()
    ) -> None:
        self._database = database
        self._leader = leader
        self._releaser = releaser
        self._events = events
        self._early_s = early.total_seconds()
        self._waiters: dict[Waiter, None] = {}
        self._visitors: dict[Waiter, None] = {}
        self._wake = asyncio.Event()
        self._claims: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self.give_back: GiveBack | None = None
        self.refuse: Refuse | None = None
        self.on_waiter: Callable[[Waiter], None] | None = None
        self.on_passed_on: Callable[[], None] = _nothing
        self.on_handed_out: Callable[[], None] | None = None
        self.early_for_others = False
        self.draining = False
        self._per_claim = RUNS_PER_CLAIM
        self._under_way: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin handing out."""
        self._task = asyncio.create_task(self._run(), name="dispatcher")

    async def stop(self) -> None:
        """Answer whoever waits with nothing, finish the claims under way, and end."""
        self.draining = True
        for waiter in list(self._waiters):
            self._answer(waiter, [])
        await asyncio.gather(*self._claims, *self._under_way, return_exceptions=True)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def wake(self) -> None:
        """Something became ready, or may have."""
        self._wake.set()

    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiters)

    def share_waiters(self, other: Dispatcher) -> None:
        """Serve the same workers as another one: a request that waits is answered by whoever has runs first."""
        self._waiters = other._waiters

    def has_queued(self) -> bool:
        """Whether runs wait for workers here."""
        return self._leader.ready.has_queued()

    def idle(self) -> list[Waiter]:
        """The requests that wait, in the order they came."""
        return list(self._waiters)

    def lend(self, waiter: Waiter) -> None:
        """Take a request out, to ask elsewhere for it. It comes back by `hand` or `wait_on`."""
        self._waiters.pop(waiter, None)

    def hand(self, waiter: Waiter, leases: list[str], granted: list[tuple[UUID, int]]) -> bool:
        """Answer a request that was lent with what came from elsewhere; False when nobody waits for it any more."""
        if waiter.answer.done():
            return False
        waiter.granted = granted
        self._answer(waiter, leases)
        return True

    def wait_on(self, waiter: Waiter) -> None:
        """A request that was lent, or whose claim failed, waits to its end, unless that has come."""
        if waiter.answer.done() or self.draining or asyncio.get_running_loop().time() >= waiter.until:
            self._answer(waiter, [])
        else:
            self._waiters[waiter] = None
            self._wake.set()

    async def lease_now(self, asks: Sequence[tuple[str, Wanted, int]]) -> list[list[str]]:
        """Runs for the workers of another node, as (worker, wanted, slots): what is queued now, without waiting for more."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        visitors = [Waiter(worker, wanted, slots, loop.create_future(), now) for worker, wanted, slots in asks]
        if self.draining:
            return [[] for _ in visitors]
        self._visitors.update(dict.fromkeys(visitors))
        self._wake.set()
        try:
            return [await visitor.answer for visitor in visitors]
        except asyncio.CancelledError:
            granted = [held for visitor in visitors for held in visitor.granted]
            if granted and self.give_back:
                self._hold(asyncio.create_task(self.give_back(granted), name="give_back"))
            for visitor in visitors:
                visitor.answer.cancel()
            raise
        finally:
            for visitor in visitors:
                self._visitors.pop(visitor, None)

    def under_way(self) -> list[asyncio.Future[None]]:
        """The claims that are being written."""
        return [*self._claims]

    async def lease(self, worker_id: str, wanted: Wanted, slots: int, wait_s: float) -> list[str]:
        """Runs for a worker, each as the JSON of its lease: at most `slots`, none when `wait_s` seconds passed without any.

        When the caller is cancelled (its connection broke) runs that were claimed for it are given back.
        """
        if self.draining:
            return []
        loop = asyncio.get_running_loop()
        waiter = Waiter(worker_id, wanted, slots, loop.create_future(), loop.time() + wait_s)
        self._waiters[waiter] = None
        if self.on_waiter is not None:
            self.on_waiter(waiter)
        self._wake.set()
        timer = loop.call_at(waiter.until, self._answer_idle, waiter)
        try:
            return await waiter.answer
        except asyncio.CancelledError:
            if waiter.granted and self.give_back:
                self._hold(asyncio.create_task(self.give_back(waiter.granted), name="give_back"))
            raise
        finally:
            timer.cancel()
            self._waiters.pop(waiter, None)

    def dismiss(self, worker_id: str) -> None:
        """A worker fell silent: what it asked for before is answered with nothing. If it lives, it asks again."""
        for waiter in [waiter for waiter in self._waiters if waiter.worker_id == worker_id]:
            self._answer(waiter, [])

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                self._releaser.release(self._early_s if self._waiters or self.early_for_others else 0.0)
                self._hand_out()
                if self.on_handed_out is not None:
                    self.on_handed_out()
            except Exception as error:  # noqa: BLE001 - handing out must not end because of one run
                self._events.tell(Name.DUTY_FAILED, duty="dispatcher", error=f"{type(error).__name__}: {error}")
                await asyncio.sleep(PAUSE_AFTER_FAULT_S)
            await self._sleep()

    def _hand_out(self) -> None:
        """Start claims while there are runs, waiters that want them, and room for another claim."""
        while (
            (self._waiters or self._visitors) and self._leader.ready.has_queued() and len(self._claims) < CLAIMS_AT_ONCE
        ):
            batch = self._choose()
            if not batch.runs:
                break
            task = asyncio.create_task(self._claim(batch), name="claim")
            self._claims.add(task)
            task.add_done_callback(self._claimed)
        if self._visitors and len(self._claims) < CLAIMS_AT_ONCE:
            for visitor in list(self._visitors):
                self._answer(visitor, [])

    def _choose(self) -> Batch:
        """Choose runs for the waiters in the order they asked; those of other nodes get what is left."""
        batch = Batch()
        for waiter in [*self._waiters, *self._visitors]:
            if waiter.only is not None and waiter.only is not self:
                continue
            room = self._per_claim - len(batch.runs)
            if room <= 0 or (len(batch.runs) >= ENOUGH and waiter.worker_id != batch.waiters[-1].worker_id):
                break
            chosen = self._leader.ready.take(waiter.wanted, min(waiter.slots, room))
            if chosen:
                batch.runs += chosen
                batch.requests += [len(batch.waiters)] * len(chosen)
                batch.waiters.append(waiter)
                self._forget(waiter)
            elif waiter.only is self:
                waiter.only = None
                self.on_passed_on()
        return batch

    async def _claim(self, batch: Batch) -> None:
        """One statement for all; then memory, then the answers."""
        workers = [batch.waiters[request].worker_id for request in batch.requests]
        lease = timedelta(seconds=self._leader.ready.leases.lease_s)
        terms = self._leader.named_terms()
        try:
            async with self._database.connection() as connection:
                claimed = await runs.claim(connection, [run.id for run in batch.runs], workers, lease, terms)
        except errors.UnavailableError:
            await self._put_back(batch)
            return
        except Exception:
            await self._put_back(batch)
            raise
        await self._grant(batch, claimed)

    async def _put_back(self, batch: Batch) -> None:
        """The database could not be asked: after a pause the runs are ready again, and the workers wait on to the end."""
        await asyncio.sleep(PAUSE_AFTER_FAULT_S)
        for run in batch.runs:
            self._leader.ready.put_back(run)
        for waiter in batch.waiters:
            self.wait_on(waiter)

    async def _grant(self, batch: Batch, claimed: Sequence[runs.Claimed]) -> None:
        """Memory first, then the answers. What no worker gets any more, or can get, is given back."""
        # By their bytes, whose hash is cheaper than that of the ids that the driver makes anew.
        chosen = {run.id.bytes: (run, request) for run, request in zip(batch.runs, batch.requests, strict=True)}
        answers = [Answer(waiter.answer.done()) for waiter in batch.waiters]
        ready, clock = self._leader.ready, self._leader.clock
        now, instant = clock.monotonic(), clock.time()
        lease_s = f"{ready.leases.lease_s:g}"
        for run_id, token, attempt, timeout_s, nominal, trigger, name, target, payload in claimed:
            run, request = chosen.pop(run_id.bytes)
            # Worked out here and not by the database, so that the commit is not part of the lag.
            early_s = run.ready_at - instant
            if early_s > self._early_s + CLOCK_CORRECTION_S:
                early_s = 0.0  # it was ready, and the clock was set back since: it does not wait a second time
            run.lag_s = -early_s if early_s < 0 else 0.0
            ready.granted(run, batch.waiters[request].worker_id, token, attempt, timeout_s, now)
            text = lease_text(
                run_id, run.job_id, token, attempt, timeout_s, nominal, trigger, name, target, payload, lease_s, early_s
            )
            answers[request].add(run_id, token, text)
        for waiter, answer in zip(batch.waiters, answers, strict=True):
            waiter.granted = answer.granted
            self._answer(waiter, answer.leases)
        for run, _ in chosen.values():
            ready.gone(run.id)
        await self._settle(answers)

    async def _settle(self, answers: Sequence[Answer]) -> None:
        """Tell what was handed out, and end what was not."""
        told = sum(len(answer.leases) for answer in answers)
        homeless = [held for answer in answers for held in answer.homeless]
        oversize = [held for answer in answers for held in answer.oversize]
        self._adapt(homeless)
        if told:
            self._events.tell(Name.RUNS_CLAIMED, count=told)
        if homeless and self.give_back:
            await self.give_back(homeless)
        if oversize and self.refuse:
            await self.refuse(oversize, "the run is larger than a worker's answer may be")

    def _adapt(self, homeless: list[tuple[UUID, int]]) -> None:
        """Payloads may be so large that an answer is full before a claim is used up: then claim less at a time."""
        if homeless:
            self._per_claim = max(1, self._per_claim // 4)
        elif self._per_claim < RUNS_PER_CLAIM:
            self._per_claim = min(RUNS_PER_CLAIM, self._per_claim * 2)

    def _hold(self, task: asyncio.Task[None]) -> None:
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def _claimed(self, task: asyncio.Task[None]) -> None:
        self._claims.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._events.tell(Name.DUTY_FAILED, duty="dispatcher", error=f"{type(error).__name__}: {error}")
        self._wake.set()

    def _answer(self, waiter: Waiter, leases: list[str]) -> None:
        self._forget(waiter)
        if not waiter.answer.done():
            waiter.answer.set_result(leases)

    def _forget(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)
        self._visitors.pop(waiter, None)

    def _answer_idle(self, waiter: Waiter) -> None:
        """A wait is over. One whose runs are being claimed right now is answered by the claim."""
        if waiter in self._waiters:
            self._answer(waiter, [])

    async def _sleep(self) -> None:
        """Until a worker asks, a run is added, a claim ends, or the next instant comes."""
        if self._wake.is_set():
            await asyncio.sleep(0)
            return
        instant = self._leader.ready.next_instant(self._early_s if self._waiters or self.early_for_others else 0.0)
        pause = LOOK_AT_LEAST_EVERY_S
        if instant is not None:
            pause = min(pause, instant - self._leader.clock.time())
        if pause <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(pause):
                await self._wake.wait()
        except TimeoutError:
            return
