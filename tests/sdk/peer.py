"""A server that speaks the worker protocol over a real socket and does what a test tells it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import msgspec
from aiohttp import web

from horarium.protocol import messages
from horarium.sdk import nodes, profile, worker

PATIENCE_S = 20.0

Fault = Callable[[], web.Response] | None  # another answer, or none at all: the connection breaks


class Peer:
    """Hands out the leases that are offered, and remembers everything it is told."""

    def __init__(self) -> None:
        self.lease_s = 15.0
        self.age_s = 0.0
        self.url = ""
        self.requests: list[messages.LeaseRequest] = []
        self.beats: list[messages.HeartbeatRequest] = []
        self.reports: list[list[messages.Result]] = []
        self.results: dict[str, messages.Result] = {}
        self.stopped: list[messages.StopRequest] = []
        self.keys: set[str] = set()
        self.lost: set[str] = set()
        self.cancelled: set[str] = set()
        self.unsure: set[str] = set()
        self.faults: dict[str, list[Fault]] = {"lease": [], "heartbeat": [], "report": []}
        self._offered: list[messages.Lease] = []
        self._token = 0
        self._changed = asyncio.Condition()

    async def offer(
        self, handler: str | None, *payloads: Any, target: Any = None, run_id: str | None = None, **members: Any
    ) -> list[str]:
        """Let a worker have a run for each payload; returns the ids of the runs."""
        leases = []
        for payload in payloads or ({},):
            self._token += 1
            leases.append(
                messages.Lease(
                    run_id=run_id or f"run-{self._token}",
                    job_id="job-1",
                    attempt=members.get("attempt", 1),
                    fencing_token=self._token,
                    target=msgspec.Raw(msgspec.json.encode(target or {"handler": handler})),
                    payload=msgspec.Raw(payload if isinstance(payload, bytes) else msgspec.json.encode(payload)),
                    scheduled_for="2026-12-01T02:00:00Z",
                    timeout_s=members.get("timeout_s", 300.0),
                    lease_s=self.lease_s,
                    job_name=members.get("job_name"),
                    start_in_s=members.get("start_in_s", 0.0),
                )
            )
        async with self._changed:
            self._offered += leases
            self._changed.notify_all()
        return [lease.run_id for lease in leases]

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until something that the worker said makes the condition true; returns its value."""
        async with asyncio.timeout(PATIENCE_S), self._changed:
            return await self._changed.wait_for(condition)

    async def result(self, run_id: str) -> messages.Result:
        """The accepted result of a run."""
        result: messages.Result = await self.until(lambda: self.results.get(run_id))
        return result

    async def beat_of(self, run_id: str, condition: Callable[[messages.HeldRun], Any] = lambda run: True) -> Any:
        """A heartbeat from now on that lists the run in this condition."""
        first = len(self.beats)
        return await self.until(
            lambda: next((r for b in self.beats[first:] for r in b.runs if r.run_id == run_id and condition(r)), None)
        )

    def fail(self, call: str, how: Fault, times: int = 1) -> None:
        """Answer the next calls of this kind so instead (after the message was taken in)."""
        self.faults[call] += [how] * times

    async def lease(self, request: web.Request) -> web.Response:
        self.keys.add(request.headers.get("Authorization", ""))
        asked = messages.lease_requests.decode(await request.read())
        await self._note(self.requests, asked)
        if self.faults["lease"]:
            return self._fault("lease", request)
        async with self._changed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(asked.wait_s):
                    await self._changed.wait_for(lambda: bool(self._offered))
            given, self._offered = self._offered[: asked.slots], self._offered[asked.slots :]
        return _json(messages.LeaseResponse(given, age_s=self.age_s))

    async def heartbeat(self, request: web.Request) -> web.Response:
        beat = messages.heartbeat_requests.decode(await request.read())
        await self._note(self.beats, beat)
        if self.faults["heartbeat"]:
            return self._fault("heartbeat", request)
        named = {run.run_id for run in beat.runs}
        return _json(
            messages.HeartbeatResponse(
                self.lease_s,
                sorted(self.lost & named),
                sorted(self.cancelled & named),
                sorted(self.unsure & named),
            )
        )

    async def report(self, request: web.Request) -> web.Response:
        report = messages.report_requests.decode(await request.read())
        if self.faults["report"]:
            await self._note(self.reports, report.unfolded())
            return self._fault("report", request)
        results = report.unfolded()
        lost = [result.run_id for result in results if result.run_id in self.lost]
        accepted = [result for result in results if result.run_id not in self.lost]
        self.results |= {result.run_id: result for result in accepted}
        await self._note(self.reports, results)
        if report.succeeded is not None and not lost:
            return _json(messages.ReportResponse([], all_accepted=True))
        return _json(messages.ReportResponse([result.run_id for result in accepted], lost))

    async def stop(self, request: web.Request) -> web.Response:
        await self._note(self.stopped, messages.stop_requests.decode(await request.read()))
        return web.Response(status=204)

    def _fault(self, call: str, request: web.Request) -> web.Response:
        how = self.faults[call].pop(0)
        if how is not None:
            return how()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def _note(self, where: list[Any], what: Any) -> None:
        async with self._changed:
            where.append(what)
            self._changed.notify_all()


@contextlib.asynccontextmanager
async def serving(peer: Peer, port: int = 0) -> AsyncIterator[Peer]:
    """Run the peer on a free port."""
    app = web.Application(client_max_size=64 * 1024 * 1024)
    for name in ("lease", "heartbeat", "report", "stop"):
        app.router.add_post(f"/v1/worker/{name}", getattr(peer, name))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    peer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield peer
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def working(
    peer: Peer, carriers: dict[str, worker.Carrier], urls: Iterable[str] = (), **options: Any
) -> AsyncIterator[worker.Worker]:
    """A worker that serves the peer; wound down at the end."""
    connection = profile.Connection(tuple(urls) or (peer.url,), "hrm_test")
    settings = worker.Options(**{"grace_s": 5.0, "slots": 10, **options})
    running = worker.Worker(nodes.Nodes(lambda: connection), carriers, settings)
    task = asyncio.create_task(running.run())
    try:
        yield running
    finally:
        if not task.done():
            running.stop()
        await task


def unavailable() -> web.Response:
    """503, as during a take-over."""
    return web.json_response({"title": "Not available right now"}, status=503)


def _json(message: Any) -> web.Response:
    return web.Response(body=messages.encode(message), content_type="application/json")
