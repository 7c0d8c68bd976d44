"""The calls of a worker, from bytes to bytes: lease, heartbeat, report, stop. All may be repeated without harm."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import msgspec

from horarium import clock as clocks
from horarium import errors
from horarium.domain import ids
from horarium.domain.job import Actor
from horarium.domain.lanes import Wanted
from horarium.domain.outcome import Outcome
from horarium.gateway import reading
from horarium.protocol import messages
from horarium.services.completer import Completer
from horarium.services.dispatcher import Dispatcher
from horarium.services.endings import Plain, Report, clean
from horarium.services.forwarding import Forwarding
from horarium.services.leader import Leader
from horarium.services.reaper import Reaper
from horarium.services.registry import Registry
from horarium.store import runs
from horarium.store.run_logs import LogRow

ALL_TENANTS = "*"
MAX_RESULT_BYTES = 64 * 1024
MAX_MESSAGE_CHARS = 16 * 1024
MAX_INT32, MAX_INT64 = 2**31 - 1, 2**63 - 1
MAX_RETRY_IN_S = 366 * 86400.0


class WorkerCalls:
    """What a worker can ask of a node. `forwarding` is where runs go that another node, or another plane of this one, leads."""

    def __init__(
        self,
        leader: Leader,
        dispatcher: Dispatcher,
        completer: Completer,
        reaper: Reaper,
        registry: Registry,
        forwarding: Forwarding | None = None,
    ) -> None:
        self._leader = leader
        self._dispatcher = dispatcher
        self._completer = completer
        self._reaper = reaper
        self._registry = registry
        self.forwarding = forwarding

    async def lease(self, actor: Actor, body: bytes) -> bytes:
        """Long poll: runs for a worker, each lease as text."""
        request = reading.decode(messages.lease_requests, body)
        _check_texts(request)
        self._registry.asked(actor.tenant_id, request)
        wanted = Wanted(
            tuple((queue.name, float(queue.weight)) for queue in request.queues),
            None if request.handlers is None else frozenset(request.handlers),
            request.strict,
            _tenant_of(actor),
        )
        leases = await self._dispatcher.lease(request.worker.id, wanted, request.slots, request.wait_s)
        return _leases(leases, drain=self._dispatcher.draining)

    async def heartbeat(self, actor: Actor, body: bytes) -> bytes:
        """The runs that a worker holds: extended, lost, or to be stopped. Costs no SQL unless it carries log lines."""
        request = reading.decode(messages.heartbeat_requests, body)
        self._registry.beat(request.worker.id, len(request.runs))
        if self.forwarding is not None and self.forwarding.is_needed:
            return messages.encode(await self.forwarding.hear(actor, request))
        return messages.encode(await self.hear(actor, request))

    async def hear(self, actor: Actor, request: messages.HeartbeatRequest) -> messages.HeartbeatResponse:
        """A heartbeat about runs that are led here."""
        worker_id = request.worker.id
        listed = [(_uuid(run.run_id), run.fencing_token) for run in request.runs]
        now = self._leader.clock.monotonic()
        heard = self._leader.ready.leases.heartbeat(worker_id, listed, now, self._leader.knows, _tenant_of(actor))
        not_held = {*heard.lost, *heard.unsure}
        for (run_id, _), run in zip(listed, request.runs, strict=True):
            if run.progress is not None and run_id not in not_held and self._is_of_tenant(run_id, actor):
                self._leader.progress[run_id] = msgspec.json.encode(run.progress).decode()
        logs = [
            row
            for (run_id, _), run in zip(listed, request.runs, strict=True)
            if run.logs and run_id not in not_held
            for row in self._log_rows(run, actor)
        ]
        if logs:
            await self._completer.report([], logs)
        await self._reaper.take_back(worker_id, _tenant_of(actor))
        return messages.HeartbeatResponse(
            self._leader.ready.leases.lease_s,
            [str(run_id) for run_id in heard.lost],
            [str(run_id) for run_id in heard.cancel],
            [str(run_id) for run_id in heard.unsure],
        )

    async def report(self, actor: Actor, body: bytes) -> bytes:
        """How attempts ended; answered when it is durable."""
        request = reading.decode(messages.report_requests, body)
        self._registry.beat(request.worker.id)
        if self.forwarding is not None and self.forwarding.is_needed:
            request = messages.ReportRequest(request.worker, _unfolded(request))
            return messages.encode(await self.forwarding.take_in(actor, request))
        return messages.encode(await self.take_in(actor, request))

    async def take_in(self, actor: Actor, request: messages.ReportRequest) -> messages.ReportResponse:
        """Results of runs that are led here, or whose leader cannot be asked; returns when they are durable."""
        plain, reports = _sorted(request)
        foreign: set[UUID] = set()
        if not _are_tokens(plain, reports) or not self._are_own(plain, reports, actor):
            plain, reports, foreign = await self._sifted(plain, reports, actor)
        logs = [row for result in request.results if result.logs for row in self._log_rows(result, actor)]
        taken = await self._completer.report(reports, logs, plain)
        if not taken.lost and not foreign:
            if request.succeeded is not None:
                return messages.ReportResponse([], all_accepted=True)
            return messages.ReportResponse([result.run_id for result in request.results])
        lost = [str(run_id) for run_id in (*taken.lost, *foreign)]
        return messages.ReportResponse([str(run_id) for run_id in taken.accepted], lost)

    async def _sifted(self, plain: Plain, reports: list[Report], actor: Actor) -> tuple[Plain, list[Report], set[UUID]]:
        """Apart from the rest: runs that this actor cannot end, and those whose token no claim ever gave."""
        held = [*zip(*plain, strict=True), *((report.run_id, report.token) for report in reports)]
        if _tenant_of(actor) is not None and any(self._is_loading(run_id) for run_id, _ in held):
            # Whose run it is cannot be told yet: the report is not placed, and its worker repeats it.
            raise errors.UnavailableError("this node is taking over the run's shard: report again")
        foreign = {run_id for run_id, token in held if not self._may_end(run_id, token, actor)}
        foreign |= await self._strangers([run_id for run_id, _ in held], actor)
        own = [each for each in zip(*plain, strict=True) if each[0] not in foreign]
        kept = Plain([run_id for run_id, _ in own], [token for _, token in own])
        return kept, [report for report in reports if report.run_id not in foreign], foreign

    def _are_own(self, plain: Plain, reports: Sequence[Report], actor: Actor) -> bool:
        """Whether all these runs are known to be ones that this actor may end: the usual case, told at a glance."""
        tenant, leases = _tenant_of(actor), self._leader.ready.leases
        if tenant is None:
            return True
        return leases.are_all_of(plain.ids, tenant) and leases.are_all_of((each.run_id for each in reports), tenant)

    async def stop(self, actor: Actor, body: bytes) -> bytes:
        """A worker says goodbye."""
        request = reading.decode(messages.stop_requests, body)
        self._registry.stopped(request.worker.id, actor.tenant_id)
        return b"{}"

    def _is_loading(self, run_id: UUID) -> bool:
        return bool(self._leader.unloaded) and ids.shard_of(run_id) in self._leader.unloaded

    def _may_end(self, run_id: UUID, token: int, actor: Actor) -> bool:
        return 0 <= token <= MAX_INT64 and self._is_of_tenant(run_id, actor)

    async def _strangers(self, run_ids: Sequence[UUID], actor: Actor) -> set[UUID]:
        """Runs of other tenants among those that memory knows nothing of: led elsewhere, or ended."""
        tenant = _tenant_of(actor)
        if tenant is None:
            return set()
        leases = self._leader.ready.leases
        unknown = [run_id for run_id in run_ids if leases.get(run_id) is None]
        return await self._completer.strangers(unknown, tenant) if unknown else set()

    def _is_of_tenant(self, run_id: UUID, actor: Actor) -> bool:
        """A worker's key has one tenant: it cannot end another tenant's run, whatever token it names."""
        run = self._leader.ready.leases.get(run_id)
        return run is None or actor.tenant_id in (run.tenant_id, ALL_TENANTS)

    def _log_rows(self, run: messages.HeldRun | messages.Result, actor: Actor) -> list[LogRow]:
        """The lines of an attempt that is running. Those of an ended one are repeats or too late, and are not kept."""
        run_id, now = _uuid(run.run_id), self._leader.clock.time()
        held = self._leader.ready.leases.get(run_id)
        if held is None and self._leader.knows(run_id):
            return []
        if held is not None and (held.token != run.fencing_token or not self._is_of_tenant(run_id, actor)):
            return []
        attempt = held.attempt if held is not None else 0
        return [
            LogRow(
                run_id,
                attempt,
                min(max(line.seq, 0), MAX_INT32),
                clocks.to_datetime(now - min(line.ago_s, 86400.0)),
                line.level,
                clean(line.message[:MAX_MESSAGE_CHARS]),
                _safe_json(line.fields),
            )
            for line in run.logs
        ]


def _tenant_of(actor: Actor) -> str | None:
    """The tenant whose runs a worker sees; None for a worker of all tenants."""
    return None if actor.tenant_id == ALL_TENANTS else actor.tenant_id


def _leases(leases: list[str], *, drain: bool = False) -> bytes:
    return ('{"leases":[' + ",".join(leases) + ('],"drain":true}' if drain else "]}")).encode()


def _unfolded(request: messages.ReportRequest) -> list[messages.Result]:
    _check_columns(request.succeeded)
    return request.unfolded()


def _check_columns(columns: messages.Succeeded | None) -> None:
    if columns is not None and len(columns.run_ids) != len(columns.fencing_tokens):
        raise errors.InvalidError([errors.Fault("/succeeded", "has columns of different lengths", "malformed_message")])


def _sorted(request: messages.ReportRequest) -> tuple[Plain, list[Report]]:
    """Plain successes as columns, everything else as reports."""
    plain = Plain([], [])
    reports = []
    if request.succeeded is not None:
        _check_columns(request.succeeded)
        plain.ids.extend(map(_uuid, request.succeeded.run_ids))
        plain.tokens.extend(request.succeeded.fencing_tokens)
    for result in request.results:
        if result.outcome == "succeeded" and result.result is msgspec.UNSET and result.progress is None:
            plain.ids.append(_uuid(result.run_id))
            plain.tokens.append(result.fencing_token)
        else:
            reports.append(_report(result))
    return plain, reports


def _are_tokens(plain: Plain, reports: Sequence[Report]) -> bool:
    """Whether all tokens are numbers that a claim can have given."""
    tokens = plain.tokens + [report.token for report in reports] if reports else plain.tokens
    return not tokens or (min(tokens) >= 0 and max(tokens) <= MAX_INT64)


def _report(result: messages.Result) -> Report:
    error = None
    if result.error is not None:
        error = {
            "class": result.error.class_,
            "message": result.error.message,
            "traceback": result.error.traceback,
        }
    retry_in = None
    if result.retry_in_s is not None:
        retry_in = timedelta(seconds=min(result.retry_in_s, MAX_RETRY_IN_S))
    progress = None if result.progress is None else msgspec.json.encode(result.progress).decode()
    return Report(
        _uuid(result.run_id),
        result.fencing_token,
        Outcome(result.outcome),
        _safe_json(result.result),
        error,
        retry_in,
        _without_nul(progress),
    )


def _safe_json(raw: msgspec.Raw | msgspec.UnsetType) -> str | None:
    """A worker's JSON as text that PostgreSQL can keep. What it cannot keep becomes a note: the run ends all the same (N4)."""
    if isinstance(raw, msgspec.UnsetType):
        return None
    data = bytes(raw)
    if len(data) > MAX_RESULT_BYTES:
        return f'{{"$refused": "larger than {MAX_RESULT_BYTES} bytes", "$bytes": {len(data)}}}'
    try:
        return _without_nul(data.decode("utf-8"))
    except UnicodeDecodeError:
        return '{"$refused": "not UTF-8"}'


