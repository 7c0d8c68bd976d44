"""`horarium runs`: what became of each tick, by hand again, and what it said."""

from __future__ import annotations

import json
from datetime import UTC, timedelta
from typing import Any

import click

from horarium.cli import client, job_view, options, output, session, times, waiting

STATES = ("scheduled", "queued", "running", "succeeded", "failed", "dead", "cancelled", "skipped")


@click.group()
def runs() -> None:
    """Look at runs, wait for them, cancel them, run them again."""


@runs.command("list")
@click.option("--state", type=click.Choice(STATES), help="Only runs in this state.")
@click.option("--job", help="Only runs of this job (name or id).")
@click.option("--queue", help="Only runs of this queue.")
@click.option("--error", help="Only runs whose error contains this.")
@click.option("--since", metavar="TIME", help="Only runs scheduled since: 2h, or an RFC 3339 time.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Most runs to print.")
@options.output()
@options.pass_invocation
def list_(invocation: options.Invocation, /, limit: int, since: str | None, **filters: str | None) -> None:
    """List runs, the newest first.

    \b
    horarium runs list --state dead --since 24h
    horarium runs list --job billing.nightly --limit 5
    """
    wanted = {**filters, "since": times.since(since, times.now()) if since else None}
    found = list(session.open_client(invocation).pages("/v1/runs", wanted, limit=limit))
    output.show_list(invocation, found, job_view.run_columns(times.now()), "id")


@runs.command()
@click.argument("run")
@options.output()
@options.pass_invocation
def get(invocation: options.Invocation, run: str) -> None:
    """Show one run in full: attempts, result, error.

    \b
    horarium runs get 0193f4c2-5a00-8003-9c1e-5f0a3c4d2e1b
    """
    answer = session.open_client(invocation).request("GET", path(run))
    lines = job_view.run_lines(answer.body, times.now())
    output.show_one(invocation, answer.body, lines, "id", raw=answer.raw)


@runs.command()
@click.argument("runs", nargs=-1, required=True)
@options.dry_run()
@options.output()
@options.pass_invocation
def cancel(invocation: options.Invocation, runs: tuple[str, ...], dry_run: bool) -> None:
    """Cancel runs: a waiting one ends at once, the worker of a running one is told at its next heartbeat.

    \b
    horarium runs cancel 0193f4c2-5a00-8003-9c1e-5f0a3c4d2e1b
    """
    server = session.open_client(invocation)
    for run in runs:
        if dry_run:
            found = server.get(path(run))
            output.say(invocation, f"Would cancel {found['id']} of {_job(found)}, which is {found['state']}")
        else:
            server.post(f"{path(run)}/cancel")
            output.say(invocation, f"Cancelled {run}")


@runs.command()
@click.argument("run")
@click.option("--wait", is_flag=True, help="Wait for its end; exit 1 unless it succeeds.")
@click.option("--timeout", type=options.duration, help="Longest time to wait.")
@options.output()
@options.pass_invocation
@click.pass_context
def rerun(ctx: click.Context, invocation: options.Invocation, run: str, wait: bool, timeout: timedelta | None) -> None:
    """Run a finished run again, with its payload, as a new run.

    \b
    horarium runs rerun 0193f4c2-5a00-8003-9c1e-5f0a3c4d2e1b --wait
    """
    server = session.open_client(invocation)
    made = server.post(f"{path(run)}/rerun")
    if wait:
        made = waiting.wait_for_end(server, made["id"], timeout)
    output.show_one(invocation, made, job_view.run_lines(made, times.now()), "id")
    if wait:
        ctx.exit(waiting.exit_code(made))


@runs.command()
@click.argument("run")
@click.option("--timeout", type=options.duration, help="Longest time to wait.")
@options.output()
@options.pass_invocation
@click.pass_context
def wait(ctx: click.Context, invocation: options.Invocation, run: str, timeout: timedelta | None) -> None:
    """Wait until a run has ended; exit 1 unless it succeeded.

    \b
    horarium runs wait 0193f4c2-5a00-8003-9c1e-5f0a3c4d2e1b --timeout 10m
    """
    server = session.open_client(invocation)
    ended = waiting.wait_for_end(
        server, run, timeout, on_change=lambda found: output.say(invocation, f"{found['id']} is {found['state']}")
    )
    output.show_one(invocation, ended, job_view.run_lines(ended, times.now()), "id")
    ctx.exit(waiting.exit_code(ended))


@runs.command()
@click.argument("run")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends; exit 1 unless it succeeds.")
@options.output()
@options.pass_invocation
@click.pass_context
def logs(ctx: click.Context, invocation: options.Invocation, run: str, follow: bool) -> None:
    """Print what a run said.

    \b
    horarium runs logs 0193f4c2-5a00-8003-9c1e-5f0a3c4d2e1b
    horarium runs logs -f 0193f4c2-5a00-8003-9c1e-5f0a3c4d2e1b
    """
    server = session.open_client(invocation)
    if not follow:
        for line in server.pages(f"{path(run)}/logs"):
            _print_line(invocation, line)
        return
    for event, data in server.events(f"{path(run)}/logs", {"follow": 1}):
        if event in {"log", "message"}:
            _print_line(invocation, json.loads(data))
    ended = waiting.wait_for_end(server, run)
    output.say(invocation, f"{ended['id']} is {ended['state']}")
    ctx.exit(waiting.exit_code(ended))


def path(run: str) -> str:
    """The path of a run in the REST API."""
    return f"/v1/runs/{client.segment(run)}"


def _print_line(invocation: options.Invocation, line: dict[str, Any]) -> None:
    if invocation.output in {"json", "jsonl"}:
        click.echo(json.dumps(line, ensure_ascii=False))
        return
    at = times.parse(line["at"]).astimezone(UTC).strftime("%H:%M:%S.%f")[:-3]
    fields = " ".join(f"{name}={value}" for name, value in (line.get("fields") or {}).items())
    text = f"{at} {line.get('level', 'info'):<7} {line.get('message', '')} {fields}".rstrip()
    click.echo(output.clean(text))


def _job(run: output.Item) -> str:
    return str(run.get("job_name") or run["job_id"])
