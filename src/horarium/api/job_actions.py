"""`/v1/jobs/{ref}/…`: steer one job, and look at its runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from horarium.api import answers, auth, bodies, job_view, lists, openapi, paths, refs, routers, runs, schemas, services
from horarium.api.idempotency import idempotent
from horarium.domain import job_fields, job_payload
from horarium.store import inspect

router = routers.of("jobs")

_PAUSE: Mapping[str, job_fields.Reader] = {"reason": job_fields.text(500), "until": job_fields.instant}
_RESUME: Mapping[str, job_fields.Reader] = {"catch_up": job_fields.word(("run_once", "run_all", "skip"))}


class NextQuery(BaseModel):
    """How many coming runs."""

    model_config = ConfigDict(extra="forbid")

    count: int = Field(5, ge=1, le=1000)


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
