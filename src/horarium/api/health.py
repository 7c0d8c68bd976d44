"""`/healthz`, `/readyz`, `/metrics`: for machines that look after this one; open to everyone who reaches the port."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from horarium import errors
from horarium.api import answers, openapi, routers, schemas, services

router = routers.of("operation")

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_PATIENCE_S = 2.0


@router.get("/healthz", responses=openapi.found(schemas.Health), summary="Whether the process lives")
async def healthz() -> Response:
    """200 while the process answers at all; a restart helps when it does not."""
    return answers.ok({"status": "ok", "faults": []})


@router.get(
    "/readyz",
    responses={**openapi.found(schemas.Health), 503: {"model": schemas.Health, "description": "Not now."}},
    summary="Whether this node can serve",
)
async def readyz(request: Request) -> Response:
    """200 when the database answers and the node has what it needs; 503 with what is missing, otherwise."""
    known = services.of(request)
    faults = [*await _database_faults(known), *known.unready()]
    status = "unready" if faults else "ok"
    return answers.with_status(503 if faults else 200, {"status": status, "faults": faults})


@router.get(
    "/metrics",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus text."}},
    response_class=Response,
    summary="Metrics for Prometheus",
)
async def metrics(request: Request) -> Response:
    """Rendered in a thread: with many series it takes a while, and runs must not wait for it."""
    rendered = await asyncio.to_thread(services.of(request).render_metrics)
    return Response(rendered, media_type=_PROMETHEUS)


async def _database_faults(known: services.Services) -> list[str]:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await known.database.now()
    except (errors.UnavailableError, TimeoutError):
        return ["the database does not answer"]
    return []
