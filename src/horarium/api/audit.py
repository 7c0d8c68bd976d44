"""`/v1/audit`: who changed what."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from horarium.api import auth, lists, openapi, routers, schemas, services
from horarium.services.spread_inspector import seen_of_each
from horarium.store import audit

router = routers.of("audit")


class AuditQuery(lists.Query):
    """How the audit is narrowed down."""

    object_id: lists.Text | None = None
    object_type: lists.Text | None = None
    actor: lists.Text | None = None
    action: lists.Text | None = None
    since: lists.Instant | None = None


@router.get("/v1/audit", responses=openapi.page(schemas.AuditEntry), summary="List the audit")
async def list_audit(request: Request, who: auth.Admin, query: Annotated[AuditQuery, Query()]) -> Response:
    """Changes and manual actions in this tenant, newest first."""
    known = services.of(request)
    pager = lists.Pager(known, who, "audit", query)
    place = pager.position()
    wanted = audit.Filter(query.object_id, query.object_type, query.actor, query.action, query.since)
    seen = [int(each) for each in place or ()]
    found = await known.inspector.audit(who, wanted, seen, pager.fetch)
    following = seen_of_each(seen, [entry.id for entry in pager.shown(found)])
    return pager.answer([_shown(entry) for entry in found], lambda _: following, found)


def _shown(entry: audit.Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "at": entry.at,
        "actor": entry.actor,
        "action": entry.action,
        "object_type": entry.object_type,
        "object_id": entry.object_id,
        "before": _raw(entry.before),
        "after": _raw(entry.after),
        "remote": entry.remote,
        "request_id": entry.request_id,
    }


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())
