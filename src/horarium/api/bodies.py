"""Bodies of requests: read within a limit, then taken apart by the reader of jobs, which keeps a `payload` digit for
digit.

Refused here are other media types (415), sizes over the limit (413), and JSON that no two readers would understand in
the same way: a member stated twice, nesting beyond 64 levels (422)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Annotated, Any

import msgspec
from fastapi import Depends
from starlette.exceptions import HTTPException
from starlette.requests import Request

from horarium import errors
from horarium.domain import job_fields, job_parsing

MAX_DEPTH = 64

_MEDIA_TYPE = re.compile(r"application/(?:[a-z0-9!#$&^_.+-]+\+)?json", re.IGNORECASE)
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|([\[{])|([\]}])', re.DOTALL)

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


async def single(request: Request) -> bytes:
    """The body of a request about one thing; b"" when there is none."""
    return await _read(request, job_parsing.MAX_BODY_BYTES)


async def batch(request: Request) -> bytes:
    """The body of a request about many things."""
    return await _read(request, job_parsing.MAX_BATCH_BYTES)


# A route's parameter of this type is the body; it stands behind the actor, so that nobody unknown makes us read.
Single = Annotated[bytes, Depends(single)]
Batch = Annotated[bytes, Depends(batch)]


def members(raw: bytes) -> dict[str, Any]:
    """The members of the JSON object in a body: values, but `payload` as `msgspec.Raw`."""
    _check_depth(raw)
    _check_stated_once(raw)
    return job_parsing.read_body(raw)


def optional_members(raw: bytes, known: Collection[str]) -> dict[str, Any]:
    """The members of a body that may be left out and knows only these members; `null` counts as left out."""
    found = members(raw) if raw.strip() else {}
    faults = [_unknown(name, known) for name in found if name not in known]
    if faults:
        raise errors.InvalidError(faults)
    return {name: value for name, value in found.items() if value is not None}


def is_list(raw: bytes) -> bool:
    """Whether a body is a bare JSON list, which a batch may be."""
    return raw.lstrip()[:1] == b"["


def only_member(raw: bytes, name: str) -> msgspec.Raw:
    """The JSON of the one member `name` that the object in a body has."""
    try:
        found = _OBJECT.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise errors.InvalidError([errors.Fault("", f"is not a JSON object: {error}", "malformed_json")]) from None
    faults = [_unknown(other, [name]) for other in found if other != name]
    if name not in found:
        faults.append(errors.Fault(f"/{name}", "is missing", "missing"))
    if faults:
        raise errors.InvalidError(faults)
    return found[name]


async def _read(request: Request, limit: int) -> bytes:
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
    if size:
        _check_media_type(request)
    return b"".join(chunks)


def _check_media_type(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip()
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise HTTPException(415, f"send application/json, not {media_type[:100] or 'a body without a Content-Type'}")


def _check_depth(raw: bytes) -> None:
    """Refuse deep nesting. Bodies with few brackets, that is nearly all, need no look at their structure."""
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for match in _BRACKETS.finditer(raw):
        if match[1]:
            depth += 1
            if depth > MAX_DEPTH:
                detail = f"is nested more than {MAX_DEPTH} deep"
                raise errors.InvalidError([errors.Fault("", detail, "too_deep")])
        elif match[2]:
            depth -= 1


def _check_stated_once(raw: bytes) -> None:
    """Refuse a member that is stated twice, of which readers keep the first or the last as they like.

    A body that is as long as its members need, with no spaces or those of the usual writers, has none: no second look.
    """
    try:
        found = _OBJECT.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return  # the reader of bodies says what is wrong
    compact = 1 + sum(len(name.encode()) + 4 + memoryview(part).nbytes for name, part in found.items())
    if len(raw) in (compact, compact + 2 * len(found) - 1):
        return
    reader = json.JSONDecoder(object_pairs_hook=list, parse_int=str, parse_float=str)
    names = [name for name, _ in reader.decode(raw.decode(errors="replace").strip())]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise errors.InvalidError([_stated_twice(name) for name in twice])


def _unknown(name: str, known: Collection[str]) -> errors.Fault:
    return errors.Fault(
        job_fields.pointer_to("", name), f"is unknown{job_fields.suggestion(name, known)}", "unknown_member"
    )


def _stated_twice(name: str) -> errors.Fault:
    return errors.Fault(job_fields.pointer_to("", name), "is stated twice", "stated_twice")


def _too_large(limit: int) -> errors.TooLargeError:
    return errors.TooLargeError(f"the body is larger than {limit // 1024} KiB")
