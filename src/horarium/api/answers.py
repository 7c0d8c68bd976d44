"""Answers: JSON encoded by msgspec, so that raw payloads pass through digit for digit and times end in Z."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from starlette.responses import Response

MEDIA_TYPE = "application/json"

_encoder = msgspec.json.Encoder()


def ok(content: object, headers: Mapping[str, str] | None = None) -> Response:
    """200 with a JSON body."""
    return Response(_encoder.encode(content), 200, headers, MEDIA_TYPE)


def with_status(status: int, content: object, headers: Mapping[str, str] | None = None) -> Response:
    """Another status with a JSON body."""
    return Response(_encoder.encode(content), status, headers, MEDIA_TYPE)


def page(items: Sequence[object], next_cursor: str | None, missing: Sequence[str] = ()) -> Response:
    """One page of a list; `next_cursor` is None on the last one, `missing` names databases that could not be asked."""
    content: dict[str, object] = {"items": items, "next_cursor": next_cursor}
    if missing:
        content["missing"] = missing
    return Response(_encoder.encode(content), 200, None, MEDIA_TYPE)


def nothing() -> Response:
    """204."""
    return Response(status_code=204)
