"""The OpenAPI 3.1 document: what FastAPI finds in the routes, and what it cannot know.

FastAPI sees paths, queries and the shapes of answers. Bodies are read by `domain.job_parsing`, so their shapes are put
in here; so are the rights, the problem documents and the headers that many routes share.

Run as a module it writes the document to standard output: `python -m horarium.api.openapi >
docs/reference/openapi.json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from horarium.api import auth, schemas
from horarium.protocol import problems

Responses = dict[int | str, dict[str, Any]]
Object = dict[str, Any]

_SCHEMAS = "#/components/schemas/"
_TITLE = "Horarium"
_DESCRIPTION = (
    "Jobs that run on time, at least once. Times are RFC 3339 in UTC; ids sort by time; a job is named by its id or as "
    "`name:<name>`. Errors are problem documents (RFC 9457) that name all faults at once."
)

# What people read beside a status. `default` stands for faults of the server.
_PROBLEMS = {
    "401": "No API key, or one that is unknown, revoked or expired.",
    "403": "The key's role does not allow this.",
    "404": "There is no such thing in this tenant.",
    "409": "It exists already, or is in a state that does not allow this.",
    "412": "`If-Match` named a version that is no longer the current one.",
    "413": "The body, or the payload in it, is over its limit.",
    "415": "The body is not JSON.",
    "422": "The input is wrong; `errors` names every fault.",
    "429": "Over a quota or limit; try again after `Retry-After` seconds.",
    "503": "The database cannot be asked right now, or the filter is too broad to be answered in time.",
}
_WITH_BODY = ("post", "put", "patch")
_VERSIONED = ("put", "patch", "delete")

_IDEMPOTENCY_KEY: Object = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key and body do the thing once; for 24 hours the answer is replayed.",
    "schema": {"type": "string", "maxLength": 255, "pattern": "^[!-~]+$"},
}
_IF_MATCH: Object = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "description": 'Change it only while it is at this version: the `ETag` of the job, such as `"7"`.',
    "schema": {"type": "string", "pattern": '^("[0-9]{1,10}"|\\*)$'},
}
_IF_NONE_MATCH: Object = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "`*`: create, and never replace.",
    "schema": {"type": "string", "enum": ["*"]},
}


def found(model: type[BaseModel]) -> Responses:
    """One thing."""
    return {200: {"model": model, "description": "Found."}}


def page(model: type[BaseModel]) -> Responses:
    """One page of a list."""
    return {200: {"model": schemas.Page[model], "description": "One page."}}  # type: ignore[valid-type]


def created(model: type[BaseModel]) -> Responses:
    """A new thing."""
    return {201: {"model": model, "description": "Made."}}


def done(status: int, model: type[BaseModel]) -> Responses:
    """Something was done, and this is what came of it."""
    return {status: {"model": model, "description": "Done."}}


def gone() -> Responses:
    """Something was done, and there is nothing to tell."""
    return {204: {"description": "Done."}}


def logs() -> Responses:
    """A page of log lines, or a stream of them."""
    stream = {"text/event-stream": {"schema": {"type": "string"}}}
    return {200: {"model": schemas.Page[schemas.LogLine], "content": stream, "description": "Lines in their order."}}


def body(model: type[BaseModel], *, required: bool = True, media_type: str = "application/json") -> Object:
    """The documented body of a route that reads its own."""
    content = {media_type: {"schema": {"$ref": _SCHEMAS + model.__name__}}}
    return {"requestBody": {"required": required, "content": content}}


def document(app: FastAPI) -> Object:
    """The whole document."""
    described = get_openapi(
        title=_TITLE, version=app.version, description=_DESCRIPTION, routes=app.routes, openapi_version="3.1.0"
    )
    described["paths"] = _sorted(described["paths"])
    components = described.setdefault("components", {})
    known = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        known.pop(name, None)
    known.update(_inputs(known))
    known.update(_schema_of(schemas.Problem))
    components["securitySchemes"] = {"apiKey": {"type": "http", "scheme": "bearer", "bearerFormat": "hrm_…"}}
    components["responses"] = {_problem_name(status): _problem(text) for status, text in _PROBLEMS.items()}
    for route in routes(app):
        for method in route.methods or () if route.include_in_schema else ():
            _complete(route, method.lower(), described["paths"][route.path_format][method.lower()])
    return described


def text(described: Object) -> str:
    """The document as it is committed."""
    return json.dumps(described, indent=2, ensure_ascii=False) + "\n"


def routes(app: FastAPI) -> Iterator[APIRoute]:
    """All routes of the application."""
    return (route for route in app.routes if isinstance(route, APIRoute))


def _sorted(paths: Object) -> Object:
    """Paths by resource, in the order of the routers, and within one by name."""
    tags = [tag for operations in paths.values() for operation in operations.values() for tag in operation["tags"]]
    places = {tag: place for place, tag in enumerate(dict.fromkeys(tags))}
    return dict(sorted(paths.items(), key=lambda item: (places[next(iter(item[1].values()))["tags"][0]], item[0])))


def _complete(route: APIRoute, method: str, operation: Object) -> None:
    """Add to one operation what FastAPI cannot see."""
    responses: Object = operation["responses"]
    responses.pop("422", None)
    responses.update(
        {status: {"$ref": f"#/components/responses/{_problem_name(status)}"} for status in _may(route, method)}
    )
    right = auth.right_of(route)
    if right is not None:
        operation["security"] = [{"apiKey": []}]
        operation["x-horarium-right"] = right.value
    operation.setdefault("parameters", []).extend(_headers(route, method))
    if not operation["parameters"]:
        del operation["parameters"]


def _may(route: APIRoute, method: str) -> list[str]:
    """The problems that an operation may answer with."""
    if auth.right_of(route) is None:
        return []
    statuses = ["401", "403", "422", "429", "503"]
    if "{" in route.path_format or "job" in set(_query_names(route)):
        statuses.append("404")
    if method in _WITH_BODY:
        statuses += ["409", "413", "415"]
    if method in _VERSIONED and "/v1/jobs/" in route.path_format:
        statuses += ["409", "412"]
    return sorted(set(statuses))


def _headers(route: APIRoute, method: str) -> list[Object]:
    headers = [_IDEMPOTENCY_KEY] if method == "post" else []
    if method in _VERSIONED and "/v1/jobs/" in route.path_format:
        headers.append(_IF_MATCH)
    if method == "put":
        headers.append(_IF_NONE_MATCH)
    return headers


def _query_names(route: APIRoute) -> Iterator[str]:
    for parameter in route.dependant.query_params:
        yield from getattr(parameter.field_info.annotation, "model_fields", {parameter.name: None})


def _problem(description: str) -> Object:
    content = {problems.MEDIA_TYPE: {"schema": {"$ref": f"{_SCHEMAS}Problem"}}}
    return {"description": description, "content": content}


def _problem_name(status: str) -> str:
    return f"Problem{status}"


def _schema_of(model: type[BaseModel]) -> Object:
    """A model and the models in it, as components."""
    _, definitions = models_json_schema([(model, "serialization")], ref_template=_SCHEMAS + "{model}")
    return dict(definitions["$defs"])


def _inputs(known: Object) -> Object:
    """The shapes of bodies. One that an answer has in another form under the same name gets a name of its own."""
    _, definitions = models_json_schema(
        [(model, "validation") for model in schemas.BODIES], ref_template=_SCHEMAS + "{model}"
    )
    shapes = definitions["$defs"]
    clashing = {name for name in shapes.keys() & known.keys() if shapes[name] != known[name]}
    source = json.dumps(shapes)
    for name in clashing:
        source = source.replace(f'"{_SCHEMAS}{name}"', f'"{_SCHEMAS}{name}Input"')
    return {f"{name}Input" if name in clashing else name: shape for name, shape in json.loads(source).items()}


def main() -> None:
    """Write the document of this version to standard output."""
    from horarium.api import app

    sys.stdout.write(text(document(app.routes())))


if __name__ == "__main__":
    main()
