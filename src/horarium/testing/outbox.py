"""What code under test enqueues, kept instead of sent.

with Outbox(h) as outbox:
    await register_user(...)
assert outbox.arguments("email.welcome") == [{"user_id": 7}]
InlineWorker(h).run_all(outbox)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from horarium.sdk import client, handlers, signature


class Outbox:
    """Takes the place of the server for `enqueue…` while its `with` lasts; holds the bodies of the jobs, in order."""

    def __init__(self, application: client.Horarium) -> None:
        self._application = application
        self._bodies: list[dict[str, Any]] = []
        self._ids = itertools.count(1)

    def __enter__(self) -> Self:
        # Instance attributes stand before the class's methods; taking them away brings the methods back.
        vars(self._application).update(submit=self._submit, submit_many=self._submit_many)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in ("submit", "submit_many"):
            vars(self._application).pop(name, None)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._bodies)

    def __len__(self) -> int:
        return len(self._bodies)

    def arguments(self, handler: str) -> list[dict[str, Any]]:
        """The arguments of each job for this handler."""
        return [body["payload"] for body in self._bodies if body["target"]["handler"] == handler]

    async def _submit(self, body: Mapping[str, Any], idempotency_key: str | None = None) -> handlers.Enqueued:
        encoded = msgspec.json.encode(body, enc_hook=signature.encode_other)  # as it would go over the wire
        self._bodies.append(msgspec.json.decode(encoded))
        return handlers.Enqueued(f"outbox-{next(self._ids)}", None)

    async def _submit_many(self, bodies: Sequence[Mapping[str, Any]]) -> list[handlers.Enqueued]:
        return [await self._submit(body) for body in bodies]
