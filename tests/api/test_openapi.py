"""The OpenAPI document: committed, complete, and true to what the code reads and answers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from horarium.api import app, openapi, routers, schemas
from horarium.domain import job_parsing
from horarium.services import views

COMMITTED = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return openapi.document(app.routes())


def test_the_committed_document_is_the_one_of_this_version(document: dict[str, Any]) -> None:
    assert COMMITTED.read_text("utf-8") == openapi.text(document), (
        "write it anew with `python -m horarium.api.openapi > docs/reference/openapi.json` and look at the difference"
    )


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    def references(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = {value["$ref"]} if "$ref" in value else set()
            return own.union(*(references(member) for member in value.values()))
        return set().union(*(references(element) for element in value)) if isinstance(value, list) else set()

    for reference in references(document):
        found: Any = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        assert found


def test_every_operation_says_what_it_does_and_what_may_go_wrong(document: dict[str, Any]) -> None:
    names = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            names.append(operation["operationId"])
            assert operation["summary"], path
            assert operation["description"], path
            if path.startswith("/v1/"):
                assert operation["security"] == [{"apiKey": []}]
                assert {"401", "403", "422"} <= operation["responses"].keys()
            headers = {each["name"] for each in operation.get("parameters", []) if each["in"] == "header"}
            assert ("Idempotency-Key" in headers) == (method == "post")
            assert ("requestBody" in operation) <= ({"413", "415"} <= operation["responses"].keys())
    assert len(names) == len(set(names))


@pytest.mark.parametrize("model", [schemas.JobInput, schemas.JobPatch])
def test_the_documented_body_of_a_job_has_the_members_that_are_read(model: type[BaseModel]) -> None:
    assert model.model_fields.keys() == job_parsing._READERS.keys()


@pytest.mark.parametrize(
    ("model", "view"),
    [
        (schemas.RunSummary, views.RunSummary),
        (schemas.Run, views.RunDetail),
        (schemas.Attempt, views.Attempt),
        (schemas.LogLine, views.LogLine),
        (schemas.Queue, views.Queue),
        (schemas.Worker, views.Worker),
        (schemas.DeadLetter, views.DeadLetter),
        (schemas.DeadLetterGroup, views.DeadLetterGroup),
    ],
)
def test_documented_answers_have_the_members_of_the_read_models(model: type[BaseModel], view: Any) -> None:
    assert list(model.model_fields) == [field.name for field in dataclasses.fields(view)]


def test_the_examples_are_read_without_fault() -> None:
    from datetime import UTC, datetime

    examples = schemas.JobInput.model_config["json_schema_extra"]["examples"]  # type: ignore[index]
    assert len(examples) == 2  # type: ignore[arg-type]
    for example in examples:  # type: ignore[union-attr]
        body = job_parsing.read_body(json.dumps(example).encode())
        job_parsing.parse(body, now=datetime(2026, 11, 30, tzinfo=UTC))


def test_the_busiest_routes_go_without_the_machinery_of_the_framework() -> None:
    lean = {
        route.path_format
        for route in openapi.routes(app.routes())
        if isinstance(route, routers.LeanRoute) and route.is_lean
    }
    assert {"/v1/jobs", "/v1/jobs:batch"} <= lean
    assert "/v1/jobs/{ref}" not in lean
