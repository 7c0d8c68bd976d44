"""`/healthz`, `/readyz`, `/metrics`: for machines that look after this one; open to everyone who reaches the port."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from horarium import errors
from horarium.api import answers, openapi, routers, schemas, services
from horarium.store.database import Database

router = routers.of("operation")

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_PATIENCE_S = 2.0


@router.get("/healthz", responses=openapi.found(schemas.Health), summary="Whether the process lives")
async def healthz() -> Response:
    """200 while the process answers at all; a restart helps when it does not."""
    return answers.ok({"status": "ok", "faults": [], "warnings": []})


@router.get(
    "/readyz",
    responses={**openapi.found(schemas.Health), 503: {"model": schemas.Health, "description": "Not now."}},
    summary="Whether this node can serve",
)
async def readyz(request: Request) -> Response:
    """200 when a database answers and the node has what it needs; 503 with what is missing, otherwise.

    With several databases one that does not answer is named, and does not take the node out of service.
    """
    known = services.of(request)
    silent, unready = await _silent_databases(known), known.unready()
    faults = [*silent, *unready]
    serves = not unready and len(silent) < len(known.databases.all)
    return answers.with_status(
        200 if serves else 503,
        {
            "status": "ok" if serves else "unready",
            "faults": faults,
            "warnings": [*known.warnings()],
        },
    )


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


async def _silent_databases(known: services.Services) -> list[str]:
    """A sentence for each database that does not answer."""
    answered = await asyncio.gather(*(_answers(each) for each in known.databases.all))
    names = [name for name, good in zip(known.databases.names, answered, strict=True) if not good]
    if not known.databases.are_several:
        return ["the database does not answer"] if names else []
    return [f"database {name} does not answer" for name in names]


async def _answers(database: Database) -> bool:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await database.now()
    except (errors.UnavailableError, TimeoutError):
        return False
    return True
