"""`/v1/cron`: what an expression does, before any job has it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from horarium import errors
from horarium.api import answers, auth, job_view, lists, openapi, routers, schemas, services
from horarium.domain import cron, schedule

router = routers.of("cron")


class ExplainQuery(BaseModel):
    """An expression, and from when on."""

    model_config = ConfigDict(extra="forbid")

    schedule: str = Field(max_length=1000, examples=["0 2 * * *"])
    timezone: str = Field("UTC", max_length=200, examples=["Asia/Kolkata"])
    count: int = Field(5, ge=1, le=100, description="How many fires.")
    after: lists.Instant | None = Field(None, description="The fires after this instant; now, unless stated.")


@router.get("/v1/cron/explain", responses=openapi.found(schemas.Explanation), summary="Explain a cron expression")
async def explain(request: Request, who: auth.Reader, query: Annotated[ExplainQuery, Query()]) -> Response:
    """In words, with its next fires and what changes of clocks do to it. 422 for one that is refused or never fires."""
    after = query.after or services.of(request).clock.now()
    try:
        return answers.ok(_explained(query, after))
    except errors.InvalidError as error:
        raise _of_query(error) from None


def _explained(query: ExplainQuery, after: datetime) -> dict[str, object]:
    plan = schedule.Schedule(schedule.Cron(query.schedule, query.timezone))
    schedule.check(plan, after)
    fires: list[datetime] = []
    while len(fires) < query.count:
        fire = schedule.next_fire(plan, fires[-1] if fires else after)
        if fire is None:
            break
        fires.append(fire)
    return {
        "schedule": query.schedule,
        "timezone": query.timezone,
        "schedule_text": cron.explain(query.schedule, query.timezone),
        "warnings": cron.warnings(query.schedule, query.timezone, after),
        "next_runs": fires,
        "next_runs_local": job_view.local_times(fires, query.timezone),
    }


def _of_query(error: errors.InvalidError) -> errors.InvalidError:
    """The same faults, pointing into the query instead of a body."""
    return errors.InvalidError(
        [errors.Fault(f"/query{fault.pointer}", fault.detail, fault.code) for fault in error.faults]
    )
