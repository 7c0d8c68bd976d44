"""`/docs` and `/openapi.json`: the reference of the API, as one page of our own.

Nothing is loaded from elsewhere and there is no script, so that it works offline and under the strictest policy.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from horarium.api import openapi, routers

router = routers.of("documentation", documented=False)

_STYLE = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "code,pre{font-family:ui-monospace,monospace;font-size:.9em}pre{overflow:auto;padding:.75rem;border:1px solid #8886}"
    "h2{margin-top:2.5rem;border-bottom:1px solid #8886}summary{cursor:pointer}details{margin:.5rem 0}"
    "dt{font-weight:600}dd{margin:0 0 .5rem 1.5rem}.m{display:inline-block;min-width:4.5rem;font-weight:700}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@router.get("/openapi.json")
async def document(request: Request) -> Response:
    """The OpenAPI document."""
    return Response(_prepared(request.app)[0], media_type="application/json")


@router.get("/docs")
async def docs(request: Request) -> Response:
    """The reference page."""
    headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"}
    return Response(_prepared(request.app)[1], 200, headers, "text/html")


@router.get("/")
async def home() -> Response:
    """Where people land who type in the address."""
    return RedirectResponse("docs", 307)


def page(described: dict[str, Any]) -> str:
    """The reference page of a document."""
    sections = "".join(_section(tag, described) for tag in _tags(described))
    info = described["info"]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(info['title'])} API</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>{_text(info['title'])} API {_text(info['version'])}</h1><p>{_text(info['description'])}</p>"
        '<p>Send <code>Authorization: Bearer hrm_…</code>. The same as a document: <a href="openapi.json">openapi.json</a>.'
        f"</p>{sections}{_shapes(described)}</main></body></html>"
    )


def _tags(described: dict[str, Any]) -> list[str]:
    tags = [tag for path in described["paths"].values() for operation in path.values() for tag in operation["tags"]]
    return list(dict.fromkeys(tags))


def _section(tag: str, described: dict[str, Any]) -> str:
    operations = "".join(
        _operation(method, path, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        if tag in operation["tags"]
    )
    return f"<h2>{_text(tag)}</h2>{operations}"


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    right = operation.get("x-horarium-right", "")
    return (
        f'<details><summary><span class="m">{_text(method.upper())}</span> <code>{_text(path)}</code> – '
        f"{_text(operation['summary'])}</summary><p>{_text(operation.get('description', ''))}</p>"
        + (f"<p>Needs the right <code>{_text(right)}</code>.</p>" if right else "")
        + _parameters(operation.get("parameters", []))
        + _request_body(operation.get("requestBody"))
        + "</details>"
    )


def _parameters(parameters: list[dict[str, Any]]) -> str:
    rows = "".join(
        f"<dt><code>{_text(each['name'])}</code> ({_text(each['in'])})</dt><dd>{_text(each.get('description', ''))}</dd>"
        for each in parameters
    )
    return f"<dl>{rows}</dl>" if rows else ""


def _request_body(body: dict[str, Any] | None) -> str:
    if body is None:
        return ""
    links = [f"{_text(media)}: {_link(each['schema'])}" for media, each in body["content"].items()]
    return f"<p>Body: {', '.join(links)}</p>"


def _shapes(described: dict[str, Any]) -> str:
    shapes = "".join(
        f'<details id="{_text(name)}"><summary><code>{_text(name)}</code></summary>'
        f"<pre>{_text(json.dumps(shape, indent=2, ensure_ascii=False))}</pre></details>"
        for name, shape in sorted(described["components"]["schemas"].items())
    )
    return f"<h2>Shapes</h2>{shapes}"


def _link(schema: dict[str, Any]) -> str:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return f'<a href="#{_text(name)}">{_text(name)}</a>'


def _text(value: object) -> str:
    return html.escape(str(value))


@functools.lru_cache(maxsize=1)
def _prepared(app: FastAPI) -> tuple[bytes, bytes]:
    """The document and the page as they are sent: made when first asked for, since starting up must be quick."""
    described = openapi.document(app)
    return openapi.text(described).encode(), page(described).encode()