def _without_nul(text: str | None) -> str | None:
    if text is not None and ("\\u0000" in text or "\x00" in text):
        return '{"$refused": "holds a NUL character"}'
    return text


def _check_texts(request: messages.LeaseRequest) -> None:
    """Names that PostgreSQL cannot keep would spoil the claim of every worker that asks at the same time."""
    info = request.worker
    texts = {"/worker/id": info.id, "/worker/version": info.version, "/worker/host": info.host or ""}
    texts |= {f"/queues/{index}/name": queue.name for index, queue in enumerate(request.queues)}
    texts |= {f"/handlers/{index}": name for index, name in enumerate(request.handlers or ())}
    faults = [
        errors.Fault(pointer, "has characters that are not printable", "malformed_message")
        for pointer, text in texts.items()
        if not text.isprintable()
    ]
    if info.pid is not None and not 0 <= info.pid <= MAX_INT32:
        faults.append(errors.Fault("/worker/pid", "is out of range", "malformed_message"))
    if faults:
        raise errors.InvalidError(faults)


def _uuid(text: str) -> UUID:
    try:
        return runs.uuid_of(text)
    except ValueError as error:
        raise errors.InvalidError(
            [errors.Fault("/run_id", f"{text[:60]!r} is no run id", "malformed_message")]
        ) from error
