"""Handlers: functions under a name, and the ways to enqueue a run of one.

`@h.job(…)` makes a `Handler` of a function; `@h.cron(…)` and `@h.every(…)` above it add schedules, which a worker
registers when it starts.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from msgspec import Raw

from horarium import errors
from horarium.sdk import context, signature, spans

if TYPE_CHECKING:
    from horarium.sdk import sync as twins

P = ParamSpec("P")
R = TypeVar("R")


class Kind(enum.Enum):
    """Where a handler is carried out."""

    TASK = "task"  # `async def`: a task of the worker's event loop
    THREAD = "thread"  # `def`: a thread of the worker
    PROCESS = "process"  # process=True: a child process, which can be killed


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A one-off that the server has taken on. `run_id` is None when the server did not name the run yet."""

    job_id: str
    run_id: str | None
    replayed: bool = field(default=False, compare=False)  # the key had been used: this is the job made then


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """A schedule declared in code: the job `name` with these members, and the arguments of its runs."""

    name: str
    members: Mapping[str, Any]
    arguments: Mapping[str, Any]


class Submitter(Protocol):
    """Who brings new jobs to the server: the client."""

    async def submit(self, body: Mapping[str, Any], idempotency_key: str | None = None) -> Enqueued:
        """Create one job."""

    async def submit_many(self, bodies: Sequence[Mapping[str, Any]]) -> list[Enqueued]:
        """Create many."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the jobs of a handler say beside target, payload and time; the member names of a job's body."""

    members: Mapping[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None


class Handler(Generic[P, R]):
    """A function under a name. Calling it calls the function, as in a unit test."""

    def __init__(
        self,
        submitter: Submitter,
        name: str,
        function: Callable[Concatenate[context.Context, P], R],
        kind: Kind,
        options: Options,
    ) -> None:
        self.name = name
        self.function = function
        self.kind = kind
        self.schedules: list[ScheduledJob] = []
        self._submitter = submitter
        self._options = options
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, ctx: context.Context, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(ctx, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<handler {self.name}: {signature.label(self.function)}>"

    @cached_property
    def signature(self) -> signature.Signature:
        """The contract of the payload; made when first used, since hints may name what is defined further down."""
        return signature.Signature(self.function)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Have it run now, with these arguments. InvalidError when they do not fit the handler."""
        return await self._submit("run_at", "now", args, kwargs)

    async def enqueue_in(self, delay: spans.Duration, /, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Have it run after `delay`, counted by the server's clock."""
        return await self._submit("run_in_s", spans.seconds(delay), args, kwargs)

    async def enqueue_at(self, instant: datetime, /, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Have it run at an instant, an aware datetime."""
        return await self._submit("run_at", instant_text(instant), args, kwargs)

    async def enqueue_many(self, items: Iterable[Mapping[str, Any]], *, at: datetime | None = None) -> list[Enqueued]:
        """Have it run once for each item, which holds the arguments by name: now, or `at` an instant.

        All items are checked before the first is sent; InvalidError names the faults of all.
        """
        when = "now" if at is None else instant_text(at)
        payloads = self._payloads(list(items))
        return await self._submitter.submit_many([self.body(payload, run_at=when) for payload in payloads])

    def options(
        self,
        *,
        queue: str | None = None,
        priority: int | None = None,
        timeout: spans.Duration | None = None,
        idempotency_key: str | None = None,
    ) -> Handler[P, R]:
        """The same handler, whose enqueued runs differ in this: `welcome.options(priority=9).enqueue(…)`.

        `idempotency_key`: enqueueing twice with one key within 24 hours makes one job.
        """
        members = {**self._options.members, **members_of(queue=queue, priority=priority, timeout=timeout)}
        options = Options(members, idempotency_key or self._options.idempotency_key)
        return Handler(self._submitter, self.name, self.function, self.kind, options)

    @cached_property
    def sync(self) -> twins.SyncHandler[P]:
        """The same calls for code without an event loop: `welcome.sync.enqueue(user_id=7)`."""
        from horarium.sdk import sync as twins

        return twins.SyncHandler(self)

    def body(self, payload: bytes, **members: Any) -> dict[str, Any]:
        """The body of a job that runs this handler."""
        return {"target": {"handler": self.name}, "payload": Raw(payload), **self._options.members, **members}

    async def _submit(self, when: str, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Enqueued:
        payload = self.signature.write(self.signature.bind(args, kwargs))
        return await self._submitter.submit(self.body(payload, **{when: value}), self._options.idempotency_key)

    def _payloads(self, items: list[Mapping[str, Any]]) -> list[bytes]:
        payloads, faults = [], []
        for index, arguments in enumerate(items):
            try:
                payloads.append(self.signature.write(arguments))
            except signature.MismatchError as error:
                faults += [errors.Fault(f"/{index}{fault.pointer}", fault.detail, fault.code) for fault in error.faults]
        if faults:
            raise signature.MismatchError(faults)
        return payloads


def kind_of(function: Callable[..., Any], process: bool) -> Kind:
    """Where this function is to be carried out; ConfigurationError for what cannot be a handler."""
    signature.parameters_of(function)
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise errors.ConfigurationError(f"{signature.label(function)}: a handler returns, it does not yield")
    if process:
        return Kind.PROCESS
    return Kind.TASK if is_async else Kind.THREAD


def members_of(
    *,
    queue: str | None = None,
    priority: int | None = None,
    timeout: spans.Duration | None = None,
    retry: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The members of a job's body that were given."""
    given = {
        "queue": queue,
        "priority": priority,
        "timeout_s": None if timeout is None else spans.whole_seconds(timeout),
        "retry": retry,
    }
    return {name: value for name, value in given.items() if value is not None}


def instant_text(instant: datetime) -> str:
    """An aware datetime as RFC 3339 in UTC; ValueError for a naive one, since its zone would be a guess."""
    if instant.tzinfo is None:
        raise ValueError(f"{instant!r} has no time zone; write datetime(…, tzinfo=UTC) or ZoneInfo(…)")
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")
