"""`/v1/shards` and `/v1/nodes`: who leads what. They belong to no tenant, so they are an admin's to see."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from horarium.api import auth, lists, openapi, routers, schemas, services
from horarium.services.topology import Topology

router = routers.of("nodes and shards")


@router.get("/v1/shards", responses=openapi.page(schemas.Shard), summary="List shards")
async def list_shards(request: Request, who: auth.Admin, query: Annotated[lists.Query, Query()]) -> Response:
    """Every shard with its database, leader, term and lease."""
    known = services.of(request)
    pager = lists.Pager(known, who, "shards", query)
    place = pager.position()
    after = -1 if place is None else int(place[0])
    found = await Topology(known.databases).shards()
    return pager.answer([each for each in found if each.shard > after], lambda shard: [shard.shard], found)


@router.get("/v1/nodes", responses=openapi.page(schemas.Node), summary="List nodes")
async def list_nodes(request: Request, who: auth.Admin, query: Annotated[lists.Query, Query()]) -> Response:
    """Nodes that were seen in the last hour, by id; `silent` ones have not been for three seconds."""
    known = services.of(request)
    pager = lists.Pager(known, who, "nodes", query)
    place = pager.position()
    after = "" if place is None else str(place[0])
    nodes = await Topology(known.databases).nodes()
    return pager.answer([each for each in nodes if each.id > after], lambda node: [node.id], nodes)
