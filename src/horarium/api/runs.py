"""`/v1/runs`: what became of each tick, and steering by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated
from uuid import UUID

import msgspec
from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from horarium import errors
from horarium.api import answers, auth, bodies, lists, openapi, refs, routers, schemas, services
from horarium.api.idempotency import idempotent
from horarium.domain import job, states
from horarium.services import inspector as inspectors
from horarium.services import views
from horarium.store import inspect

router = routers.of("runs")

_FOLLOW_EVERY_S = 0.5
_SILENCE_S = 15.0
_START = inspect.LogPosition(0, 0)


class RunsOfJobQuery(lists.Query):
    """How the runs of one job are narrowed down."""

    state: states.RunState | None = None
    since: lists.Instant | None = Field(None, description="Only runs with a nominal time from here on.")


class RunsQuery(RunsOfJobQuery):
    """How a list of runs is narrowed down."""

    job: lists.Text | None = Field(None, description="Id of a job, or its name.")
    queue: lists.Text | None = None
    tenant: lists.Text | None = Field(None, description="The key's own tenant; others are refused.")
    error: lists.Text | None = Field(None, description="Part of the error, upper and lower case alike.")


class LogsQuery(lists.Query):
    """Which part of a log."""

    limit: int = Field(1000, ge=1, le=1000, description="Most lines of one page.")
    follow: bool = Field(False, description="Go on until the run ends, as server-sent events named `log`.")


@router.get("/v1/runs", responses=openapi.page(schemas.RunSummary), summary="List runs")
async def list_runs(request: Request, who: auth.Reader, query: Annotated[RunsQuery, Query()]) -> Response:
    """Runs by id, the newest nominal time first; live and finished ones together."""
    if query.tenant not in (None, who.tenant_id):
        raise errors.ForbiddenError(f"this key is of the tenant {who.tenant_id} and sees no other")
    known = services.of(request)
    job_id = None if query.job is None else await known.inspector.job_id(who, refs.job_in_query(query.job))
    wanted = inspect.RunFilter(job_id, query.queue, query.state, query.error, query.since)
    return await page_of_runs(known, who, lists.Pager(known, who, "runs", query), wanted)


@router.get("/v1/runs/{run_id}", responses=openapi.found(schemas.Run), summary="Get a run")
async def get_run(request: Request, who: auth.Reader, run_id: UUID) -> Response:
    """One run with its attempts, its progress and its last 1,000 log lines."""
    return answers.ok(await services.of(request).inspector.run(who, run_id))


@router.post("/v1/runs/{run_id}/cancel", responses=openapi.done(202, schemas.RunReference), summary="Cancel a run")
@idempotent()
async def cancel_run(request: Request, who: auth.Operator, run_id: UUID, raw: bodies.Single) -> Response:
    """A waiting run is cancelled at once; the worker of a running one is told at its next heartbeat."""
    bodies.optional_members(raw, ())
    known = services.of(request)
    await known.canceller.cancel(who, run_id)
    return answers.with_status(202, {"id": run_id, "run_id": run_id, "state": await known.inspector.state(who, run_id)})


@router.post("/v1/runs/{run_id}/rerun", responses=openapi.created(schemas.Run), summary="Run the same again")
@idempotent()
async def rerun(request: Request, who: auth.Operator, run_id: UUID, raw: bodies.Single) -> Response:
    """A new run with the payload and target of a finished one; `rerun_of` names it."""
    bodies.optional_members(raw, ())
    known = services.of(request)
    return await made(known, who, await known.manual.rerun(who, run_id))


@router.get("/v1/runs/{run_id}/logs", responses=openapi.logs(), summary="Read the log of a run")
async def run_logs(request: Request, who: auth.Reader, run_id: UUID, query: Annotated[LogsQuery, Query()]) -> Response:
    """Lines in their order. With `follow=1` new ones are sent as they come, until the run ends."""
    known = services.of(request)
    await known.inspector.state(who, run_id)
    if query.follow:
        return StreamingResponse(_follow(known, who, run_id), media_type="text/event-stream")
    pager = lists.Pager(known, who, f"logs/{run_id}", query)
    place = pager.position()
    after = _START if place is None else inspect.LogPosition(int(place[0]), int(place[1]))
    found = await known.inspector.logs(run_id, after, pager.fetch)
    return pager.answer(found, lambda line: [line.attempt, line.seq])


async def page_of_runs(
    known: services.Services, who: job.Actor, pager: lists.Pager, wanted: inspect.RunFilter
) -> Response:
    """One page of runs."""
    place = pager.position()
    before = None if place is None else UUID(str(place[0]))
    found = await known.inspector.runs(who, wanted, before, pager.fetch)
    return pager.answer(found, lambda run: [str(run.id)])


async def made(known: services.Services, who: job.Actor, run_id: UUID) -> Response:
    """201 with a run that was made by hand."""
    run = await known.inspector.run(who, run_id)
    return answers.with_status(201, run, {"Location": f"/v1/runs/{run_id}"})


async def _follow(known: services.Services, who: job.Actor, run_id: UUID) -> AsyncIterator[bytes]:
    """Server-sent events: `log` for each line, `end` with the final state; a comment when there was nothing for long."""
    after, silent_s = _START, 0.0
    while True:
        state = await known.inspector.state(who, run_id)
        lines = await known.inspector.logs(run_id, after, inspectors.LOGS_SHOWN)
        for line in lines:
            yield _event("log", line)
        if lines:
            after, silent_s = inspect.LogPosition(lines[-1].attempt, lines[-1].seq), 0.0
            continue
        if state in states.FINAL_STATES:
            yield _event("end", {"run_id": run_id, "state": state})
            return
        silent_s += _FOLLOW_EVERY_S
        if silent_s >= _SILENCE_S:
            yield b": still here\n\n"
            silent_s = 0.0
        await asyncio.sleep(_FOLLOW_EVERY_S)


def _event(name: str, content: views.LogLine | dict[str, object]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(content) + b"\n\n"
