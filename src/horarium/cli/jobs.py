"""`horarium jobs`: define, list and steer jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from horarium.cli import client, job_body, job_editing, job_view, options, output, session, times, waiting


@click.group()
def jobs() -> None:
    """Define, list and steer jobs. A job is named by its name or its id."""


jobs.add_command(job_editing.create)
jobs.add_command(job_editing.update)


@jobs.command("list")
@click.option(
    "--status",
    type=click.Choice(["active", "paused", "finished", "cancelled", "error"]),
    help="Only jobs in this state.",
)
@click.option("--queue", help="Only jobs of this queue.")
@click.option("--tag", help="Only jobs with this tag.")
@click.option("--name", help="Only the job of this name; billing.* for all that begin so.")
@click.option("--due-before", metavar="TIME", help="Only jobs whose next run is before this time.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Most jobs to print.")
@click.option("--all", "everything", is_flag=True, help="Print all of them.")
@options.output()
@options.pass_invocation
def list_(invocation: options.Invocation, /, limit: int, everything: bool, **filters: str | None) -> None:
    """List jobs: what each does next, and how its last run ended.

    \b
    horarium jobs list
    horarium jobs list --status paused --tag finance -o json
    """
    found = list(session.open_client(invocation).pages("/v1/jobs", filters, limit=None if everything else limit))
    output.show_list(invocation, found, job_view.job_columns(times.now()), "name")
    if not everything and len(found) == limit:
        output.say(invocation, f"The first {limit} only: --limit or --all shows more.")


@jobs.command()
@click.argument("job")
@options.output()
@options.pass_invocation
def get(invocation: options.Invocation, job: str) -> None:
    """Show one job in full.

    \b
    horarium jobs get billing.nightly
    horarium jobs get billing.nightly -o yaml
    """
    answer = session.open_client(invocation).request("GET", path(job))
    lines = job_view.job_lines(answer.body, times.now())
    output.show_one(invocation, answer.body, lines, "name", raw=answer.raw)


@jobs.command()
@click.argument("jobs", nargs=-1, required=True)
@options.dry_run()
@options.output()
@options.pass_invocation
def delete(invocation: options.Invocation, jobs: tuple[str, ...], dry_run: bool) -> None:
    """Delete jobs: no further run starts, runs that wait are cancelled, running ones go on.

    \b
    horarium jobs delete billing.nightly
    horarium jobs delete billing.nightly reports.weekly --dry-run
    """
    server = session.open_client(invocation)
    for job in jobs:
        if dry_run:
            found = server.get(path(job))
            waits = times.both(found.get("next_run_at"), times.now())
            output.say(invocation, f"Would delete {_label(found)}; its next run: {waits}")
        else:
            server.request("DELETE", path(job))
            output.say(invocation, f"Deleted {job}")


@jobs.command()
@click.argument("jobs", nargs=-1, required=True)
@click.option("--reason", help="Why; kept and shown with the job.")
@click.option("--until", metavar="TIME", help="When the pause ends by itself (RFC 3339).")
@click.option("--for", "for_", type=options.duration, help="How long the pause lasts, such as 2h.")
@options.output()
@options.pass_invocation
def pause(
    invocation: options.Invocation, jobs: tuple[str, ...], reason: str | None, until: str | None, for_: timedelta | None
) -> None:
    """Pause jobs: no new run starts, running ones go on.

    \b
    horarium jobs pause billing.nightly --reason "bank holiday" --for 24h
    """
    if until and for_:
        raise click.UsageError("Give --until or --for, not both.")
    end = times.rfc3339(times.now() + for_) if for_ else until
    body = {name: value for name, value in (("reason", reason), ("until", end)) if value}
    server = session.open_client(invocation)
    for job in jobs:
        server.post(f"{path(job)}/pause", body)
        output.say(invocation, f"Paused {job}")


@jobs.command()
@click.argument("jobs", nargs=-1, required=True)
@click.option(
    "--catch-up",
    type=click.Choice(["run_once", "run_all", "skip"]),
    help="What to do about the time in pause: one run, a run for each tick, or nothing.",
)
@options.output()
@options.pass_invocation
def resume(invocation: options.Invocation, jobs: tuple[str, ...], catch_up: str | None) -> None:
    """Resume paused jobs from now on.

    \b
    horarium jobs resume billing.nightly
    horarium jobs resume billing.nightly --catch-up run_once
    """
    server = session.open_client(invocation)
    for job in jobs:
        server.post(f"{path(job)}/resume", {"catch_up": catch_up} if catch_up else {})
        output.say(invocation, f"Resumed {job}")


@jobs.command()
@click.argument("job")
@click.option("--payload", type=options.json_text, help="Payload of this run only: JSON, or @file.")
@click.option("--wait", is_flag=True, help="Wait for its end; exit 1 unless it succeeds.")
@click.option("--timeout", type=options.duration, help="Longest time to wait.")
@options.output()
@options.pass_invocation
@click.pass_context
def run(
    ctx: click.Context,
    invocation: options.Invocation,
    job: str,
    payload: str | None,
    wait: bool,
    timeout: timedelta | None,
) -> None:
    """Run a job now; its schedule stays as it is. Works for paused jobs, too.

    \b
    horarium jobs run billing.nightly --wait
    horarium jobs run email.welcome --payload '{"user_id": 7}'
    """
    server = session.open_client(invocation)
    body = job_body.Body({}, payload)
    made = server.post(f"{path(job)}/run", body.encode())
    if wait:
        made = waiting.wait_for_end(server, made["id"], timeout)
    output.show_one(invocation, made, job_view.run_lines(made, times.now()), "id")
    if wait:
        ctx.exit(waiting.exit_code(made))


@jobs.command("next")
@click.argument("job")
@click.option("--count", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many.")
@options.output()
@options.pass_invocation
def next_(invocation: options.Invocation, job: str, count: int) -> None:
    """Show when a job runs next.

    \b
    horarium jobs next billing.nightly --count 10
    """
    answer = session.open_client(invocation).get(f"{path(job)}/next", {"count": count})
    fires = _fires(answer)
    now = times.now()
    columns = [
        output.Column("UTC", lambda fire: times.absolute(times.parse(fire["at"]))),
        output.Column("LOCAL", lambda fire: times.absolute(times.parse(fire["local"]))),
        output.Column("IN", lambda fire: times.relative(times.parse(fire["at"]), now)),
    ]
    output.show_list(invocation, fires, columns, "at")


@jobs.command()
@click.argument("job")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Most runs to print.")
@options.output()
@options.pass_invocation
def runs(invocation: options.Invocation, job: str, limit: int) -> None:
    """List the latest runs of a job.

    \b
    horarium jobs runs billing.nightly --limit 5
    """
    found = list(session.open_client(invocation).pages(f"{path(job)}/runs", limit=limit))
    output.show_list(invocation, found, job_view.run_columns(times.now()), "id")


@jobs.command()
@click.argument("job")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Most rows to print.")
@options.output()
@options.pass_invocation
def skips(invocation: options.Invocation, job: str, limit: int) -> None:
    """List the ticks of a job that did not become a run, and why.

    \b
    horarium jobs skips billing.nightly
    """
    found = list(session.open_client(invocation).pages(f"{path(job)}/skips", limit=limit))
    now = times.now()
    columns = [
        output.Column("REASON", lambda skip: skip["reason"]),
        output.Column("COUNT", lambda skip: f"{skip['count']}{'' if skip.get('exact', True) else ' or more'}"),
        output.Column("FIRST", lambda skip: times.both(skip["first"], now)),
        output.Column("LAST", lambda skip: times.both(skip["last"], now)),
        output.Column("COALESCED INTO", lambda skip: skip.get("coalesced_into") or job_view.DASH),
    ]
    output.show_list(invocation, found, columns, "id")


def path(job: str) -> str:
    """The path of a job in the REST API."""
    return f"/v1/jobs/{client.segment(job_body.reference(job))}"


def _fires(answer: Any) -> list[dict[str, str]]:
    """The instants of an answer, each with its local twin (the same where the server gives none)."""
    instants = answer["next_runs"]
    local = answer.get("next_runs_local") or instants
    return [{"at": at, "local": twin} for at, twin in zip(instants, local, strict=True)]


def _label(job: output.Item) -> str:
    return str(job.get("name") or job["id"])
