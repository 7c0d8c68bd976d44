"""Errors become problem documents (RFC 9457).

    {"type": "urn:horarium:problem:never-fires", "title": …, "status": 422, "detail": …, "request_id": …,
     "errors": [{"pointer": "/schedule", "detail": …, "code": "never_fires"}]}

`type` is stable and for programs; it is the code of the fault when all faults share one. `errors` names all faults at
once: `pointer` is a JSON Pointer into the body, or `/query/<name>`, `/header/<name>`, `/path/<name>` for what is not in
the body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
import structlog
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from horarium import errors
from horarium.domain import job_fields
from horarium.protocol import problems

_log = structlog.get_logger("horarium.api")


def document(scope: Scope, error: errors.HorariumError) -> dict[str, Any]:
    """The problem document of an error."""
    faults = error.faults if isinstance(error, errors.InvalidError) else ()
    return _document(scope, problems.status_of(error), problems.type_of(error), error.title, str(error), faults)


def of_error(scope: Scope, error: errors.HorariumError) -> Response:
    """The answer to a request that ended in an error of ours."""
    content = document(scope, error)
    return _answer(content, problems.headers_of(error))


def of_status(scope: Scope, status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """The answer that says no more than a status does: no such route, not this method."""
    phrase = HTTPStatus(status).phrase
    return _answer(_document(scope, status, problems.type_of_status(status), phrase, detail), headers or {})


def of_crash(scope: Scope) -> Response:
    """The answer to a request that met a fault of ours: all it tells is what to look for in the log."""
    detail = "this is a fault of the server; its log has more under the request id"
    return _answer(_document(scope, 500, problems.PREFIX + "internal", "Internal error", detail), {})


async def on_error(request: Request, error: Exception) -> Response:
    """Exception handler for HorariumError. An error that stands for no answer is a fault of ours and travels on."""
    if not isinstance(error, errors.HorariumError) or not problems.is_answer(error):
        raise error
    if isinstance(error, errors.UnavailableError):
        _log.warning("unavailable", path=request.url.path, reason=str(error))
    return of_error(request.scope, error)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Exception handler for what the router refuses: 404, 405."""
    if not isinstance(error, HTTPException):
        raise error
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_allowed(request))
    return of_status(request.scope, error.status_code, _explained(request, error), headers)


async def on_validation_error(request: Request, error: Exception) -> Response:
    """Exception handler for parameters of a query or path that are not as the route declares them."""
    if not isinstance(error, RequestValidationError):
        raise error
    faults = [_fault(request, item) for item in error.errors()]
    return of_error(request.scope, errors.InvalidError(faults))


def _document(
    scope: Scope, status: int, kind: str, title: str, detail: str, faults: Sequence[errors.Fault] = ()
) -> dict[str, Any]:
    content: dict[str, Any] = {
        "type": kind,
        "title": title,
        "status": status,
        "detail": detail,
        "request_id": scope.get("state", {}).get("request_id"),
    }
    if faults:
        content["errors"] = faults
    return content


def _answer(content: dict[str, Any], headers: Mapping[str, str]) -> Response:
    return Response(msgspec.json.encode(content), content["status"], dict(headers), problems.MEDIA_TYPE)


def _explained(request: Request, error: HTTPException) -> str:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return f"there is no {request.url.path}; /openapi.json lists what there is"
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return f"{request.url.path} does not take {request.method}"
    return str(error.detail)


def _allowed(request: Request) -> list[str]:
    """The methods that the path of a request takes; the router itself tells those of one route only."""
    routes = [route for route in request.app.routes if isinstance(route, APIRoute)]
    fitting = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in fitting for method in route.methods or ()})


def _fault(request: Request, item: Mapping[str, Any]) -> errors.Fault:
    pointer = "".join(f"/{part}" for part in item["loc"])
    if item["type"] == "extra_forbidden":
        name = str(item["loc"][-1])
        detail = f"there is no parameter {job_fields.shown(name)}{job_fields.suggestion(name, _parameters(request))}"
        return errors.Fault(pointer, detail, "unknown_parameter")
    return errors.Fault(pointer, str(item["msg"]), str(item["type"]))


def _parameters(request: Request) -> list[str]:
    """The query parameters that the route of a request knows."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute):
        return []
    models = [parameter.field_info.annotation for parameter in route.dependant.query_params]
    return [name for model in models for name in getattr(model, "model_fields", {})]
