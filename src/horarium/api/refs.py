"""How a job is named in paths and queries: by its id, or as `name:` and its name."""

from __future__ import annotations

import unicodedata
from uuid import UUID

from horarium import errors

_PREFIX = "name:"


def job(text: str) -> UUID | str:
    """The job that a path names: an id, or the name behind `name:` in normal form (NFC)."""
    if text.startswith(_PREFIX):
        return _name(text.removeprefix(_PREFIX))
    found = _id(text)
    if found is None:
        raise errors.NotFoundError(f"{text[:200]!r} is no id of a job; a job is named by its id or as name:<name>")
    return found


def job_in_query(text: str) -> UUID | str:
    """The job that a query names: an id, or its name with or without `name:`."""
    found = None if text.startswith(_PREFIX) else _id(text)
    return found if found is not None else _name(text.removeprefix(_PREFIX))


def _id(text: str) -> UUID | None:
    # UUID() takes braces, urn: and digits without dashes, too; an id has one form only.
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found if str(found) == text.lower() else None


def _name(text: str) -> str:
    if not text or "\0" in text:
        raise errors.NotFoundError("no job has an empty name, or one with U+0000")
    return unicodedata.normalize("NFC", text)
