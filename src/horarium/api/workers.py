"""`/v1/workers`: who asks for runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from horarium.api import auth, lists, openapi, routers, schemas, services

router = routers.of("workers")


@router.get("/v1/workers", responses=openapi.page(schemas.Worker), summary="List workers")
async def list_workers(request: Request, who: auth.Reader, query: Annotated[lists.Query, Query()]) -> Response:
    """Workers that were heard of in the last hour, by id; `silent` ones have not been for 30 seconds."""
    known = services.of(request)
    pager = lists.Pager(known, who, "workers", query)
    place = pager.position()
    found = await known.inspector.workers(who, None if place is None else str(place[0]), pager.fetch)
    return pager.answer(found, lambda worker: [worker.id])
