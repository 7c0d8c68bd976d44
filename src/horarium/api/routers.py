"""One router for each resource; `api.app` puts their routes into one flat table, where the first that fits is taken."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.routing import APIRoute


def of(resource: str, *, documented: bool = True) -> APIRouter:
    """A router whose operations stand under one heading of the reference, each called like its function."""
    return APIRouter(tags=[resource], generate_unique_id_function=_function_name, include_in_schema=documented)


def _function_name(route: APIRoute) -> str:
    return route.name
