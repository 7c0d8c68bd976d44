"""`Horarium`: where jobs are declared and enqueued."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar

import msgspec

from horarium import errors
from horarium.sdk import context, handlers, profile, resources, rest, signals, signature, spans

if TYPE_CHECKING:
    from horarium.sdk import sync as twins

P = ParamSpec("P")
R = TypeVar("R")

Function = Callable[Concatenate[context.Context, P], R]
Misfire = Literal["skip", "run_once", "run_all"]
Overlap = Literal["allow", "skip", "queue_one", "queue_all", "cancel_running"]

MAX_BATCH = 10_000
MAX_BATCH_BYTES = 16 * 1024 * 1024


class Horarium:
    """A connection to a Horarium cluster, and the handlers of an application.

    Address and key come from the arguments, from HORARIUM_URL and HORARIUM_API_KEY (or HORARIUM_API_KEY_FILE), or from
    the profile that `horarium dev` writes; they are read at the first request. `app` names the application: the jobs
    that its decorators declare are managed by `sdk:<app>`; by default it is the module given to `horarium worker`.
    """

    def __init__(self, url: str | None = None, api_key: str | None = None, app: str | None = None) -> None:
        self.app = app
        self.handlers: dict[str, handlers.Handler[..., Any]] = {}
        self.rest = rest.Rest(lambda: profile.resolve(url, api_key))
        self.jobs = resources.Jobs(self.rest)
        self.runs = resources.Runs(self.rest)

    def job(
        self,
        name: str,
        *,
        queue: str = "default",
        retry: signals.Retry | None = None,
        timeout: spans.Duration | None = None,
        priority: int | None = None,
        process: bool = False,
    ) -> Callable[[Function[P, R]], handlers.Handler[P, R]]:
        """Make a function the handler `name`.

        `async def` runs in the worker's event loop, `def` in a thread, `process=True` in a child process, which is
        killed when it does not stop. `timeout` counts from the start of each attempt (the server's default is 5 min).
        """
        policy = None if retry is None else retry.policy()
        members = handlers.members_of(
            queue=None if queue == "default" else queue, priority=priority, timeout=timeout, retry=policy
        )

        def declare(function: Function[P, R]) -> handlers.Handler[P, R]:
            if name in self.handlers:
                other = signature.label(self.handlers[name].function)
                raise errors.ConfigurationError(f"the handler {name!r} is declared twice: {other} has it already")
            kind = handlers.kind_of(function, process)
            handler = handlers.Handler(self, name, function, kind, handlers.Options(members))
            self.handlers[name] = handler
            return handler

        return declare

    def cron(
        self,
        schedule: str,
        *,
        tz: str = "UTC",
        name: str | None = None,
        misfire: Misfire | None = None,
        overlap: Overlap | None = None,
        jitter: spans.Duration | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> Callable[[handlers.Handler[P, R]], handlers.Handler[P, R]]:
        """Run the handler below by a cron schedule in the zone `tz`. The job has the handler's name, or `name`.

        `misfire` says what becomes of runs that nobody could start in time, `overlap` what if the last one still runs.
        """
        members = {"schedule": schedule, "timezone": tz}
        return self._schedule(name, members, misfire, overlap, jitter, arguments)

    def every(
        self,
        interval: spans.Duration,
        *,
        name: str | None = None,
        misfire: Misfire | None = None,
        overlap: Overlap | None = None,
        jitter: spans.Duration | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> Callable[[handlers.Handler[P, R]], handlers.Handler[P, R]]:
        """Run the handler below at a fixed interval of whole seconds."""
        members = {"interval_s": spans.whole_seconds(interval)}
        return self._schedule(name, members, misfire, overlap, jitter, arguments)

    async def enqueue(
        self,
        handler: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        in_: spans.Duration | None = None,
        at: datetime | None = None,
        queue: str | None = None,
        priority: int | None = None,
        timeout: spans.Duration | None = None,
        retry: signals.Retry | None = None,
        idempotency_key: str | None = None,
    ) -> handlers.Enqueued:
        """Have a handler run that this program knows only by name: now, after `in_`, or `at` an instant."""
        policy = None if retry is None else retry.policy()
        body = {
            "target": {"handler": handler},
            "payload": dict(arguments or {}),
            **_time(in_, at),
            **handlers.members_of(queue=queue, priority=priority, timeout=timeout, retry=policy),
        }
        return await self.submit(body, idempotency_key)

    async def submit(self, body: Mapping[str, Any], idempotency_key: str | None = None) -> handlers.Enqueued:
        """Create one job from a body as in `POST /v1/jobs`."""
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else None
        answer = await self.rest.request("POST", "/v1/jobs", body=body, headers=headers)
        replayed = answer.headers.get("Idempotency-Replayed", "").lower() == "true"
        return _enqueued(answer.body, replayed)

    async def submit_many(self, bodies: Sequence[Mapping[str, Any]]) -> list[handlers.Enqueued]:
        """Create many jobs, up to 10,000 a request.

        RequestError when some were refused; its problem has `items`, which say of each job what became of it.
        """
        items: list[dict[str, Any]] = []
        for part in _parts(bodies):
            items += (await self.rest.request("POST", "/v1/jobs:batch", body=part)).body["items"]
        refused = [(index, item) for index, item in enumerate(items) if item.get("problem")]
        if refused:
            raise errors.RequestError(refused[0][1]["status"], _batch_problem(items, refused))
        return [_enqueued(item, False) for item in items]

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        await self.rest.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @cached_property
    def sync(self) -> twins.SyncHorarium:
        """The same calls for code without an event loop: `h.sync.enqueue("email.welcome", {"user_id": 7})`."""
        from horarium.sdk import sync as twins

        return twins.SyncHorarium(self)

    def _schedule(
        self,
        name: str | None,
        members: Mapping[str, Any],
        misfire: Misfire | None,
        overlap: Overlap | None,
        jitter: spans.Duration | None,
        arguments: Mapping[str, Any] | None,
    ) -> Callable[[handlers.Handler[P, R]], handlers.Handler[P, R]]:
        jitter_s = None if jitter is None else spans.whole_seconds(jitter)
        policies = {"misfire": misfire, "overlap": overlap, "jitter_s": jitter_s}
        chosen = {**members, **{key: value for key, value in policies.items() if value is not None}}

        def declare(handler: handlers.Handler[P, R]) -> handlers.Handler[P, R]:
            if not isinstance(handler, handlers.Handler):
                raise errors.ConfigurationError("@h.cron and @h.every stand above @h.job, which makes the handler")
            scheduled = handlers.ScheduledJob(name or handler.name, chosen, dict(arguments or {}))
            taken = {job.name for other in self.handlers.values() for job in other.schedules}
            if scheduled.name in taken:
                raise errors.ConfigurationError(
                    f"two schedules make the job {scheduled.name!r}: give one of them a name="
                )
            handler.schedules.append(scheduled)
            return handler

        return declare


def _time(in_: spans.Duration | None, at: datetime | None) -> dict[str, Any]:
    if in_ is not None and at is not None:
        raise ValueError("give either in_ or at, not both")
    if in_ is not None:
        return {"run_in_s": spans.seconds(in_)}
    return {"run_at": "now" if at is None else handlers.instant_text(at)}


def _enqueued(item: Mapping[str, Any], replayed: bool) -> handlers.Enqueued:
    return handlers.Enqueued(item["id"], item.get("run_id"), replayed)


def _batch_problem(items: list[dict[str, Any]], refused: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
    """The problems of the refused jobs as one, each fault pointing at its job."""
    faults = [
        {**fault, "pointer": f"/{index}{fault.get('pointer', '')}"}
        for index, item in refused
        for fault in item["problem"].get("errors") or [{"detail": str(item["problem"].get("title"))}]
    ]
    return {"title": f"{len(refused)} of {len(items)} jobs were refused", "errors": faults, "items": items}


def _parts(bodies: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """The bodies in parts that stay within the limits of one request."""
    parts: list[list[Mapping[str, Any]]] = []
    room = 0
    for body in bodies:
        size = len(msgspec.json.encode(body)) + 1
        if not parts or size > room or len(parts[-1]) == MAX_BATCH:
            parts.append([])
            room = MAX_BATCH_BYTES
        parts[-1].append(body)
        room -= size
    return parts
