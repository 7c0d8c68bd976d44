"""`Idempotency-Key` on POST: the same key and body do the thing once, whatever became of the first answer.

    first request            → done, the answer kept for 24 hours
    again                    → the same answer with `Idempotency-Replayed: true`
    with another body        → 422 idempotency-key-reused
    while the first goes on  → waits for its answer, up to five seconds; then 409 in-progress
    the answer was lost      → the audit tells whether the request took effect (it is written in the same transaction):
                               409 outcome-unknown if so; else the request is done now

With several databases a key lives with a shard that is hashed from it, the audit of a change in the database of the change: of
a lost answer all of them are asked, and one that cannot be makes it 503.

Kept are answers that the request itself earned, refusals too. Not kept: 401, 403, 429 and what is unavailable or
crashed, where the same request may well succeed a moment later."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, ParamSpec

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response

from horarium import errors
from horarium.api import problems, services
from horarium.domain import job, sharding
from horarium.store import audit, idempotency
from horarium.store.database import Database

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_PAUSES_S = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0)
_GIVEN_UP_S = 60.0
_CLOCKS_DIFFER = timedelta(minutes=5)  # the audit may have been written by another database's clock
_KEPT_HEADERS = ("content-type", "location", "etag")
_NOT_KEPT = (errors.ForbiddenError, errors.UnauthenticatedError, errors.OverLimitError)

_log = structlog.get_logger("horarium.api")

P = ParamSpec("P")


def idempotent(
    *, shown_once: Sequence[str] = ()
) -> Callable[[Callable[P, Awaitable[Response]]], Callable[P, Awaitable[Response]]]:
    """Make a POST route honour `Idempotency-Key`. The route takes `request`, `who` and `raw`, its body.

    `shown_once` names members of the answer that are not kept: a replay has null instead. Secrets are not stored.
    """

    def decorate(route: Callable[P, Awaitable[Response]]) -> Callable[P, Awaitable[Response]]:
        @functools.wraps(route)
        async def once(*arguments: P.args, **named: P.kwargs) -> Response:
            request: Any = named["request"]
            key = request.headers.get(HEADER)
            if key is None:
                return await route(*arguments, **named)
            who: Any = named["who"]
            raw: Any = named["raw"]
            holder = _Holder(request, who, _checked(key), raw, shown_once)
            return await holder.answer(lambda: route(*arguments, **named))

        return once

    return decorate


class _Holder:
    """One request that wants to hold a key."""

    def __init__(self, request: Request, who: job.Actor, key: str, raw: bytes, shown_once: Sequence[str]) -> None:
        known = services.of(request)
        self._databases = known.databases
        self._shard = sharding.shard_of_name(who.tenant_id, key, known.shards)
        self._request = request
        self._who = who
        self._key = key
        self._hash = _hash(request, raw)
        self._shown_once = shown_once
        self._mark = msgspec.json.encode({"x-request-id": who.request_id}).decode()

    async def answer(self, work: Callable[[], Awaitable[Response]]) -> Response:
        """The kept answer, or the one that `work` gives now."""
        term = await self._take()
        if isinstance(term, Response):
            return term
        try:
            response = await work()
        except _NOT_KEPT:
            await self._free(term)
            raise
        except errors.UnavailableError:
            await self._keep(term, idempotency.IN_DOUBT, self._mark, None)
            raise
        except errors.HorariumError as error:
            response = problems.of_error(self._request.scope, error)
        except BaseException:
            await self._keep(term, idempotency.IN_DOUBT, self._mark, None)
            raise
        kept = _without(bytes(response.body), self._shown_once)
        await self._keep(term, response.status_code, _kept_headers(response), kept)
        return response

    async def _take(self) -> datetime | Response:
        """Take the key, or find the answer of the request that has it."""
        async with self._database.connection() as connection:
            term = await idempotency.take(
                connection, self._who.tenant_id, self._key, self._hash, self._mark, self._shard
            )
        return term if term is not None else await self._wait()

    async def _wait(self) -> datetime | Response:
        for pause in (0.0, *_PAUSES_S):
            await asyncio.sleep(pause)
            known = await self._read()
            if known is None:
                return await self._take()
            if known.request_hash != self._hash:
                raise _reused()
            if known.status is not None and known.status != idempotency.IN_DOUBT:
                return _replay(known)
            if known.status == idempotency.IN_DOUBT or known.age_s > _GIVEN_UP_S:
                return await self._take_over(known)
        raise errors.ConflictError("the first request with this key is still under way; ask again", "in_progress")

    async def _take_over(self, known: idempotency.Known) -> datetime:
        """The key of a request that left no answer, unless it took effect."""
        first_id = msgspec.json.decode(known.headers)["x-request-id"]
        touched = await self._touched(first_id, known.created_at - _CLOCKS_DIFFER)
        if touched:
            raise _outcome_unknown(touched)
        async with self._database.connection() as connection:
            term = await idempotency.retake(connection, self._who.tenant_id, self._key, known.created_at, self._mark)
        if term is None:
            raise errors.ConflictError("another request with this key is under way; ask again", "in_progress")
        return term

    async def _touched(self, request_id: str, since: datetime) -> list[audit.Touched]:
        """What a request changed, in whichever database."""
        touched: list[audit.Touched] = []
        for database in self._databases.all:
            async with database.connection() as connection:
                touched += await audit.touched_by(connection, self._who.tenant_id, request_id, since)
        return touched

    @property
    def _database(self) -> Database:
        """Where the key lives now: its shard may move while the request goes on."""
        return self._databases.of(self._shard)

    async def _read(self) -> idempotency.Known | None:
        async with self._database.connection() as connection:
            return await idempotency.read(connection, self._who.tenant_id, self._key)

    async def _free(self, term: datetime) -> None:
        async with self._database.connection() as connection:
            await idempotency.free(connection, self._who.tenant_id, self._key, term)

    async def _keep(self, term: datetime, status: int, headers: str, body: bytes | None) -> None:
        """Keep an answer. When that fails the answer still counts: a repeat finds out from the audit."""
        try:
            async with self._database.connection() as connection:
                await idempotency.keep(
                    connection, self._who.tenant_id, self._key, term, status=status, headers=headers, body=body
                )
        except errors.UnavailableError as error:
            _log.warning("idempotent_answer_not_kept", request_id=self._who.request_id, reason=str(error))


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        detail = "a key is 1 to 255 printable ASCII characters without spaces; a UUID does well"
        raise errors.InvalidError([errors.Fault(f"/header/{HEADER}", detail, "invalid_idempotency_key")])
    return key


def _hash(request: Request, raw: bytes) -> bytes:
    """What makes two requests the same: method, path, query and body. Only the body may hold a NUL."""
    url = f"{request.method}\0{request.url.path}\0{request.url.query}\0"
    return hashlib.sha256(url.encode() + raw).digest()


def _without(body: bytes, shown_once: Sequence[str]) -> bytes:
    if not shown_once:
        return body
    members = msgspec.json.decode(body)
    return msgspec.json.encode({name: None if name in shown_once else value for name, value in members.items()})


def _kept_headers(response: Response) -> str:
    kept = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
    return msgspec.json.encode(kept).decode()


def _replay(known: idempotency.Known) -> Response:
    headers = {**msgspec.json.decode(known.headers), REPLAYED: "true"}
    return Response(known.body or b"", known.status or 200, headers)


def _reused() -> errors.InvalidError:
    detail = "this key was used with another request; each request has a key of its own"
    return errors.InvalidError([errors.Fault(f"/header/{HEADER}", detail, "idempotency_key_reused")])


def _outcome_unknown(touched: list[audit.Touched]) -> errors.ConflictError:
    done = ", ".join(f"{entry.action} {entry.object_type} {entry.object_id}" for entry in touched)
    detail = f"the first request with this key took effect and its answer was lost; it did: {done}"
    return errors.ConflictError(detail, "outcome_unknown")
