"""The heartbeat: tells the server every third of a lease which runs this process holds.

It has a thread and a connection of its own, so that a handler which blocks the event loop does not make the server think
the worker dead. One request carries all runs, with their progress and new log lines. When no heartbeat has got through
for a whole lease, by the monotonic clock, the runs count as lost: another worker may have them by then.
"""

from __future__ import annotations

import http.client
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import msgspec

from horarium.protocol import messages
from horarium.sdk import attempt as attempts
from horarium.sdk import backoff
from horarium.sdk import nodes as nodes_

MAX_LOG_CHARS = 1024 * 1024  # of all runs together in one heartbeat; the rest comes with the next

_log = logging.getLogger("horarium.worker")

Told = Callable[[attempts.Attempt], None]


class Heartbeat:
    """The thread. `tell` is called in it with each attempt that was marked lost or cancelled."""

    def __init__(
        self,
        nodes: nodes_.Nodes,
        worker: messages.WorkerInfo,
        held: Mapping[str, attempts.Attempt],
        tell: Told,
    ) -> None:
        self._nodes = nodes
        self._worker = worker
        self._held = held
        self._tell = tell
        self._lease_s = 15.0
        self._in_doubt_until = 0.0
        self._changed = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="horarium-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to beat; silent while nothing is held, and nothing can be in doubt."""
        self._thread.start()

    def stop(self) -> None:
        """Stop without waiting for a heartbeat that is under way."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()

    def answer_lost(self) -> None:
        """The answer to a request for runs did not come: beat for a lease even if nothing is held.

        From two heartbeats that do not list them the server sees that runs in that answer never came, and gives them out again.
        Otherwise their lease would lapse, and they would have used an attempt.
        """
        self._in_doubt_until = time.monotonic() + self._lease_s

    def expect(self, lease_s: float) -> None:
        """Leases last so long now."""
        if lease_s != self._lease_s:
            with self._changed:
                self._lease_s = lease_s
                self._changed.notify()

    def beat(self) -> bool:
        """Send one heartbeat and act on its answer; False when it did not get through."""
        held = [attempt for attempt in list(self._held.values()) if attempt.stop is not attempts.Stop.LOST]
        if not held and time.monotonic() >= self._in_doubt_until:
            return True
        sent_at = time.monotonic()
        request = request_of(self._worker, held)
        answer = self._post(messages.encode(request), timeout_s=max(0.1, self._patience_s(held, sent_at)))
        if answer is None:
            self._give_up_lapsed(held)
            return False
        self.expect(answer.lease_s)
        for attempt in apply(answer, held, request, sent_at):
            if attempt.stop is attempts.Stop.LOST and not attempt.ended:  # else its result was just placed
                _log.warning("run %s: the lease was lost, the run is not this worker's any more", attempt.lease.run_id)
            self._tell(attempt)
        self._give_up_lapsed(held)
        return True

    def _run(self) -> None:
        wait = backoff.Backoff(base_s=0.2, cap_s=2.0)
        due = time.monotonic() + self._lease_s / 3
        while self._sleep_until(due):
            began = time.monotonic()
            if self.beat():
                wait.reset()
                due = began + self._lease_s / 3
            else:
                due = time.monotonic() + min(wait.next_s(), self._lease_s / 6)

    def _sleep_until(self, due: float) -> bool:
        """Sleep until then; sooner when leases became shorter. False when it is time to stop."""
        with self._changed:
            lease_s = self._lease_s
            while not self._is_stopping and (left := due - time.monotonic()) > 0:
                self._changed.wait(left)
                if self._lease_s < lease_s:
                    due = min(due, time.monotonic() + self._lease_s / 3)
                lease_s = self._lease_s
            return not self._is_stopping

    def _patience_s(self, held: list[attempts.Attempt], now: float) -> float:
        """How long to wait for an answer: not past the moment when the first lease of a handler at work lapses."""
        first = min((attempt.lease_until for attempt in held if not attempt.ended), default=math.inf)
        return min(self._lease_s / 3, first - now)

    def _give_up_lapsed(self, held: list[attempts.Attempt]) -> None:
        now = time.monotonic()
        for attempt in held:
            if attempt.lease_until <= now and not attempt.ended and attempt.mark_stopped(attempts.Stop.LOST):
                _log.warning("run %s: the lease lapsed, no heartbeat got through", attempt.lease.run_id)
                self._tell(attempt)

    def _post(self, content: bytes, timeout_s: float) -> messages.HeartbeatResponse | None:
        url = self._nodes.url
        try:
            status, answer = _exchange(url, content, self._nodes.headers, timeout_s)
            if status == 200:
                return messages.heartbeat_responses.decode(answer)
            reason = f"HTTP {status}"
        except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
            reason = str(error) or type(error).__name__
        _log.warning("a heartbeat did not get through: %s: %s", url, reason)
        self._nodes.leave(url)
        return None


def request_of(worker: messages.WorkerInfo, held: list[attempts.Attempt]) -> messages.HeartbeatRequest:
    """The heartbeat that lists these attempts."""
    room, runs = MAX_LOG_CHARS, []
    for attempt in held:
        book = attempt.log_book
        lines = book.pending(room) if book is not None and room > 0 and not attempt.ended else []
        room -= sum(len(line.message) for line in lines)
        runs.append(messages.HeldRun(attempt.lease.run_id, attempt.lease.fencing_token, attempt.progress, lines))
    return messages.HeartbeatRequest(worker, runs)


def apply(
    answer: messages.HeartbeatResponse,
    held: list[attempts.Attempt],
    request: messages.HeartbeatRequest,
    sent_at: float,
) -> list[attempts.Attempt]:
    """Take in the answer to `request`, which listed `held`; returns the attempts that have to stop now."""
    lost, cancelled, unsure = frozenset(answer.lost), frozenset(answer.cancel), frozenset(answer.unsure)
    stopped = []
    for attempt, sent in zip(held, request.runs, strict=True):
        if sent.run_id in lost:
            if attempt.mark_stopped(attempts.Stop.LOST):
                stopped.append(attempt)
            continue
        if sent.run_id in unsure:
            continue  # its lines are sent again, and its lease ends when it would have
        attempt.lease_until = sent_at + answer.lease_s
        if sent.logs and attempt.log_book is not None:
            attempt.log_book.acknowledge(sent.logs[-1].seq)
        if sent.run_id in cancelled and not attempt.ended and attempt.mark_stopped(attempts.Stop.CANCELLED):
            stopped.append(attempt)
    return stopped


def _exchange(url: str, content: bytes, headers: Mapping[str, str], timeout_s: float) -> tuple[int, bytes]:
    """One POST over a connection of its own: one that was kept might have been closed meanwhile."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.request("POST", parts.path + messages.HEARTBEAT_PATH, content, dict(headers))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
