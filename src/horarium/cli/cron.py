"""`horarium cron`: what an expression means, offline."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import click

from horarium.cli import options, output, times

_EXPRESSION = click.argument("expression")
_ZONE = click.option("--tz", "timezone", default="UTC", show_default=True, metavar="ZONE", help="IANA zone.")


@click.group()
def cron() -> None:
    """Explain cron expressions; needs no server."""


@cron.command()
@_EXPRESSION
@_ZONE
@options.output()
@options.pass_invocation
def explain(invocation: options.Invocation, expression: str, timezone: str) -> None:
    """Say in words what an expression does, when it fires next, and what changes of clocks do to it.

    \b
    horarium cron explain "0 9 13 * 5"
    horarium cron explain "30 2 * * *" --tz America/New_York
    """
    from horarium.domain import cron as domain

    now = times.now()
    fires = [_fire(fire, timezone) for fire in islice(_fires(expression, timezone, now), 5)]
    answer = {
        "schedule": expression,
        "timezone": timezone,
        "schedule_text": domain.explain(expression, timezone),
        "next_runs": [fire["at"] for fire in fires],
        "next_runs_local": [fire["local"] for fire in fires],
        "warnings": domain.warnings(expression, timezone, now),
    }
    lines = [
        ("schedule", answer["schedule_text"]),
        ("next", "\n".join(times.both(fire["local"], now) for fire in fires)),
        ("warnings", "\n".join(answer["warnings"])),
    ]
    output.show_one(invocation, answer, lines, "schedule_text")


@cron.command("next")
@_EXPRESSION
@_ZONE
@click.option("--count", type=click.IntRange(1, 10_000), default=5, show_default=True, help="How many.")
@click.option("--after", metavar="TIME", help="Strictly later than this time (RFC 3339).  [default: now]")
@options.output()
@options.pass_invocation
def next_(invocation: options.Invocation, expression: str, timezone: str, count: int, after: str | None) -> None:
    """List the next fires of an expression.

    \b
    horarium cron next "0 2 * * *" --tz Asia/Kolkata --count 3
    horarium cron next "30 2 * * *" --tz America/New_York --after 2026-03-07T12:00:00Z
    """
    now = times.now()
    start = _instant(after) if after else now
    found = [_fire(fire, timezone) for fire in islice(_fires(expression, timezone, start), count)]
    columns = [
        output.Column("LOCAL", lambda fire: times.absolute(times.parse(fire["local"]))),
        output.Column("UTC", lambda fire: times.absolute(times.parse(fire["at"]))),
        output.Column("IN", lambda fire: times.relative(times.parse(fire["at"]), now)),
    ]
    output.show_list(invocation, found, columns, "at")


def _fires(expression: str, timezone: str, after: datetime) -> Iterator[datetime]:
    """The fires after an instant. InvalidScheduleError for what is refused, or never fires."""
    from horarium.domain import schedule

    wanted = schedule.Schedule(schedule.Cron(expression, timezone))
    schedule.check(wanted, after)
    fire = schedule.next_fire(wanted, after)
    while fire is not None:
        yield fire
        fire = schedule.next_fire(wanted, fire)


def _fire(instant: datetime, timezone: str) -> dict[str, Any]:
    from horarium.domain import zones

    return {
        "at": instant.isoformat().replace("+00:00", "Z"),
        "local": instant.astimezone(zones.zone(timezone)).isoformat(),
    }


def _instant(text: str) -> datetime:
    try:
        return times.parse(text).astimezone(UTC)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a time like 2026-12-01T02:00:00Z", param_hint="--after") from None
