"""`/v1/jobs`: define jobs, look at them, steer them."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from horarium import errors
from horarium.api import (
    answers,
    auth,
    bodies,
    etags,
    job_view,
    lists,
    openapi,
    paths,
    problems,
    refs,
    runs,
    schemas,
    services,
)
from horarium.api.idempotency import idempotent
from horarium.domain import job, job_fields, job_parsing, job_payload, roles, states
from horarium.services import catalog
from horarium.store import inspect

router = APIRouter(tags=["jobs"])

_PATCH = "application/merge-patch+json"
_PAUSE: Mapping[str, job_fields.Reader] = {"reason": job_fields.text(500), "until": job_fields.instant}
_RESUME: Mapping[str, job_fields.Reader] = {"catch_up": job_fields.word(("run_once", "run_all", "skip"))}


class JobsQuery(lists.Query):
    """How a list of jobs is narrowed down."""

    status: states.JobStatus | None = None
    queue: lists.Text | None = None
    tag: lists.Text | None = None
    name: lists.Text | None = Field(None, description="The name; with `*` at its end, all that begin like it.")
    owner: lists.Text | None = None
    managed_by: lists.Text | None = None
    due_before: lists.Instant | None = Field(None, description="Only jobs whose next run is before this instant.")


class NextQuery(BaseModel):
    """How many coming runs."""

    model_config = ConfigDict(extra="forbid")

    count: int = Field(5, ge=1, le=1000)


@router.post(
    "/v1/jobs",
    responses=openapi.created(schemas.Job),
    openapi_extra=openapi.body(schemas.JobInput),
    summary="Create a job",
)
@idempotent()
async def create_job(request: Request, who: auth.Enqueuer, raw: bodies.Single) -> Response:
    """A job that runs by a schedule, at an interval, or once. All faults of a body are named at once."""
    known = services.of(request)
    now = known.clock.now()
    spec = job_parsing.parse(bodies.members(raw), now=now)
    _check_may_define(who, spec)
    made = await known.catalog.create(who, spec)
    return _created(made, now)


@router.post(
    "/v1/jobs:batch",
    responses=openapi.done(200, schemas.BatchResult),
    openapi_extra=openapi.body(schemas.JobBatch),
    summary="Create up to 10,000 jobs",
)
@idempotent()
async def create_jobs(request: Request, who: auth.Enqueuer, raw: bodies.Batch) -> Response:
    """Each job is made or refused on its own; the answer tells of each, in the same order."""
    known = services.of(request)
    now = known.clock.now()
    listed = job_parsing.read_bodies(memoryview(bodies.only_member(raw, "jobs")))
    specs = [_spec_or_error(who, body, now) for body in listed]
    results = await known.catalog.create_many(who, specs)
    items = [_batch_item(request, result) for result in results]
    failed = sum(1 for result in results if isinstance(result, errors.HorariumError))
    return answers.ok({"items": items, "created": len(items) - failed, "failed": failed})


@router.get("/v1/jobs", responses=openapi.page(schemas.Job), summary="List jobs")
async def list_jobs(request: Request, who: auth.Reader, query: Annotated[JobsQuery, Query()]) -> Response:
    """Jobs, newest first. Deleted ones are shown with `status=cancelled` only."""
    known = services.of(request)
    pager = lists.Pager(known, who, "jobs", query)
    place = pager.position()
    wanted = catalog.Filter(**query.model_dump(exclude={"limit", "cursor"}))
    found = await known.catalog.list(who, wanted, None if place is None else UUID(str(place[0])), pager.fetch)
    now = known.clock.now()
    return pager.answer([job_view.document(view, now) for view in found], lambda shown: [str(shown["id"])])


@router.post(paths.JOB + "/pause", status_code=204, responses=openapi.gone(),
             openapi_extra=openapi.body(schemas.PauseInput, required=False), summary="Pause a job")  # fmt: skip
@idempotent()
async def pause_job(request: Request, who: auth.Operator, ref: str, raw: bodies.Single) -> Response:
    """No run starts any more; running ones go on. Pausing twice changes nothing."""
    given = _read(raw, _PAUSE)
    await services.of(request).catalog.pause(who, refs.job(ref), given.get("reason"), given.get("until"))
    return answers.nothing()


@router.post(paths.JOB + "/resume", status_code=204, responses=openapi.gone(),
             openapi_extra=openapi.body(schemas.ResumeInput, required=False), summary="Resume a job")  # fmt: skip
@idempotent()
async def resume_job(request: Request, who: auth.Operator, ref: str, raw: bodies.Single) -> Response:
    """From now on; what fell into the pause is run only if `catch_up` asks for it."""
    given = _read(raw, _RESUME)
    await services.of(request).catalog.resume(who, refs.job(ref), given.get("catch_up"))
    return answers.nothing()


@router.post(paths.JOB + "/run", responses=openapi.created(schemas.Run),
             openapi_extra=openapi.body(schemas.RunInput, required=False), summary="Run a job now")  # fmt: skip
@idempotent()
async def run_job(request: Request, who: auth.Operator, ref: str, raw: bodies.Single) -> Response:
    """One run beside the schedule, also while the job is paused; with a payload of its own if one is sent."""
    payload = _payload(bodies.optional_members(raw, ("payload",)))
    known = services.of(request)
    return await runs.made(known, who, await known.manual.run_now(who, refs.job(ref), payload))


@router.get(paths.JOB + "/next", responses=openapi.found(schemas.NextRuns), summary="Preview coming runs")
async def next_runs(request: Request, who: auth.Reader, ref: str, query: Annotated[NextQuery, Query()]) -> Response:
    """The coming nominal times of a job."""
    known = services.of(request)
    view = await known.catalog.get(who, refs.job(ref))
    fires = await known.catalog.next(who, view.job.id, query.count)
    local = job_view.local_times(fires, view.job.spec.timezone)
    return answers.ok({"next_runs": fires, "next_runs_local": local})


@router.get(paths.JOB + "/runs", responses=openapi.page(schemas.RunSummary), summary="List the runs of a job")
async def runs_of_job(
    request: Request, who: auth.Reader, ref: str, query: Annotated[runs.RunsOfJobQuery, Query()]
) -> Response:
    """Runs of one job, newest first."""
    known = services.of(request)
    job_id = await known.inspector.job_id(who, refs.job(ref))
    pager = lists.Pager(known, who, f"runs/{job_id}", query)
    wanted = inspect.RunFilter(job_id, state=query.state, since=query.since)
    return await runs.page_of_runs(known, who, pager, wanted)


@router.get(paths.JOB + "/skips", responses=openapi.page(schemas.Skip), summary="List skipped ticks of a job")
async def skips_of_job(
    request: Request, who: auth.Reader, ref: str, query: Annotated[lists.Query, Query()]
) -> Response:
    """Ticks that did not become a run, newest first, each stretch with its reason."""
    known = services.of(request)
    job_id = await known.inspector.job_id(who, refs.job(ref))
    pager = lists.Pager(known, who, f"skips/{job_id}", query)
    place = pager.position()
    found = await known.catalog.skips(who, job_id, None if place is None else int(place[0]), pager.fetch)
    return pager.answer([dict(row) for row in found], lambda skip: [skip["id"]])


@router.get(paths.JOB, responses=openapi.found(schemas.Job), summary="Get a job")
async def get_job(request: Request, who: auth.Reader, ref: str) -> Response:
    """One job by its id, deleted ones too, or by the name that it bears now."""
    known = services.of(request)
    return _shown(await known.catalog.get(who, refs.job(ref)), known.clock.now())


@router.put(paths.JOB, responses={**openapi.found(schemas.Job), **openapi.created(schemas.Job)},
            openapi_extra=openapi.body(schemas.JobInput), summary="Create or replace a job by name")  # fmt: skip
async def put_job(request: Request, who: auth.Declarer, ref: str, raw: bodies.Single) -> Response:
    """201 when the name was free, 200 when a job was replaced. `If-None-Match: *` only creates."""
    known = services.of(request)
    now = known.clock.now()
    name = _name_to_put(ref)
    held = await known.catalog.find(who, name)
    spec = job_parsing.parse(_named(bodies.members(raw), name), now=now, held=held.spec if held else None)
    if_match, only_new = etags.if_match(request), etags.only_new(request)
    if not roles.allows(who.role, roles.Right.EDIT):
        if_match, only_new = _conditions_to_declare(who, spec, held, if_match, only_new)
    made, is_new = await known.catalog.put(who, name, spec, if_match=if_match, only_new=only_new)
    return _created(made, now) if is_new else _shown(await known.catalog.get(who, made.id), now)


@router.patch(paths.JOB, responses=openapi.found(schemas.Job),
              openapi_extra=openapi.body(schemas.JobPatch, media_type=_PATCH), summary="Change a job")  # fmt: skip
async def patch_job(request: Request, who: auth.Editor, ref: str, raw: bodies.Single) -> Response:
    """A merge patch (RFC 7396). Runs that exist keep what they were made with; a new schedule counts from now."""
    known = services.of(request)
    patch = bodies.members(raw)
    changed = await known.catalog.patch(who, refs.job(ref), patch, etags.if_match(request))
    return _shown(await known.catalog.get(who, changed.id), known.clock.now())


@router.delete(paths.JOB, status_code=204, responses=openapi.gone(), summary="Delete a job")
async def delete_job(request: Request, who: auth.Editor, ref: str) -> Response:
    """No further run starts, waiting ones are cancelled, running ones go on; the name is free again."""
    await services.of(request).catalog.delete(who, refs.job(ref), etags.if_match(request))
    return answers.nothing()


def _created(made: job.Job, now: datetime) -> Response:
    headers = {"Location": f"/v1/jobs/{made.id}", **etags.of_version(made.version)}
    return answers.with_status(201, job_view.document(job_view.of_new(made, now), now), headers)


def _shown(view: job.JobView, now: datetime) -> Response:
    return answers.ok(job_view.document(view, now), etags.of_version(view.job.version))


def _check_may_define(who: job.Actor, spec: job.JobSpec) -> None:
    """A worker's key may enqueue, that is define one-offs, and nothing else."""
    if not job.is_one_off(spec) and not roles.allows(who.role, roles.Right.EDIT):
        detail = f"the role {who.role} may enqueue jobs that run once (run_at, run_in_s) and no others"
        raise errors.ForbiddenError(detail)


