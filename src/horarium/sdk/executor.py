"""Handlers as carriers: read the payload, call the function, where the handler's kind says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from horarium.sdk import attempt as attempts
from horarium.sdk import context, handlers, processes, threads, worker


def carriers_of(
    known: Mapping[str, handlers.Handler[..., Any]], pool: threads.Threads, children: processes.Processes
) -> dict[str, worker.Carrier]:
    """A carrier for each handler. ConfigurationError when a handler's type hints cannot be read."""
    return {name: _carrier_of(handler, pool, children) for name, handler in known.items()}


def _carrier_of(
    handler: handlers.Handler[..., Any], pool: threads.Threads, children: processes.Processes
) -> worker.Carrier:
    if handler.kind is handlers.Kind.TASK:
        return in_task(handler)
    if handler.kind is handlers.Kind.THREAD:
        return in_thread(handler, pool)
    return in_process(handler, children)


def in_task(handler: handlers.Handler[..., Any]) -> worker.Carrier:
    """In the event loop."""
    name, read = handler.name, handler.signature.read
    function: Callable[..., Awaitable[object]] = handler.function

    def carry(attempt: attempts.Attempt) -> Awaitable[object]:
        positional, named = read(attempt.lease.payload)
        return function(context.Context(attempt, name), *positional, **named)

    return carry


def in_thread(handler: handlers.Handler[..., Any], pool: threads.Threads) -> worker.Carrier:
    """In a thread, which cannot be broken off: it has to look at `ctx.cancelled`."""
    name, read, function = handler.name, handler.signature.read, handler.function

    def carry(attempt: attempts.Attempt) -> Awaitable[object]:
        positional, named = read(attempt.lease.payload)
        attempt.interrupter = _leave_alone
        return pool.call(function, context.Context(attempt, name), *positional, **named)

    return carry


def in_process(handler: handlers.Handler[..., Any], children: processes.Processes) -> worker.Carrier:
    """In a child process, which is killed when it does not stop."""
    read = handler.signature.read

    def carry(attempt: attempts.Attempt) -> Awaitable[object]:
        read(attempt.lease.payload)  # a payload that does not fit needs no child
        return children.call(handler, attempt)

    return carry


def _leave_alone() -> None:
    """The thread sees by itself that it should stop."""
