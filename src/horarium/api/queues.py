"""`/v1/queues`: what waits where, and who serves it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from horarium.api import auth, lists, openapi, routers, schemas, services

router = routers.of("queues")


@router.get("/v1/queues", responses=openapi.page(schemas.Queue), summary="List queues")
async def list_queues(request: Request, who: auth.Reader, query: Annotated[lists.Query, Query()]) -> Response:
    """Queues that have live runs or workers, or had runs in the last day, by name."""
    known = services.of(request)
    pager = lists.Pager(known, who, "queues", query)
    place = pager.position()
    after = "" if place is None else str(place[0])
    every = await known.inspector.queues(who)
    found = [queue for queue in every if queue.name > after]
    return pager.answer(found, lambda queue: [queue.name], every)
