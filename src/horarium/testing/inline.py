"""Running handlers without a server: the payload is checked, the handler called, and how the run ended is returned.

    run = InlineWorker(h).run("email.welcome", {"user_id": 7})
    assert run.outcome == "succeeded"

The same code as in a worker reads the payload and judges what the handler did. What a server does is not imitated: no
retries, no timeouts, no schedule. A handler with `process=True` runs in this process.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET

from horarium import errors
from horarium.protocol import messages
from horarium.sdk import attempt as attempts
from horarium.sdk import client, context, outcome
from horarium.testing import clock, factories


@dataclass(frozen=True, slots=True)
class InlineRun:
    """How a run ended.

    `outcome` and `error` as a worker would report them; `value` is what the handler returned, as JSON gives it back;
    `raised` the exception itself. `logs` are the messages it logged, `progress` the last it told.
    """

    outcome: messages.Outcome
    value: Any
    error: messages.ErrorInfo | None
    raised: BaseException | None
    retry_in_s: float | None
    progress: messages.Progress | None
    logs: list[str]

    def check(self) -> InlineRun:
        """The run itself if it succeeded; otherwise raises what the handler raised."""
        if self.raised is not None:
            raise self.raised
        return self


class InlineWorker:
    """Runs the handlers of an application at once, in this thread."""

    def __init__(self, application: client.Horarium) -> None:
        self._application = application

    def run(
        self,
        handler: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        attempt: int = 1,
        run_id: str | None = None,
        scheduled_for: datetime = clock.START,
    ) -> InlineRun:
        """Run a handler; an asynchronous one in an event loop of its own. ConfigurationError when there is none."""
        lease = factories.lease(handler, arguments, attempt=attempt, run_id=run_id, scheduled_for=scheduled_for)
        return asyncio.run(self._carry_out(handler, lease))

    async def run_async(
        self,
        handler: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        attempt: int = 1,
        run_id: str | None = None,
        scheduled_for: datetime = clock.START,
    ) -> InlineRun:
        """The same inside a running event loop; a handler that is a plain function blocks it."""
        lease = factories.lease(handler, arguments, attempt=attempt, run_id=run_id, scheduled_for=scheduled_for)
        return await self._carry_out(handler, lease)

    def run_all(self, bodies: Iterable[Mapping[str, Any]]) -> list[InlineRun]:
        """Run what an `Outbox` holds, in its order, each due at once."""
        return [self.run(body["target"]["handler"], body["payload"]) for body in bodies]

    async def _carry_out(self, name: str, lease: messages.Lease) -> InlineRun:
        handler = self._application.handlers.get(name)
        if handler is None:
            known = ", ".join(self._application.handlers) or "none"
            raise errors.ConfigurationError(f"there is no handler {name!r}; the application has: {known}")
        attempt = attempts.Attempt(lease, time.monotonic())
        raised: BaseException | None = None
        result: messages.Result | None
        try:
            positional, named = handler.signature.read(lease.payload)
            value = handler.function(context.Context(attempt, name), *positional, **named)
            if inspect.isawaitable(value):
                value = await value
            result = outcome.of_value(attempt, value)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is how its run ends
            raised = error
            result = outcome.of_error(attempt, error)
        return _inline(result, raised)


def _inline(result: messages.Result | None, raised: BaseException | None) -> InlineRun:
    if result is None:  # the handler raised LeaseLostError itself
        return InlineRun("failed", None, None, raised, None, None, [])
    value = None if result.result is UNSET else msgspec.json.decode(result.result)
    lines = [line.message for line in result.logs]
    return InlineRun(result.outcome, value, result.error, raised, result.retry_in_s, result.progress, lines)
