"""Who is asking, and whether they may: each route names the right it needs, and gets the actor.

async def pause(ref: str, request: Request, who: auth.Operator) -> Response: ...
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.routing import APIRoute
from starlette.requests import Request

from horarium import errors
from horarium.api import services
from horarium.domain import job, roles


class Needs:
    """A dependency: the actor behind the request's API key, if its role holds the right."""

    def __init__(self, right: roles.Right) -> None:
        self.right = right

    async def __call__(self, request: Request) -> job.Actor:
        known = await services.of(request).keys.authenticate(_token(request))
        if not roles.allows(known.role, self.right):
            able = ", ".join(roles.with_right(self.right))
            raise errors.ForbiddenError(f"the role {known.role} does not allow this; it takes one of: {able}")
        client = request.client
        request_id = request.scope["state"]["request_id"]
        return job.Actor(known.tenant_id, known.name, known.role, client.host if client else None, request_id)


Reader = Annotated[job.Actor, Depends(Needs(roles.Right.READ))]
Enqueuer = Annotated[job.Actor, Depends(Needs(roles.Right.ENQUEUE))]
Declarer = Annotated[job.Actor, Depends(Needs(roles.Right.DECLARE))]
Operator = Annotated[job.Actor, Depends(Needs(roles.Right.OPERATE))]
Editor = Annotated[job.Actor, Depends(Needs(roles.Right.EDIT))]
Admin = Annotated[job.Actor, Depends(Needs(roles.Right.ADMINISTER))]


def right_of(route: APIRoute) -> roles.Right | None:
    """The right that a route needs; None for the few that are open to everyone."""
    for dependency in route.dependant.dependencies:
        if isinstance(dependency.call, Needs):
            return dependency.call.right
    return None


def _token(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise errors.UnauthenticatedError("send an API key: Authorization: Bearer hrm_…")
    return token.strip()
