"""`/v1/api-keys`: make, list and revoke keys of the own tenant."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from horarium.api import answers, auth, bodies, lists, openapi, routers, schemas, services
from horarium.api.idempotency import idempotent
from horarium.domain import job_fields, roles
from horarium.services import keys
from horarium.store import api_keys

router = routers.of("api-keys")

_READERS: dict[str, job_fields.Reader] = {
    "role": job_fields.word(roles.Role),
    "name": job_fields.label(200),
    "expires_at": job_fields.instant,
}


@router.post(
    "/v1/api-keys",
    responses=openapi.created(schemas.NewApiKey),
    openapi_extra=openapi.body(schemas.ApiKeyInput),
    summary="Make an API key",
)
@idempotent(shown_once=("token",))
async def create_key(request: Request, who: auth.Admin, raw: bodies.Single) -> Response:
    """The answer holds the token, which is never shown again. Two live keys may carry the same name: for rotation."""
    wanted = _read(bodies.members(raw))
    issued = await services.of(request).keys.issue(
        who, keys.Wanted(who.tenant_id, wanted["role"], wanted.get("name", ""), wanted.get("expires_at"))
    )
    return answers.with_status(201, {**_shown(issued.row), "token": issued.token})


@router.get("/v1/api-keys", responses=openapi.page(schemas.ApiKey), summary="List API keys")
async def list_keys(request: Request, who: auth.Admin, query: Annotated[lists.Query, Query()]) -> Response:
    """Keys of this tenant, newest first, revoked and expired ones too."""
    known = services.of(request)
    pager = lists.Pager(known, who, "api-keys", query)
    place = pager.position()
    after = None if place is None else (datetime.fromisoformat(str(place[0])), str(place[1]))
    found = await known.keys.page(who, after, pager.fetch)
    return pager.answer([_shown(row) for row in found], lambda key: [key["created_at"].isoformat(), key["id"]])


@router.delete("/v1/api-keys/{key_id}", status_code=204, responses=openapi.gone(), summary="Revoke an API key")
async def revoke_key(request: Request, who: auth.Admin, key_id: lists.PathText) -> Response:
    """It ends at once on this node, within five seconds on others. Revoking twice changes nothing."""
    await services.of(request).keys.revoke(who, key_id)
    return answers.nothing()


def _read(members: dict[str, Any]) -> dict[str, Any]:
    faults = job_fields.Faults()
    read = job_fields.members(members, "", faults, _READERS)
    if "role" not in read:
        faults.add("/role", f"is missing; roles are {', '.join(roles.Role)}", "missing")
    faults.raise_all()
    return read


def _shown(row: api_keys.KeyRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "role": row.role,
        "tenant": row.tenant_id,
        "created_at": row.created_at,
        "created_by": row.created_by,
        "expires_at": row.expires_at,
        "revoked_at": row.revoked_at,
    }