def _conditions_to_declare(
    who: job.Actor, spec: job.JobSpec, held: job.Job | None, if_match: int | None, only_new: bool
) -> tuple[int | None, bool]:
    """A worker's key may declare the jobs of its own code: such as nobody else manages, now or after the change.

    Returns the conditions (version, only new) under which that stays true until the change is made.
    """
    if not (spec.managed_by or "").startswith(roles.DECLARED_BY_SDK):
        detail = f"the role {who.role} may only put jobs with managed_by {roles.DECLARED_BY_SDK}…"
        raise errors.ForbiddenError(detail)
    if held is None:
        return if_match, True
    if held.spec.managed_by != spec.managed_by:
        owner = held.spec.managed_by or "people"
        raise errors.ForbiddenError(f"the job is managed by {owner}; the role {who.role} may not take it over")
    return held.version if if_match is None else if_match, only_new


def _named(body: dict[str, Any], name: str) -> dict[str, Any]:
    """The body of a job that is put by its name, which it may leave out but not contradict."""
    said = body.get("name")
    if isinstance(said, str) and unicodedata.normalize("NFC", said) != name:
        detail = f"is not {name!r}, the name in the path; rename a job with PATCH"
        raise errors.InvalidError([errors.Fault("/name", detail, "another_name")])
    return body if said is not None else {**body, "name": name}


