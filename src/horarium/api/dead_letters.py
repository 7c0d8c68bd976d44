"""`/v1/dead-letters`: runs that used up their attempts, until somebody retries or discards them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from horarium.api import answers, auth, bodies, lists, openapi, refs, routers, schemas, services
from horarium.api.idempotency import idempotent
from horarium.domain import job, job_fields
from horarium.services import manual
from horarium.store import inspect

router = routers.of("dead-letters")


class DeadLettersQuery(lists.Query):
    """How a list of dead letters is narrowed down."""

    job: lists.Text | None = Field(None, description="Id of a job, or its name.")
    queue: lists.Text | None = None
    fingerprint: lists.Text | None = None
    error: lists.Text | None = Field(None, description="Part of the error, upper and lower case alike.")
    since: lists.Instant | None = None
    group: bool = Field(False, description="By error and job, the largest group first; one page, no cursor.")


@router.get(
    "/v1/dead-letters",
    responses={
        200: {
            "model": schemas.Page[schemas.DeadLetter | schemas.DeadLetterGroup],
            "description": "One page; of groups with `group=1`.",
        }
    },
    summary="List dead letters",
)
async def list_dead_letters(
    request: Request, who: auth.Reader, query: Annotated[DeadLettersQuery, Query()]
) -> Response:
    """The newest run first, or grouped by error and job."""
    known = services.of(request)
    job_id = None if query.job is None else await known.inspector.job_id(who, refs.job_in_query(query.job))
    wanted = inspect.DeadFilter(job_id, query.queue, query.fingerprint, query.error, query.since)
    if query.group:
        groups = await known.inspector.dead_letter_groups(who, wanted, query.limit)
        return answers.page(groups, None, lists.missing_of(groups, query))
    pager = lists.Pager(known, who, "dead-letters", query)
    place = pager.position()
    found = await known.inspector.dead_letters(who, wanted, None if place is None else UUID(str(place[0])), pager.fetch)
    return pager.answer(found, lambda letter: [str(letter.run_id)])


@router.post(
    "/v1/dead-letters:retry",
    responses=openapi.done(200, schemas.Retried),
    openapi_extra=openapi.body(schemas.DeadLetterSelection),
    summary="Retry dead letters",
)
@idempotent()
async def retry_dead_letters(request: Request, who: auth.Operator, raw: bodies.Single) -> Response:
    """Each is run again as a new run. At most 10,000 at once: ask again while `more` is true."""
    known = services.of(request)
    count = await known.manual.retry_dead(who, await _selected(known, who, bodies.members(raw)))
    return answers.ok({"retried": count, "more": count == manual.MAX_LETTERS})


@router.post(
    "/v1/dead-letters:discard",
    responses=openapi.done(200, schemas.Discarded),
    openapi_extra=openapi.body(schemas.DeadLetterSelection),
    summary="Discard dead letters",
)
@idempotent()
async def discard_dead_letters(request: Request, who: auth.Operator, raw: bodies.Single) -> Response:
    """They are given up; their runs stay in history. At most 10,000 at once: ask again while `more` is true."""
    known = services.of(request)
    count = await known.manual.discard_dead(who, await _selected(known, who, bodies.members(raw)))
    return answers.ok({"discarded": count, "more": count == manual.MAX_LETTERS})


async def _selected(
    known: services.Services, who: job.Actor, members: Mapping[str, Any]
) -> Sequence[UUID] | inspect.DeadFilter:
    """The dead letters that a body names: by run id, or by filter. To take all of them, a filter must be sent empty."""
    faults = job_fields.Faults()
    given = job_fields.members(members, "", faults, _SELECTION)
    if len(given) != 1 and not faults:
        faults.add("", "exactly one of run_ids and filter is needed")
    faults.raise_all()
    if "run_ids" in given:
        ids: Sequence[UUID] = given["run_ids"]
        return ids
    wanted = given["filter"]
    ref = wanted.pop("job", None)
    job_id = None if ref is None else await known.inspector.job_id(who, refs.job_in_query(ref))
    return inspect.DeadFilter(job_id, **wanted)


def _read_run_ids(value: Any, pointer: str, faults: job_fields.Faults) -> list[UUID]:
    ids = []
    for path, each in job_fields.entries(value, pointer, faults, manual.MAX_LETTERS):
        try:
            ids.append(UUID(each))
        except (ValueError, AttributeError, TypeError):
            faults.add(path, f"{job_fields.shown(each)} is not an id of a run")
    return ids


def _read_filter(value: Any, pointer: str, faults: job_fields.Faults) -> dict[str, Any]:
    return job_fields.members(value, pointer, faults, _FILTER)


_FILTER: Mapping[str, job_fields.Reader] = {
    "job": job_fields.text(200),
    "queue": job_fields.text(200),
    "fingerprint": job_fields.text(200),
    "error": job_fields.text(200),
    "since": job_fields.instant,
}
_SELECTION: Mapping[str, job_fields.Reader] = {"run_ids": _read_run_ids, "filter": _read_filter}
