"""`horarium dlq`: runs that used up their attempts, until somebody retries or discards them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from horarium.cli import job_view, options, output, session, times

AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any])

# The server takes so many at once; more are sent one part after the other.
PART = 500


@click.group()
def dlq() -> None:
    """Look after dead letters: runs that used up their attempts."""


def _filter(command: AnyCommand) -> AnyCommand:
    for decorator in (
        click.option("--since", metavar="TIME", help="Only those dead since: 2h, or an RFC 3339 time."),
        click.option("--error", help="Only those whose error contains this."),
        click.option("--fingerprint", help="Only those that died of the same error."),
        click.option("--queue", help="Only those of this queue."),
        click.option("--job", help="Only those of this job (name or id)."),
    ):
        command = decorator(command)
    return command


@dlq.command("list")
@_filter
@click.option("--group", is_flag=True, help="By error and job, the largest group first.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Most rows to print.")
@options.output()
@options.pass_invocation
def list_(invocation: options.Invocation, /, group: bool, limit: int, **filters: str | None) -> None:
    """List dead letters, the newest run first.

    \b
    horarium dlq list --group
    horarium dlq list --job billing.nightly
    """
    query = {**_query(filters), **({"group": True} if group else {})}
    found = list(session.open_client(invocation).pages("/v1/dead-letters", query, limit=limit))
    output.show_list(invocation, found, _group_columns() if group else _columns(), "fingerprint" if group else "run_id")


@dlq.command()
@click.argument("runs", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All dead letters that fit the filter.")
@_filter
@options.dry_run()
@options.output()
@options.pass_invocation
def retry(
    invocation: options.Invocation, /, runs: tuple[str, ...], everything: bool, dry_run: bool, **filters: str | None
) -> None:
    """Run dead letters again: each becomes a new run with a fresh count of attempts.

    \b
    horarium dlq retry 0193f4c2-5a00-8003-9c1e-5f0a3c4d2e1b
    horarium dlq retry --all --job billing.nightly --dry-run
    """
    _act(invocation, "retry", runs, everything, dry_run, filters)


@dlq.command()
@click.argument("runs", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All dead letters that fit the filter.")
@_filter
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.dry_run()
@options.output()
@options.pass_invocation
def discard(
    invocation: options.Invocation,
    /,
    runs: tuple[str, ...],
    everything: bool,
    yes: bool,
    dry_run: bool,
    **filters: str | None,
) -> None:
    """Take dead letters off the list; the runs stay in the history.

    \b
    horarium dlq discard 0193f4c2-5a00-8003-9c1e-5f0a3c4d2e1b
    horarium dlq discard --all --fingerprint 5f0a3c4d --yes
    """
    if everything and not (yes or dry_run):
        click.confirm("Discard all that fit the filter?", abort=True, err=True)
    _act(invocation, "discard", runs, everything, dry_run, filters)


def _act(
    invocation: options.Invocation,
    verb: str,
    runs: Sequence[str],
    everything: bool,
    dry_run: bool,
    filters: Mapping[str, str | None],
) -> None:
    query = _query(filters)
    if bool(runs) == everything or (runs and query):
        raise click.UsageError("Name runs, or give --all with or without a filter.")
    server = session.open_client(invocation)
    chosen = list(runs) or [letter["run_id"] for letter in server.pages("/v1/dead-letters", query)]
    if dry_run:
        output.say(invocation, f"Would {verb} {len(chosen)} dead letters")
    for part in [] if dry_run else _parts(chosen):
        _report(invocation, verb, server.post(f"/v1/dead-letters:{verb}", {"run_ids": part}))


def _report(invocation: options.Invocation, verb: str, answer: Any) -> None:
    output.say(invocation, f"{verb}: {job_view.compact(answer)}")


def _parts(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[start : start + PART] for start in range(0, len(ids), PART)]


def _query(filters: Mapping[str, str | None]) -> dict[str, str]:
    given = {name: value for name, value in filters.items() if value}
    if "since" in given:
        given["since"] = times.since(given["since"], times.now())
    return given


def _columns() -> list[output.Column]:
    now = times.now()
    return [
        output.Column("RUN", lambda letter: letter["run_id"]),
        output.Column("JOB", _job),
        output.Column("QUEUE", lambda letter: letter["queue"]),
        output.Column("ATTEMPTS", lambda letter: letter["attempts"]),
        output.Column("SINCE", lambda letter: times.both(letter["since"], now)),
        output.Column("ERROR", lambda letter: job_view.first_line(letter["error"])),
    ]


def _group_columns() -> list[output.Column]:
    now = times.now()
    return [
        output.Column("FINGERPRINT", lambda group: group["fingerprint"]),
        output.Column("COUNT", lambda group: group["count"]),
        output.Column("JOB", _job),
        output.Column("LAST", lambda group: times.both(group["last_since"], now)),
        output.Column("ERROR", lambda group: job_view.first_line(group["error"])),
    ]


def _job(letter: output.Item) -> str:
    return str(letter.get("job_name") or letter["job_id"])
