"""The public REST API as one application: its routes, how errors leave it, and what surrounds every answer.

Envelope (request id, headers, crashes) → ExactPaths → routes (auth → body → idempotency → services) → answers, problems
"""

from __future__ import annotations

from importlib import metadata

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from horarium import errors
from horarium.api import (
    audit,
    cron,
    dead_letters,
    docs,
    health,
    job_actions,
    jobs,
    keys,
    one_job,
    problems,
    queues,
    runs,
    topology,
    workers,
)
from horarium.api.envelope import Envelope
from horarium.api.paths import ExactPaths
from horarium.api.services import Services

# The first route that fits is taken: the busiest comes first, and what stands behind a job's name before the job itself.
_ROUTERS = (
    jobs.router,
    job_actions.router,
    one_job.router,
    runs.router,
    queues.router,
    workers.router,
    dead_letters.router,
    cron.router,
    keys.router,
    audit.router,
    topology.router,
    health.router,
    docs.router,
)


def build(services: Services) -> FastAPI:
    """The application around the services of a node."""
    app = routes()
    app.state.services = services
    return app


def routes() -> FastAPI:
    """The application without services: enough to describe it."""
    app = FastAPI(
        title="Horarium",
        version=metadata.version("horarium"),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for router in _ROUTERS:
        app.router.routes.extend(router.routes)
    app.add_exception_handler(errors.HorariumError, problems.on_error)
    app.add_exception_handler(HTTPException, problems.on_http_exception)
    app.add_exception_handler(RequestValidationError, problems.on_validation_error)
    app.add_middleware(ExactPaths)
    app.add_middleware(Envelope)
    return app
