"""`/v1/jobs`: create jobs, one or many, and list them."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from horarium import errors
from horarium.api import answers, auth, bodies, job_view, lists, openapi, problems, routers, schemas
from horarium.api import services as node
from horarium.api.idempotency import idempotent
from horarium.domain import job, job_parsing, roles, states
from horarium.services import catalog

router = routers.of("jobs")

_PATCH = "application/merge-patch+json"


class JobsQuery(lists.Query):
    """How a list of jobs is narrowed down."""

    status: states.JobStatus | None = None
    queue: lists.Text | None = None
    tag: lists.Text | None = None
    name: lists.Text | None = Field(None, description="The name; with `*` at its end, all that begin like it.")
    owner: lists.Text | None = None
    managed_by: lists.Text | None = None
    due_before: lists.Instant | None = Field(None, description="Only jobs whose next run is before this instant.")


@router.post(
    "/v1/jobs",
    responses=openapi.created(schemas.Job),
    openapi_extra=openapi.body(schemas.JobInput),
    summary="Create a job",
)
@idempotent()
async def create_job(request: Request, who: auth.Enqueuer, raw: bodies.Single) -> Response:
    """A job that runs by a schedule, at an interval, or once. All faults of a body are named at once."""
    known = node.of(request)
    now = known.clock.now()
    spec = job_parsing.parse(bodies.members(raw), now=now)
    _check_may_define(who, spec)
    made = await known.catalog.create(who, spec)
    return answers.with_status(201, job_view.document(job_view.of_new(made), now), job_view.headers_of_new(made))


@router.post(
    "/v1/jobs:batch",
    responses=openapi.done(200, schemas.BatchResult),
    openapi_extra=openapi.body(schemas.JobBatch),
    summary="Create up to 10,000 jobs",
)
@idempotent()
async def create_jobs(request: Request, who: auth.Enqueuer, raw: bodies.Batch) -> Response:
    """Each job is made or refused on its own; the answer tells of each, in the same order. A bare list is taken, too."""
    known = node.of(request)
    now = known.clock.now()
    listed = job_parsing.read_bodies(raw if bodies.is_list(raw) else memoryview(bodies.only_member(raw, "jobs")))
    parser = job_parsing.Parser(now)
    specs = [_spec_or_error(who, body, parser) for body in listed]
    results = await known.catalog.create_many(who, specs)
    items = [_batch_item(request, result) for result in results]
    failed = sum(1 for result in results if isinstance(result, errors.HorariumError))
    return answers.ok({"items": items, "created": len(items) - failed, "failed": failed})


@router.get("/v1/jobs", responses=openapi.page(schemas.Job), summary="List jobs")
async def list_jobs(request: Request, who: auth.Reader, query: Annotated[JobsQuery, Query()]) -> Response:
    """Jobs, newest first. Deleted ones are shown with `status=cancelled` only."""
    known = node.of(request)
    pager = lists.Pager(known, who, "jobs", query)
    place = pager.position()
    wanted = catalog.Filter(**query.model_dump(exclude=set(lists.Query.model_fields)))
    found = await known.catalog.list(who, wanted, None if place is None else UUID(str(place[0])), pager.fetch)
    now = known.clock.now()
    return pager.answer([job_view.document(view, now) for view in found], lambda shown: [str(shown["id"])], found)


def _check_may_define(who: job.Actor, spec: job.JobSpec) -> None:
    """A worker's key may enqueue, that is define one-offs, and nothing else."""
    if not job.is_one_off(spec) and not roles.allows(who.role, roles.Right.EDIT):
        detail = f"the role {who.role} may enqueue jobs that run once (run_at, run_in_s) and no others"
        raise errors.ForbiddenError(detail)


def _spec_or_error(
    who: job.Actor, body: dict[str, Any] | errors.HorariumError, parser: job_parsing.Parser
) -> job.JobSpec | errors.HorariumError:
    if isinstance(body, errors.HorariumError):
        return body
    try:
        spec = parser.parse(body)
        _check_may_define(who, spec)
    except errors.HorariumError as error:
        return error
    return spec


def _batch_item(request: Request, result: job.Job | errors.HorariumError) -> dict[str, Any]:
    if isinstance(result, errors.HorariumError):
        problem = problems.document(request.scope, result)
        return {"status": problem["status"], "problem": problem}
    return {"status": 201, "id": result.id, "name": result.spec.name, "run_id": job_view.run_id_of(result)}
