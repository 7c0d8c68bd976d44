"""The audit: who changed what, from where, written in the transaction of the change and never altered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from horarium.domain import job
from horarium.store import statements

SQL = statements.load("audit")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the audit; `before` and `after` are JSON text."""

    id: int
    at: datetime
    actor: str
    action: str
    object_type: str
    object_id: str
    before: str | None
    after: str | None
    remote: str | None
    request_id: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to one object: its id, and how it was before and is after, as JSON text or None."""

    object_id: str
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Touched:
    """An object that a request changed."""

    object_type: str
    object_id: str
    action: str


@dataclass(frozen=True, slots=True)
class Filter:
    """Which entries a list shows; None leaves a member open."""

    object_id: str | None = None
    object_type: str | None = None
    actor: str | None = None
    action: str | None = None
    since: datetime | None = None


async def record(
    connection: asyncpg.Connection,
    who: job.Actor,
    action: str,
    object_type: str,
    object_id: str,
    before: str | None = None,
    after: str | None = None,
) -> None:
    """Write down one change."""
    await connection.execute(
        SQL.insert_entry,
        who.tenant_id,
        who.name,
        action,
        object_type,
        object_id,
        before,
        after,
        who.remote,
        who.request_id,
    )


async def record_many(
    connection: asyncpg.Connection, who: job.Actor, action: str, object_type: str, changes: Sequence[Change]
) -> None:
    """Write down the same kind of change to many objects, in one statement."""
    await connection.execute(
        SQL.insert_entries,
        who.tenant_id,
        who.name,
        action,
        object_type,
        [change.object_id for change in changes],
        [change.before for change in changes],
        [change.after for change in changes],
        who.remote,
        who.request_id,
    )


async def page(
    connection: asyncpg.Connection, tenant_id: str, wanted: Filter, before_id: int | None, limit: int
) -> list[Entry]:
    """Entries of a tenant, newest first; `before_id` is the id of the last one seen."""
    rows = await connection.fetch(
        SQL.page_of_entries,
        tenant_id,
        before_id,
        wanted.object_id,
        wanted.object_type,
        wanted.actor,
        wanted.action,
        wanted.since,
        limit,
    )
    return [Entry(**row) for row in rows]


async def touched_by(connection: asyncpg.Connection, tenant_id: str, request_id: str, since: datetime) -> list[Touched]:
    """The first ten objects that a request changed since an instant."""
    return [Touched(**row) for row in await connection.fetch(SQL.entries_of_request, tenant_id, request_id, since)]