def _name_to_put(ref: str) -> str:
    named = refs.job(ref)
    if isinstance(named, UUID):
        detail = "jobs are put by name: /v1/jobs/name:<name>; change one by its id with PATCH"
        raise errors.InvalidError([errors.Fault("/path/ref", detail, "not_a_name")])
    return named


def _spec_or_error(
    who: job.Actor, body: dict[str, Any] | errors.HorariumError, now: datetime
) -> job.JobSpec | errors.HorariumError:
    if isinstance(body, errors.HorariumError):
        return body
    try:
        spec = job_parsing.parse(body, now=now)
        _check_may_define(who, spec)
    except errors.HorariumError as error:
        return error
    return spec


def _batch_item(request: Request, result: job.Job | errors.HorariumError) -> dict[str, Any]:
    if isinstance(result, errors.HorariumError):
        problem = problems.document(request.scope, result)
        return {"status": problem["status"], "problem": problem}
    return {"status": 201, "id": result.id, "name": result.spec.name, "run_id": job_view.run_id_of(result)}


def _payload(members: Mapping[str, Any]) -> str | None:
    """The payload of one run, looked through like that of a job."""
    faults = job_fields.Faults()
    payload = job_payload.read(members["payload"], "/payload", faults) if "payload" in members else None
    faults.raise_all()
    return payload


def _read(raw: bytes, readers: Mapping[str, job_fields.Reader]) -> dict[str, Any]:
    faults = job_fields.Faults()
    read = job_fields.members(bodies.optional_members(raw, readers), "", faults, readers)
    faults.raise_all()
    return read
