"""Versions over HTTP: `ETag: "7"` is version 7 of a job, `If-Match: "7"` changes it only while it is at that version."""

from __future__ import annotations

import re

from starlette.requests import Request

from horarium import errors

_TAG = re.compile(r'"([0-9]{1,10})"')


def of_version(version: int) -> dict[str, str]:
    """The header that names a version."""
    return {"ETag": f'"{version}"'}


def if_match(request: Request) -> int | None:
    """The version that a change is meant for; None for any (no header, or `*`). InvalidError when it names none."""
    header = request.headers.get("if-match")
    if header is None or header.strip() == "*":
        return None
    match = _TAG.fullmatch(header.strip())
    if match is None:
        detail = 'send one version as the ETag of the job gave it, such as "7", or *'
        raise errors.InvalidError([errors.Fault("/header/If-Match", detail, "invalid_etag")])
    return int(match[1])


def only_new(request: Request) -> bool:
    """Whether `If-None-Match: *` asks to create and never to replace. InvalidError for any other value."""
    header = request.headers.get("if-none-match")
    if header is None:
        return False
    if header.strip() != "*":
        detail = "only * is supported: create, and never replace"
        raise errors.InvalidError([errors.Fault("/header/If-None-Match", detail, "invalid_etag")])
    return True
