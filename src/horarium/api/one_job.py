"""`/v1/jobs/{ref}`: look at one job, put, change or delete it."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from horarium import errors
from horarium.api import answers, auth, bodies, etags, job_view, openapi, paths, refs, routers, schemas
from horarium.api import services as node
from horarium.domain import job, job_parsing, roles

router = routers.of("jobs")

_PATCH = "application/merge-patch+json"
_TRIES = 4


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which a job is put: only while it is at this version, only when its name is free."""

    if_match: int | None = None
    only_new: bool = False


_NONE = Conditions()


@router.get(paths.JOB, responses=openapi.found(schemas.Job), summary="Get a job")
async def get_job(request: Request, who: auth.Reader, ref: str) -> Response:
    """One job by its id, deleted ones too, or by the name that it bears now."""
    known = node.of(request)
    return _shown(await known.catalog.get(who, refs.job(ref)), known.clock.now())


@router.put(paths.JOB, responses={**openapi.found(schemas.Job), **openapi.created(schemas.Job)},
            openapi_extra=openapi.body(schemas.JobInput), summary="Create or replace a job by name")  # fmt: skip
async def put_job(request: Request, who: auth.Declarer, ref: str, raw: bodies.Single) -> Response:
    """201 when the name was free, 200 when a job was replaced. `If-None-Match: *` only creates."""
    known = node.of(request)
    name, body = _name_to_put(ref), bodies.members(raw)
    asked = Conditions(etags.if_match(request), etags.only_new(request))
    made, is_new = await _put(known, who, name, _named(body, name), asked)
    now = known.clock.now()
    return _created(made, now) if is_new else _shown(await known.catalog.get(who, made.id), now)


@router.patch(paths.JOB, responses=openapi.found(schemas.Job),
              openapi_extra=openapi.body(schemas.JobPatch, media_type=_PATCH), summary="Change a job")  # fmt: skip
async def patch_job(request: Request, who: auth.Editor, ref: str, raw: bodies.Single) -> Response:
    """A merge patch (RFC 7396). Runs that exist keep what they were made with; a new schedule counts from now."""
    known = node.of(request)
    patch = bodies.members(raw)
    changed = await known.catalog.patch(who, refs.job(ref), patch, etags.if_match(request))
    return _shown(await known.catalog.get(who, changed.id), known.clock.now())


@router.delete(paths.JOB, status_code=204, responses=openapi.gone(), summary="Delete a job")
async def delete_job(request: Request, who: auth.Editor, ref: str) -> Response:
    """No further run starts, waiting ones are cancelled, running ones go on; the name is free again."""
    await node.of(request).catalog.delete(who, refs.job(ref), etags.if_match(request))
    return answers.nothing()


def _created(made: job.Job, now: datetime) -> Response:
    return answers.with_status(201, job_view.document(job_view.of_new(made), now), job_view.headers_of_new(made))


def _shown(view: job.JobView, now: datetime) -> Response:
    return answers.ok(job_view.document(view, now), etags.of_version(view.job.version))


async def _put(
    known: node.Services, who: job.Actor, name: str, body: dict[str, Any], asked: Conditions
) -> tuple[job.Job, bool]:
    """Put a job as its body says, under the conditions that the client set and those that its role needs.

    Where only the latter fail, somebody was faster: several workers declare the same jobs when they start. Then look again.
    """
    for tries_left in reversed(range(_TRIES)):
        held = await known.catalog.find(who, name)
        spec = job_parsing.parse(body, now=known.clock.now(), held=held.spec if held else None)
        needed = asked if roles.allows(who.role, roles.Right.EDIT) else _to_declare(who, spec, held, asked)
        try:
            return await known.catalog.put(who, name, spec, if_match=needed.if_match, only_new=needed.only_new)
        except errors.StaleVersionError:
            if asked != _NONE or not tries_left:
                raise
    raise AssertionError("the last try returns or raises")


def _to_declare(who: job.Actor, spec: job.JobSpec, held: job.Job | None, asked: Conditions) -> Conditions:
    """A worker's key may declare the jobs of its own code: such as nobody else manages, now or after the change.

    Returns the conditions under which that stays true until the change is made.
    """
    if not (spec.managed_by or "").startswith(roles.DECLARED_BY_SDK):
        detail = f"the role {who.role} may only put jobs with managed_by {roles.DECLARED_BY_SDK}…"
        raise errors.ForbiddenError(detail)
    if held is None:
        return Conditions(asked.if_match, only_new=True)
    if held.spec.managed_by != spec.managed_by:
        owner = held.spec.managed_by or "people"
        raise errors.ForbiddenError(f"the job is managed by {owner}; the role {who.role} may not take it over")
    return Conditions(held.version if asked.if_match is None else asked.if_match, asked.only_new)


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
