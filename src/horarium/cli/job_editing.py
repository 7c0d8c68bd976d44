"""`horarium jobs create` and `update`: a job from flags, or jobs from a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from horarium.cli import client, job_body, job_view, options, output, session, times

AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any])


def _definition(command: AnyCommand) -> AnyCommand:
    """The flags that say what a job is."""
    duration = options.duration
    for decorator in reversed(
        [
            click.option("--schedule", metavar="CRON", help='When, as a cron expression: "0 2 * * *".'),
            click.option("--every", type=duration, help="When, as a fixed interval: 90s, 2h."),
            click.option("--at", metavar="TIME", help="Once, at this time: RFC 3339, local in --tz, or now."),
            click.option("--in", "in_", type=duration, help="Once, after this time: 2h."),
            click.option(
                "--fold", type=click.Choice(["first", "second"]), help="Which, when --at happens twice in --tz."
            ),
            click.option("--tz", "timezone", metavar="ZONE", help="IANA zone of the schedule: Asia/Kolkata."),
            click.option("--handler", help="Run by a worker that has this handler."),
            click.option("--http", metavar="URL", help="Run by a request to this address."),
            click.option("--method", help="Method of the request.  [default: POST]"),
            click.option("--header", "headers", multiple=True, metavar="NAME:VALUE", help="Header of the request."),
            click.option("--command", metavar="PROGRAM", help="Run by starting this program, without a shell."),
            click.option("--arg", "arguments", multiple=True, help="Argument of the program; repeat it."),
            click.option("--env", "environment", multiple=True, metavar="NAME=VALUE", help="Variable of the program."),
            click.option("--cwd", metavar="DIR", help="Working directory of the program."),
            click.option("--payload", type=options.json_text, help="Payload: JSON, or @file."),
            click.option("--queue", help="Queue of its runs.  [default: default]"),
            click.option("--priority", type=click.IntRange(0, 9), help="9 first.  [default: 5]"),
            click.option("--timeout", type=duration, help="Longest time of one attempt.  [default: 5m]"),
            click.option("--jitter", type=duration, help="Spread starts over this time."),
            click.option("--max-attempts", type=click.IntRange(1), help="Tries of a run.  [default: 4]"),
            click.option("--retry", type=options.json_text, metavar="JSON", help="Retry policy in full."),
            click.option("--misfire", type=click.Choice(["run_once", "run_all", "skip"]), help="Missed fires."),
            click.option(
                "--overlap",
                type=click.Choice(["allow", "skip", "queue_one", "queue_all", "cancel_running"]),
                help="When the run before still runs.",
            ),
            click.option("--start-at", metavar="TIME", help="No fire before this time."),
            click.option("--end-at", metavar="TIME", help="No fire after this time."),
            click.option("--expect-within", type=duration, help="Alert unless a run succeeds within this time."),
            click.option("--description", help="What it is for."),
            click.option("--owner", help="Who is told when it fails."),
            click.option("--tag", "tags", multiple=True, help="A tag; repeat it."),
            click.option("-f", "--file", metavar="FILE", help="A job, a list of jobs or a manifest: JSON or YAML."),
        ]
    ):
        command = decorator(command)
    return command


@click.command()
@click.argument("name", required=False)
@_definition
@click.option("--upsert", is_flag=True, help="Change the job if one of this name exists.")
@options.dry_run("Print what would be sent, and send nothing.")
@options.output()
@options.pass_invocation
def create(invocation: options.Invocation, /, upsert: bool, dry_run: bool, file: str | None, **flags: Any) -> None:
    """Create a job from flags, or the jobs of a file.

    \b
    horarium jobs create billing.nightly --schedule "0 2 * * *" --tz Asia/Kolkata --handler billing.run
    horarium jobs create --in 2h --handler email.welcome --payload '{"user_id": 7}'
    horarium jobs create ping --every 1m --http https://example.com/ping
    horarium jobs create -f jobs.yaml --upsert
    """
    bodies = _bodies(file, flags)
    if dry_run:
        _show_bodies(invocation, bodies)
        return
    server = session.open_client(invocation)
    made = [_send(server, body, upsert) for body in output.tracked(bodies, "creating jobs")]
    if len(made) == 1:
        output.show_one(invocation, made[0], job_view.job_lines(made[0], times.now()), "name")
    else:
        output.show_list(invocation, made, job_view.job_columns(times.now()), "name")


@click.command()
@click.argument("job")
@_definition
@click.option("--if-version", type=int, help="Only if the job still has this version.")
@options.dry_run("Print what would change, and change nothing.")
@options.output()
@options.pass_invocation
def update(
    invocation: options.Invocation, /, job: str, if_version: int | None, dry_run: bool, file: str | None, **flags: Any
) -> None:
    """Change a job: what is not named stays as it is. An edit never makes up for past times and never runs at once.

    \b
    horarium jobs update billing.nightly --schedule "0 3 * * *"
    horarium jobs update billing.nightly -f patch.json          a merge patch (RFC 7396): null removes
    """
    body = _single(_bodies(file, flags))
    server = session.open_client(invocation)
    path = f"/v1/jobs/{client.segment(job_body.reference(job))}"
    current = server.get(path)
    if dry_run:
        _show_changes(current, body.as_value())
        return
    version = if_version if if_version is not None else current["version"]
    headers = {"If-Match": f'"{version}"', "Content-Type": "application/merge-patch+json"}
    changed = server.request("PATCH", path, body=body.encode(), headers=headers).body
    output.show_one(invocation, changed, job_view.job_lines(changed, times.now()), "name")


def _bodies(file: str | None, flags: dict[str, Any]) -> Sequence[job_body.Body]:
    given = job_body.from_flags(flags)
    if file is None:
        if not given.members and given.payload is None:
            raise click.UsageError("Say what it is, with flags or with -f FILE.")
        return [given]
    if given.members or given.payload is not None:
        raise click.UsageError("Give flags or -f FILE, not both.")
    from horarium.manifests import reader

    text = options.read_text(file)
    return [job_body.Body(members, payload) for members, payload in reader.read_jobs(text)]


def _single(bodies: Sequence[job_body.Body]) -> job_body.Body:
    if len(bodies) != 1:
        raise click.UsageError("The file must hold one job.")
    return bodies[0]


def _send(server: client.Client, body: job_body.Body, upsert: bool) -> dict[str, Any]:
    name = body.members.get("name")
    if upsert and not name:
        raise click.UsageError("--upsert needs a name.")
    if upsert:
        path = f"/v1/jobs/{client.segment(f'name:{name}')}"
        answer = server.request("PUT", path, body=body.encode())
    else:
        answer = server.request("POST", "/v1/jobs", body=body.encode())
    made: dict[str, Any] = answer.body
    return made


def _show_bodies(invocation: options.Invocation, bodies: Sequence[job_body.Body]) -> None:
    shown = [body.as_value() for body in bodies]
    output.show_value(invocation, shown[0] if len(shown) == 1 else shown)


def _show_changes(current: dict[str, Any], patch: dict[str, Any]) -> None:
    changes = [
        (name, job_view.compact(current.get(name)) or job_view.DASH, job_view.compact(value) or job_view.DASH)
        for name, value in patch.items()
        if current.get(name) != value
    ]
    if changes:
        output.table(["FIELD", "NOW", "THEN"], changes)
    else:
        click.echo("Nothing would change.")
